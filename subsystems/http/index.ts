import { defineCapability } from '../../kernel/index.ts';

/** The HTTP face of the server. Always on. */
export interface HttpServer {
  /** `http://127.0.0.1:7000`: the address it is bound to, with the real port. Undefined before it listens. */
  readonly origin: string | undefined;
  /** Opens files again by their names (SIGHUP). `isRead`: tokens were read again, or could not; undefined: none are. */
  reread(isRead: boolean | undefined): void;
}
export const HttpServer = defineCapability<HttpServer>('http');

/** A request for a route that a plugin from outside has added. */
export interface PluginRequest {
  /** Percent-decoded segments by name: `/items/:id` has `id`. */
  readonly parameters: Readonly<Record<string, string>>;
  /** The query parameters that the route takes, decoded (`+` is a blank); each at most once. */
  readonly query: ReadonlyMap<string, string>;
  /** Headers by their names in small letters; values of a repeated header are joined by `, `. */
  readonly headers: Readonly<Record<string, string>>;
  /** The whole body, once. Rejects with ServerError `body-too-large` when it passes what the route takes. */
  body(): Promise<Uint8Array>;
}

export interface PluginAnswer {
  /** 200 to 599; default 200. */
  readonly status?: number;
  /** Default: JSON for `json`, plain text for text, `application/octet-stream` for bytes. */
  readonly contentType?: string;
  /** Body of the answer; at most one of `body` and `json` is given, and without either the body is empty. */
  readonly body?: string | Uint8Array;
  readonly json?: unknown;
}

/** A route below `/x/<plugin>/`. */
export interface PluginRouteSpec {
  readonly plugin: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Path behind `/x/<plugin>`: `/status`, `/items/:id`. */
  readonly path: string;
  readonly query: readonly string[];
  /** Undefined for 64 MiB, as for most routes. */
  readonly bodyBytesMax: number | undefined;
  answer(request: PluginRequest): Promise<PluginAnswer>;
}
