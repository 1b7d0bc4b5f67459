import { ServerError } from '../../kernel/index.ts';

/**
 * What a document may become, in bytes: an interface of the size that is accepted (1 MiB, 50,000 parts) can ask for
 * gigabytes, since a large type without name in a function type that thousands of methods share is written for each of
 * them, and so is a name of a hundred thousand letters. Real interfaces stay below a tenth of it.
 *
 * What is written is counted while the document is made, so that none is made that is far larger; the finished text is
 * measured, so that the bound holds whatever was not counted.
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
    if (this.#bytesLeft < 0) throw tooLarge(this.#bytesMax);
  }

  /** Spends what a value takes as JSON: a letter that is escaped takes up to six bytes. Throws as `spend` does. */
  spendJson(value: unknown): void {
    this.spend(Buffer.byteLength(JSON.stringify(value)));
  }
}

/** A finished document as clients get it. Throws ServerError `openapi-too-large`. */
export function documentBytes(document: unknown, bytesMax: number = BYTES_MAX): Uint8Array {
  const bytes = new TextEncoder().encode(jsonOf(document, bytesMax));
  if (bytes.length > bytesMax) throw tooLarge(bytesMax);
  return bytes;
}

/** A text longer than any may be is a RangeError. */
function jsonOf(document: unknown, bytesMax: number): string {
  try {
    return JSON.stringify(document);
  } catch (error) {
    throw error instanceof RangeError ? tooLarge(bytesMax) : error;
  }
}

function tooLarge(bytesMax: number): ServerError {
  return new ServerError(
    'invalid',
    'openapi-too-large',
    `the OpenAPI document would have more than ${bytesMax} bytes: give large types in parameters a name (type T = …), and long names fewer letters`,
  );
}
