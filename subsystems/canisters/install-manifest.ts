import { readFile } from 'node:fs/promises';
import { type Logger, messageOf, ServerError } from '../../kernel/index.ts';
import type { Compiler } from '../compiler/index.ts';
import type { Manifest, ManifestActor } from '../manifest/index.ts';
import type { Canisters } from './index.ts';

/** The anonymous principal: who installs the manifest's actors (decisions.md). */
const ANONYMOUS = Uint8Array.of(4);

export interface InstallManifestDependencies {
  readonly canisters: Pick<Canisters, 'install'>;
  readonly manifest: Manifest;
  readonly compiler: Compiler;
  readonly log: Logger;
}

/** Installs every actor of the manifest. What fails is announced and given to `reject`; a manifest that cannot be read fails the start. */
export async function installManifest(
  { canisters, manifest, compiler, log }: InstallManifestDependencies,
  progress: (note: string) => void,
  reject: (name: string, reason: string) => void,
): Promise<void> {
  progress('reading the manifest');
  const actors = await manifest.read();
  for (const [index, actor] of actors.entries()) {
    const place = `(${index + 1} of ${actors.length})`;
    try {
      progress(`${actor.source.kind === 'main' ? 'compiling' : 'reading'} ${actor.name} ${place}`);
      const bytes = await moduleOf(actor, compiler, log);
      const candidText =
        actor.candidFile === undefined ? undefined : (await readNamed(actor.candidFile)).toString('utf8');
      progress(`installing ${actor.name} ${place}`);
      const { args, cycles, env } = actor;
      await canisters.install(actor.name, bytes, { argument: args, caller: ANONYMOUS, cycles, candidText, env });
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      reject(actor.name, messageOf(error));
      log.announce(`REJECTED ${actor.name} ${messageOf(error)}`);
    }
  }
}

async function moduleOf(actor: ManifestActor, compiler: Compiler, log: Logger): Promise<Uint8Array> {
  if (actor.source.kind === 'wasm') return await readNamed(actor.source.file);
  const compiled = await compiler.compile(actor.source.file, { name: actor.name });
  for (const warning of compiled.warnings) log.warn(warning);
  return compiled.wasm;
}

async function readNamed(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new ServerError('invalid', 'manifest-file-unreadable', `cannot read ${file}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
