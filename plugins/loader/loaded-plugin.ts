import type { PluginDefinition } from '../api/definition.ts';
import type { Face } from '../../kernel/index.ts';

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
  /** The server's own plugin that it replaces; undefined if it is an additional one. */
  readonly replaces: string | undefined;
  /**
   * True if the plugin requires the capability that it provides: it is granted the server's own, which runs below it.
   */
  readonly wraps: boolean;
  /**
   * Narrow capabilities of a part that it replaces and does not wrap, in the order of that part: its object has them as
   * the server's own has, unless the definition says otherwise.
   */
  readonly inherits: readonly Face<unknown>[];
}
