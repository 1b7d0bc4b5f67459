/** Routes that a plugin adds below `/x/<plugin>/`. They need the token, like every route that is not open. */
import type { PluginAnswer, PluginRequest } from '../../subsystems/http/index.ts';

export type { PluginAnswer, PluginRequest };

export interface PluginRoute<T = unknown> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Path after `/x/<plugin>`: `/status`, `/items/:id`. */
  readonly path: string;
  /** Query parameters that the route takes; any other one is answered 404. */
  readonly query?: readonly string[];
  /** Largest body in bytes; default and maximum: 64 MiB. */
  readonly bodyBytesMax?: number;
  /**
   * Answers a request. Throws a ServerError for errors that the client is to see; any other error is a 500 and is
   * logged.
   */
  answer(made: T, request: PluginRequest): PluginAnswer | Promise<PluginAnswer>;
}
