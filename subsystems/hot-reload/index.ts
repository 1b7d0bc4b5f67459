import { defineCapability } from '../../kernel/index.ts';

/**
 * Reinstalls actors of the manifest when their files change while the server runs (`--watch`). It acts by itself and
 * has no methods.
 */
export const HotReload = defineCapability<object>('hot-reload');
