import { ServerError } from '../../kernel/index.ts';

/**
 * What a document may become, in bytes, about: an interface of the size that is accepted (1 MiB, 50,000 parts) can ask for
 * gigabytes, since a large type without name in a function type that thousands of methods share is written for each of
 * them. Real interfaces stay below a tenth of it.
 */
const BYTES_MAX = 8 * 1024 * 1024;
/** A schema without its names and comments. */
export const SCHEMA_BYTES = 60;

export class SizeBudget {
  #bytesLeft: number;
  readonly #bytesMax: number;

  constructor(bytesMax: number = BYTES_MAX) {
    this.#bytesMax = bytesMax;
    this.#bytesLeft = bytesMax;
  }

  /** Throws ServerError `openapi-too-large`. */
  spend(bytes: number): void {
    this.#bytesLeft -= bytes;
    if (this.#bytesLeft >= 0) return;
    throw new ServerError(
      'invalid',
      'openapi-too-large',
      `the OpenAPI document would have more than ${this.#bytesMax} bytes: give large types in parameters a name (type T = …)`,
    );
  }
}
