import { ServerError } from '../../kernel/index.ts';
import type { OpenApi } from './index.ts';

/** Replaces the documents with `--no-openapi`. */
export class NoOpenApi implements OpenApi {
  documentOf(): Promise<Uint8Array> {
    return this.#refuse('OpenAPI documents');
  }

  typesOf(): Promise<Uint8Array> {
    return this.#refuse('types of actors');
  }

  #refuse(what: string): Promise<never> {
    const text = `this server runs with --no-openapi: start it without that flag for ${what}`;
    return Promise.reject(new ServerError('missing', 'openapi-off', text));
  }
}
