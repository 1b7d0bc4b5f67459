/** Routes that a plugin adds below `/x/<plugin>/`. They need the token, as all routes that are not open. */
import type { PluginAnswer, PluginRequest } from '../../subsystems/http/index.ts';

export type { PluginAnswer, PluginRequest };

export interface PluginRoute<T = unknown> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Behind `/x/<plugin>`: `/status`, `/items/:id`. */
  readonly path: string;
  /** Query parameters that it takes; any other is answered 404. */
  readonly query?: readonly string[];
  /** How large a body may be; default and most: 64 MiB. */
  readonly bodyBytesMax?: number;
  /** Throws a ServerError for what the client is to know; anything else is a 500 and goes into the log. */
  answer(made: T, request: PluginRequest): PluginAnswer | Promise<PluginAnswer>;
}
