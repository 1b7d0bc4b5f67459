/**
 * Payloads that have rows of their own, put together again. Rows that no record refers to were stored ahead of a
 * message that has not happened: the process ended between its pieces.
 *
 * Main thread, once, at the start.
 */
import { sharedBytes } from '../bytes/index.ts';
import { type Entry, isPayloadKey, type PayloadRef, rowsOfPayload } from '../storage/index.ts';

export class StoredPayloads {
  readonly #rows = new Map<string, Entry>();

  /** Takes a row of a payload. Returns false if the entry is none. */
  takes(entry: Entry): boolean {
    const [key] = entry;
    if (!isPayloadKey(key)) return false;
    this.#rows.set(nameOf(key), entry);
    return true;
  }

  /** Returns the payload that a record refers to, once; undefined: a row is missing. */
  at(ref: PayloadRef): Uint8Array | undefined {
    const pieces: Uint8Array[] = [];
    for (const key of rowsOfPayload(ref)) {
      const row = this.#rows.get(nameOf(key));
      if (row === undefined) return undefined;
      this.#rows.delete(nameOf(key));
      pieces.push(row[1]);
    }
    const payload = sharedBytes(pieces.reduce((bytes, { length }) => bytes + length, 0));
    let at = 0;
    for (const piece of pieces) {
      payload.set(piece, at);
      at += piece.length;
    }
    return payload;
  }

  /** Returns the keys of the rows that no record has asked for. */
  left(): readonly Uint8Array[] {
    return [...this.#rows.values()].map(([key]) => key);
  }
}

function nameOf(key: Uint8Array): string {
  return Buffer.from(key).toString('latin1');
}
