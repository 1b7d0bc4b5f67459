/**
 * `--check`: does the work of a start and starts nothing, for a pipeline that deploys. It reads the manifest, compiles
 * and checks each module, and reads the whole state without changing it, or the backup of `--restore`. Flags and
 * plugins are checked by then.
 *
 * Each finding is a line on stdout, or with `--log-json` all of them are one JSON object. Exit codes: 0 if a start
 * would succeed, 1 if not.
 */
import { createHash } from 'node:crypto';
import { messageOf, ServerError } from '../kernel/index.ts';
import { candidTextOf, ManifestModules } from '../subsystems/canisters/manifest-modules.ts';
import { createBearerAuth } from '../subsystems/auth/bearer-auth.ts';
import { readTokenFile } from '../subsystems/auth/token-file.ts';
import { createCompiler } from '../subsystems/compiler/motoko-compiler.ts';
import { ModuleLoader } from '../subsystems/execution/pool/module-loader.ts';
import { CanisterIds, principalToText } from '../subsystems/ic/index.ts';
import type { ManifestActor } from '../subsystems/manifest/index.ts';
import { createManifest } from '../subsystems/manifest/manifest-file.ts';
import { verifyBackup } from '../subsystems/storage/restore.ts';
import { verifyState } from '../subsystems/storage/verify-state.ts';
import type { LoadedPlugin } from '../plugins/loader/index.ts';
import type { Request } from './load.ts';
import { indented } from './printable.ts';

type CheckRequest = Extract<Request<LoadedPlugin>, { kind: 'serve' }>;

interface Finding {
  /** `flags`, `manifest`, `actor counter`, `backup`, `state`. */
  readonly what: string;
  readonly ok: boolean;
  readonly text: string;
}

/** Checks, prints what was found, and returns the exit code. */
export async function check(request: CheckRequest): Promise<number> {
  const findings: Finding[] = [{ what: 'flags', ok: true, text: ['understood', ...request.warnings].join('; ') }];
  findings.push(...(await checkTokens(request)), ...(await checkJwts(request)));
  const actors = await manifestOf(request, findings);
  findings.push(...(await checkActors(request, actors)));
  if (request.restore !== undefined) findings.push(await checkBackup(request.restore));
  findings.push(await checkState(request));
  const isOk = findings.every(({ ok }) => ok);
  const lines = request.log.isJson
    ? [JSON.stringify({ ok: isOk, findings })]
    : findings.map(({ what, ok, text }) => indented(`${ok ? 'ok' : 'FAILED'} ${what}: ${text}`));
  process.stdout.write(`${lines.join('\n')}\n`);
  return isOk ? 0 : 1;
}

/** Returns a finding of work that either says something or is refused. */
async function found(what: string, work: () => Promise<string>): Promise<Finding> {
  try {
    return { what, ok: true, text: await work() };
  } catch (error) {
    // Anything else is a bug.
    if (!(error instanceof ServerError)) throw error;
    return { what, ok: false, text: messageOf(error) };
  }
}

/** Reads the file of `--tokens`. */
async function checkTokens({ config, disabled }: CheckRequest): Promise<readonly Finding[]> {
  const { tokensFile } = config.auth;
  if (tokensFile === undefined || disabled.has('auth')) return [];
  const finding = await found('tokens', async () => {
    const { lines, warnings } = readTokenFile(tokensFile);
    return [`${lines.length} token(s) in ${tokensFile}`, ...warnings].join('; ');
  });
  return [finding];
}

/** Checks scopes and the file of keys; an issuer is not asked. */
async function checkJwts({ config, disabled }: CheckRequest): Promise<readonly Finding[]> {
  const { jwt } = config.auth;
  if (jwt === undefined || disabled.has('auth')) return [];
  const finding = await found('jwt', async () => {
    createBearerAuth({ token: undefined, jwt });
    return `${jwt.may.length} scope(s) for users of ${jwt.issuers.join(' ')}`;
  });
  return [finding];
}

async function manifestOf({ config, disabled }: CheckRequest, findings: Finding[]): Promise<readonly ManifestActor[]> {
  if (disabled.has('manifest')) return [];
  let actors: readonly ManifestActor[] = [];
  const finding = await found('manifest', async () => {
    actors = await createManifest(config.manifest).read();
    return `${actors.length} actor(s) in ${config.manifest.file}`;
  });
  findings.push(finding);
  return actors;
}

/** Compiles, checks and instruments each module, as a start does; warnings of the compiler stand in the finding. */
async function checkActors({ config }: CheckRequest, actors: readonly ManifestActor[]): Promise<readonly Finding[]> {
  // Nothing is written to the state directory; what was compiled is kept in the user's cache, as ever.
  const compiler = createCompiler({ ...config.compiler, cacheDirectory: undefined });
  const loader = new ModuleLoader({ ...config.execution, cacheDirectory: undefined });
  const ids = new CanisterIds();
  const principals = new Map(actors.map(({ name }) => [name, principalToText(ids.next())]));
  const warnings: string[] = [];
  const nothing = (): void => undefined;
  const over = new AbortController();
  const silent = { debug: nothing, info: nothing, error: nothing, event: nothing, announce: nothing };
  const modules = new ManifestModules({
    compiler,
    execution: { prepare: async (bytes) => (await loader.load(bytes)).info, expect: nothing },
    log: { ...silent, warn: (text) => void warnings.push(text) },
    actors,
    principalOf: (name) => principals.get(name),
  });
  try {
    for (const actor of actors) modules.expect(actor, over.signal);
    const findings: Finding[] = [];
    for (const actor of actors) {
      const finding = await found(`actor ${actor.name}`, async () => {
        const bytes = await modules.moduleOf(actor);
        await candidTextOf(actor);
        const { info } = await loader.load(bytes);
        const hash = createHash('sha256').update(bytes).digest('hex');
        return `${bytes.length} bytes, ${info.pointerWidth}-bit, sha256 ${hash.slice(0, 12)}`;
      });
      findings.push({ ...finding, text: [finding.text, ...warnings.splice(0)].join('\n') });
    }
    return findings;
  } finally {
    over.abort();
    await Promise.all([compiler.close(), loader.close()]);
  }
}

/** Reads the backup whole: a download that was cut off, or a damaged disk, is found before the day it is needed. */
function checkBackup({ file, directory }: NonNullable<CheckRequest['restore']>): Promise<Finding> {
  return found('backup', async () => {
    const { entries, bytes } = await verifyBackup(file, directory);
    return `${entries} entries (${bytes} bytes) in ${file}`;
  });
}

async function checkState({ config, loaded }: CheckRequest): Promise<Finding> {
  const plugin = loaded.find(({ replaces, wraps }) => replaces === 'storage' && !wraps);
  if (plugin !== undefined) return { what: 'state', ok: true, text: `kept by ${plugin.module}, and not looked at` };
  const { directory, tables } = config.storage;
  if (directory === undefined) return { what: 'state', ok: true, text: 'none: everything lives in memory' };
  return found('state', async () => {
    const { exists, entries, bytes } = await verifyState(directory, tables);
    return exists ? `${entries} entries (${bytes} bytes) in ${directory}` : `none yet in ${directory}`;
  });
}
