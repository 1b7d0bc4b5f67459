import { defineCapability } from '../../kernel/index.ts';

/** Takes up what changes in the files of the manifest's actors while the server serves (`--watch`). It acts by itself: nobody asks it for anything. */
export const HotReload = defineCapability<object>('hot-reload');
