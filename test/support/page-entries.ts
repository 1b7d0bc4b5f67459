import assert from 'node:assert/strict';
import type { PageSink } from '../../subsystems/bytes/page-patch.ts';

const PAGE_BYTES = 4096;
const WORD_BYTES = 8;

/** Page entries as a sink got them, in its chunks. */
export interface CollectedEntries {
  /** Copies of the chunks. */
  readonly chunks: { readonly entries: number; readonly bytes: Uint8Array }[];
  readonly sink: PageSink;
}

export function collectEntries(): CollectedEntries {
  const chunks: CollectedEntries['chunks'] = [];
  return { chunks, sink: (entries, bytes) => chunks.push({ entries, bytes: bytes.slice() }) };
}

interface PageRun {
  readonly page: number;
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** Returns the runs of page entries; fails on anything that the format does not allow. */
export function runsOf({ chunks }: CollectedEntries): PageRun[] {
  const runs: PageRun[] = [];
  for (const { entries, bytes } of chunks) {
    assert.ok(entries > 0 && entries <= 0xffff && bytes.length <= 65_536, `${entries} entries, ${bytes.length} bytes`);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    let at = 0;
    for (let entry = 0; entry < entries; entry++) {
      const page = view.getUint32(at, true);
      const count = view.getUint16(at + 4, true);
      assert.ok(count > 0, 'an entry without runs');
      const start = at;
      at += 6;
      let end = -1;
      for (let run = 0; run < count; run++) {
        const offset = view.getUint16(at, true);
        const length = view.getUint16(at + 2, true);
        assert.ok(length > 0 && offset + length <= PAGE_BYTES, `a run of ${length} bytes at ${offset}`);
        assert.ok(end < 0 || offset > end + WORD_BYTES, 'runs that ought to be one');
        runs.push({ page, offset, bytes: bytes.subarray(at + 4, at + 4 + length) });
        at += 4 + length;
        end = offset + length;
      }
      assert.ok(at - start <= PAGE_BYTES + 10, `an entry of ${at - start} bytes`);
    }
    assert.equal(at, bytes.length, 'a chunk ends with its last entry');
  }
  return runs;
}

/** Returns `before` with the entries applied, `bytes` long. */
export function applied(before: Uint8Array, entries: CollectedEntries, bytes: number): Uint8Array {
  const after = new Uint8Array(bytes);
  after.set(before);
  for (const run of runsOf(entries)) after.set(run.bytes, run.page * PAGE_BYTES + run.offset);
  return after;
}

/** Returns the length of all chunks. */
export function bytesOf({ chunks }: CollectedEntries): number {
  return chunks.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

export function assertSameBytes(actual: Uint8Array, expected: Uint8Array, what: string): void {
  if (Buffer.compare(actual, expected) === 0) return;
  const at = actual.findIndex((byte, k) => byte !== expected[k]);
  assert.fail(`${what}: ${actual.length} and ${expected.length} bytes, first difference at ${at}`);
}
