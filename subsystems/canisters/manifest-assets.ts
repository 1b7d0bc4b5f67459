/** Folders of the manifest, and the actors that serve them: files are put there by a principal that nobody has. */
import { ServerError } from '../../kernel/index.ts';
import { type AssetActor, type AssetChanges, type AssetFolders, HOST_PRINCIPAL } from '../assets/index.ts';
import { ANONYMOUS } from '../ic/index.ts';
import type { ManifestActor } from '../manifest/index.ts';
import type { CanisterRecord } from './canister-record.ts';
import type { ClientMessages } from './client-messages.ts';
import type { ActorFiles } from './index.ts';
import type { ManifestModules } from './manifest-modules.ts';

type Serving = Pick<ManifestActor, 'name' | 'assets'>;

interface ManifestAssetsNeeds {
  readonly folders: AssetFolders;
  readonly messages: Pick<ClientMessages, 'call'>;
  readonly named: (name: string) => CanisterRecord | undefined;
}

/**
 * Returns the principal that installs an actor and becomes its controller: with a folder the host's, since controllers
 * may replace the site and whoever calls without saying who is anonymous; else the anonymous one (docs/running.md,
 * "Names and ids").
 */
export function installerOf({ assets }: Pick<ManifestActor, 'assets'>): Uint8Array {
  return assets === undefined ? ANONYMOUS : HOST_PRINCIPAL;
}

export class ManifestAssets {
  readonly #needs: ManifestAssetsNeeds;

  constructor(needs: ManifestAssetsNeeds) {
    this.#needs = needs;
  }

  /** Rejects with ServerError where the actor's folder cannot be served; nothing has changed then. */
  async check({ assets }: Serving): Promise<void> {
    if (assets !== undefined) await this.#needs.folders.check(assets);
  }

  /** Reads the files of an actor; when they are taken up, its folder follows. */
  async read(name: string, modules: ManifestModules): Promise<ActorFiles> {
    const files = await modules.readNamed(name);
    const { assets } = modules.sourceNamed(name);
    if (assets === undefined) return files;
    const actor = { name, assets };
    await this.check(actor);
    return { ...files, taken: async () => void (await this.deploy(actor)) };
  }

  /** Makes the actor's files those of its folder. Rejects with ServerError; the site is as it was then. */
  async deploy({ name, assets }: Serving): Promise<AssetChanges> {
    const record = this.#needs.named(name);
    if (assets === undefined || record === undefined) return { files: 0, bytes: 0 };
    return await this.#needs.folders.deploy(assets, this.#actor(record));
  }

  async foldersOf({ assets }: Serving): Promise<readonly string[]> {
    return assets === undefined ? [] : await this.#needs.folders.foldersOf(assets);
  }

  #actor(record: CanisterRecord): AssetActor {
    const { messages } = this.#needs;
    return {
      name: record.name,
      has: (method) => record.module?.methods.has(method) ?? false,
      call: async (kind, method, argument) => {
        if (record.isRemoved)
          throw new ServerError('missing', 'actor-missing', `actor ${record.name} has been deleted`);
        return await messages.call(record, { kind, method, caller: HOST_PRINCIPAL, argument, addressedBy: 'name' });
      },
    };
  }
}
