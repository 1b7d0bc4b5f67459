import { fileURLToPath } from 'node:url';
import type { AssetFolders } from './asset-folders.ts';
import { ThreadedFolders } from './threaded-folders.ts';

export type { AssetActor, AssetChanges, AssetFolders } from './asset-folders.ts';

/**
 * The principal under which the server itself installs actors of folders and puts files into them: of the class that no
 * key and no canister has (its last byte is 0x7f), so nobody is taken for it but who has the token and says so.
 */
export const HOST_PRINCIPAL: Uint8Array = Uint8Array.from([...Buffer.from('svc-host'), 0x7f]);

/** Motoko source of the actor that serves a folder. Its module lies beside it, in the folder `build`. */
export const SITE_FILE: string = fileURLToPath(new URL('site/Site.mo', import.meta.url));

/** Creates the deployments; their thread is started by the first folder. */
export function createAssetFolders(): AssetFolders {
  return new ThreadedFolders();
}
