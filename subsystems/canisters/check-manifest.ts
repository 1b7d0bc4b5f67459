import { defineCapability, messageOf, ServerError } from '../../kernel/index.ts';
import type { ModuleInfo } from '../execution/index.ts';
import type { ManifestActor } from '../manifest/index.ts';
import type { Deployments } from './deployments.ts';
import { type InstallManifestDependencies, publicIds, sourceOf } from './install-manifest.ts';
import { candidTextOf, ManifestModules } from './manifest-modules.ts';

/** Finding of one actor of a manifest: its module, or why it would be rejected. */
export type CheckedActor =
  | { readonly name: string; readonly bytes: number; readonly module: ModuleInfo }
  | { readonly name: string; readonly problem: string };

/** Says of each actor of a manifest whether it could be installed (`--check`). */
export interface ManifestCheck {
  /**
   * Reads, compiles and checks as an installation does, until a message of the actor would run. Installs nothing.
   */
  check(actors: readonly ManifestActor[]): AsyncIterable<CheckedActor>;
}
export const ManifestCheck = defineCapability<ManifestCheck>('manifest-check');

type CheckNeeds = Pick<InstallManifestDependencies, 'compiler' | 'execution' | 'log' | 'ids' | 'assets'> & {
  readonly canisters: Pick<InstallManifestDependencies['canisters'], 'named'>;
  readonly deployments: Pick<Deployments, 'prepared'>;
};

/** Checks each actor with what installs it. Anything but a ServerError is a bug of the server. */
export async function* checkManifest(
  { compiler, execution, log, ids, assets, canisters, deployments }: CheckNeeds,
  actors: readonly ManifestActor[],
): AsyncGenerator<CheckedActor> {
  const principals = publicIds(actors, { canisters, ids });
  const principalOf = (name: string): string | undefined => principals.get(name);
  const modules = new ManifestModules({ compiler, execution, log, actors: actors.map(sourceOf), principalOf });
  const over = new AbortController();
  try {
    for (const actor of actors) modules.expect(actor, over.signal);
    for (const actor of actors) {
      const { name, args: argument } = actor;
      try {
        const bytes = await modules.moduleOf(actor);
        const kept = await candidTextOf(actor);
        await assets.check(actor);
        const { code } = await deployments.prepared(name, bytes, { argument }, { kept, fresh: undefined });
        yield { name, bytes: bytes.length, module: code.module };
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        yield { name, problem: messageOf(error) };
      }
    }
  } finally {
    over.abort();
  }
}
