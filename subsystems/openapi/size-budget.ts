import { ServerError } from '../../kernel/index.ts';

/**
 * Limit on the bytes of a document: an accepted interface (1 MiB, 50,000 parts) can require gigabytes, since a large
 * unnamed type in a function type that thousands of methods share is written for each of them, and so is a name of a
 * hundred thousand letters. Real interfaces stay below a tenth of it.
 *
 * Output is counted while the document is made, so that no far larger one is made; the finished text is measured, so
 * that the limit also covers uncounted parts.
 */
const BYTES_MAX = 8 * 1024 * 1024;
/** Bytes of a schema without its names and comments. */
export const SCHEMA_BYTES = 60;

export class SizeBudget {
  #bytesLeft: number;
  readonly #bytesMax: number;

  constructor(bytesMax: number = BYTES_MAX) {
    this.#bytesMax = bytesMax;
    this.#bytesLeft = bytesMax;
  }

  /** Takes bytes from the budget. Throws ServerError `openapi-too-large`. */
  spend(bytes: number): void {
    this.#bytesLeft -= bytes;
    if (this.#bytesLeft < 0) throw tooLarge(this.#bytesMax);
  }

  /** Takes the bytes of a value as JSON: an escaped letter takes up to six. Throws like `spend`. */
  spendJson(value: unknown): void {
    this.spend(Buffer.byteLength(JSON.stringify(value)));
  }
}

/** Returns a finished document as sent to clients. Throws ServerError `openapi-too-large`. */
export function documentBytes(document: unknown, bytesMax: number = BYTES_MAX): Uint8Array {
  const bytes = new TextEncoder().encode(jsonOf(document, bytesMax));
  if (bytes.length > bytesMax) throw tooLarge(bytesMax);
  return bytes;
}

/** Returns the JSON text. A text longer than the engine allows is a RangeError. */
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
    `the description would have more than ${bytesMax} bytes: give large types in parameters a name (type T = …), ` +
      'and long names fewer letters',
  );
}
