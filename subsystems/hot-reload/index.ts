import { defineCapability } from '../../kernel/index.ts';

/** Takes up what changes in the files of the manifest's actors while the server serves (`--watch`). */
export interface HotReload {
  /** Folders that are watched now. */
  readonly folders: number;
}
export const HotReload = defineCapability<HotReload>('hot-reload');
