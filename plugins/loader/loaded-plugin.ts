import type { PluginDefinition } from '../api/definition.ts';

/** A plugin that an operator asked for. */
export interface PluginRequest {
  /** A capability, or the name of one of the server's own plugins. */
  readonly capability: string;
  /** A path, or the name of a package. */
  readonly module: string;
}

export interface LoadedPlugin extends PluginRequest {
  /** Path of the module. */
  readonly file: string;
  readonly definition: PluginDefinition;
  /** Which of the server's own plugins it takes the place of; undefined: it adds something. */
  readonly replaces: string | undefined;
  /** True: the plugin requires what it provides, and is granted the server's own, which runs below it. */
  readonly wraps: boolean;
}
