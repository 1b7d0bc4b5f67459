import type { Plugin } from '../kernel/index.ts';

/** The built-in plugins, in the order in which they start where their needs leave a choice. */
export const builtinPlugins: readonly Plugin[] = [];
