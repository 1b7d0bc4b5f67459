/**
 * Rows of a query by `COPY … TO STDOUT (FORMAT binary)`: the columns come as their bytes. The driver reads a `bytea` of
 * any other query as hexadecimal text, which takes the main thread 10 ms a mebibyte.
 */
import type { Submittable } from 'pg';
import { ServerError } from '../api/plugin.ts';

/** Beginning of what is sent: "The binary format" of PostgreSQL's documentation of COPY. */
const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1');
/** Flags and the length of an extension follow the signature. */
const HEADER_BYTES = SIGNATURE.length + 8;
/** Number of columns that stands for the end. */
const END = -1;
/** Length that stands for NULL. */
const NULL = -1;

/** Work of the driver's queue: one COPY. The driver calls what begins with `handle`. */
export class BinaryRows implements Submittable {
  readonly #text: string;
  readonly #pieces: Buffer[] = [];
  readonly #done = Promise.withResolvers<Buffer[][]>();
  #error: Error | undefined;

  /** `query` has no parameters. */
  constructor(query: string) {
    this.#text = `COPY (${query}) TO STDOUT WITH (FORMAT binary)`;
  }

  /** Resolves with the columns of each row, or rejects with the driver's error. */
  get rows(): Promise<Buffer[][]> {
    return this.#done.promise;
  }

  submit(connection: { query(text: string): void }): void {
    connection.query(this.#text);
  }

  /** Copies the piece: the driver uses its buffer again. */
  handleCopyData({ chunk }: { readonly chunk: Buffer }): void {
    this.#pieces.push(Buffer.from(chunk));
  }

  handleError(error: Error): void {
    this.#error ??= error;
    this.#done.reject(error);
  }

  handleCommandComplete(): void {
    // The rows are there when the database is ready for the next query.
  }

  handleReadyForQuery(): void {
    if (this.#error !== undefined) return;
    try {
      this.#done.resolve(rowsIn(Buffer.concat(this.#pieces)));
    } catch (error) {
      this.#done.reject(error);
    }
  }
}

/** Returns the columns of each row as views of these bytes. Throws ServerError `storage-failed` if they are no rows. */
export function rowsIn(bytes: Buffer): Buffer[][] {
  const take = (at: number, length: number): number => {
    if (length < 0 || at + length > bytes.length) throw notRows(at);
    return at + length;
  };
  let at = take(0, HEADER_BYTES);
  if (!bytes.subarray(0, SIGNATURE.length).equals(SIGNATURE)) throw notRows(0);
  at = take(at, bytes.readInt32BE(at - 4));
  const rows: Buffer[][] = [];
  for (;;) {
    at = take(at, 2);
    const columns = bytes.readInt16BE(at - 2);
    if (columns === END) {
      if (at !== bytes.length) throw notRows(at);
      return rows;
    }
    if (columns < 0) throw notRows(at - 2);
    const row: Buffer[] = [];
    for (let column = 0; column < columns; column++) {
      at = take(at, 4);
      const length = bytes.readInt32BE(at - 4);
      if (length === NULL) throw notRows(at - 4);
      const from = at;
      at = take(at, length);
      row.push(bytes.subarray(from, at));
    }
    rows.push(row);
  }
}

function notRows(at: number): ServerError {
  return new ServerError('unavailable', 'storage-failed', `the database's COPY is not as documented at byte ${at}`);
}
