import { ServerError } from '../../kernel/index.ts';
import type { OpenApi } from './index.ts';

/** Replaces the documents with `--no-openapi`. */
export class NoOpenApi implements OpenApi {
  documentOf(): Promise<Uint8Array> {
    const text = 'this server runs with --no-openapi: start it without that flag for OpenAPI documents';
    return Promise.reject(new ServerError('missing', 'openapi-off', text));
  }
}
