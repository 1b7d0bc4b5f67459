import { fileURLToPath } from 'node:url';
import type { Codec } from '../codec/index.ts';
import type { AssetFolders } from './asset-folders.ts';

export type { AssetActor, AssetChanges, AssetFolders } from './asset-folders.ts';

/**
 * The principal under which the server itself installs actors of folders and puts files into them: of the class that no
 * key and no canister has (its last byte is 0x7f), so nobody is taken for it but who has the token and says so.
 */
export const HOST_PRINCIPAL: Uint8Array = Uint8Array.from([...Buffer.from('svc-host'), 0x7f]);

/** Motoko source of the actor that serves a folder. Its module lies beside it, in the folder `build`. */
export const SITE_FILE: string = fileURLToPath(new URL('site/Site.mo', import.meta.url));

/** Creates the deployments; their code is loaded by the first one. */
export function createAssetFolders(codec: Pick<Codec, 'parseInterface'>): AssetFolders {
  let loading: Promise<AssetFolders> | undefined;
  const load = (): Promise<AssetFolders> => {
    loading ??= import('./deployments.ts').then(({ FolderDeployments }) => new FolderDeployments(codec));
    return loading;
  };
  return {
    check: async (source) => (await load()).check(source),
    deploy: async (source, actor) => (await load()).deploy(source, actor),
    foldersOf: async (source) => (await load()).foldersOf(source),
  };
}
