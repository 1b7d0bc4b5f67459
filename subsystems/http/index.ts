import { defineCapability } from '../../kernel/index.ts';

/** The HTTP face of the server. Always on. */
export interface HttpServer {
  /** `http://127.0.0.1:7000`: the address it is bound to, with the real port. Undefined before it listens. */
  readonly origin: string | undefined;
}
export const HttpServer = defineCapability<HttpServer>('http');
