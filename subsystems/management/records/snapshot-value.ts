import { LOW_MEMORY_HOOKS, WASM_PAGE_BYTES } from '../../ic/index.ts';
import { hexOf } from '../candid-values.ts';
import type { SnapshotDescription } from '../snapshot.ts';
import { type RecordReader, RecordWriter } from './record-bytes.ts';
import { HASH_BYTES } from './record-keys.ts';

/** Numbers are positions here: new ones come last. A snapshot is unfinished while its pieces are being written. */
const STATES = ['unfinished', 'taken', 'uploaded'] as const;

export interface StoredSnapshot {
  readonly takenAtNs: bigint;
  readonly description: SnapshotDescription;
  /** How many pieces and chunks a taken one has; 0 for an uploaded one, where that changes all the time. */
  readonly pieces: number;
}

export const UNFINISHED = Uint8Array.of(STATES.indexOf('unfinished'));

export function writeSnapshot({ takenAtNs, description, pieces }: StoredSnapshot): Uint8Array {
  const out = new RecordWriter().byte(STATES.indexOf(description.source)).natural(takenAtNs).natural(pieces);
  out.natural(description.wasmBytes).natural(description.heapBytes).natural(description.stableBytes);
  out.natural(description.bytes).natural(description.version).bytes(description.certifiedData);
  out.list(description.chunkHashes, (hash) => out.bytes(Buffer.from(hash, 'hex')));
  out.optional(description.timerNs, (timerNs) => out.natural(timerNs));
  out.optional(description.lowMemoryHook, (hook) => out.byte(LOW_MEMORY_HOOKS.indexOf(hook)));
  return out.written();
}

/** Undefined: an unfinished one. */
export function readSnapshotValue(value: RecordReader): StoredSnapshot | undefined {
  const source = value.oneOf(STATES);
  if (source === 'unfinished') {
    value.end();
    return undefined;
  }
  const takenAtNs = value.natural();
  const pieces = value.number();
  const wasmBytes = value.number();
  const heapBytes = value.number();
  const stableBytes = value.number();
  const bytes = value.number();
  // Otherwise a damaged length would make room for more than was ever counted.
  if (wasmBytes + heapBytes > bytes) value.fail(`${wasmBytes} + ${heapBytes} bytes in a snapshot of ${bytes}`);
  if (stableBytes % WASM_PAGE_BYTES !== 0) value.fail(`${stableBytes} bytes of stable memory are not whole pages`);
  const version = value.number();
  const certifiedData = value.bytes();
  const chunkHashes = value.list(() => {
    const hash = value.bytes();
    return hash.length === HASH_BYTES ? hexOf(hash) : value.fail(`a hash of ${hash.length} bytes`);
  });
  const timerNs = value.optional(() => value.natural());
  const lowMemoryHook = value.optional(() => value.oneOf(LOW_MEMORY_HOOKS));
  if (source === 'taken' && (timerNs === undefined || lowMemoryHook === undefined))
    value.fail('a taken one without timer or hook');
  value.end();
  const sizes = { wasmBytes, heapBytes, stableBytes, bytes };
  const description = { source, ...sizes, certifiedData, chunkHashes, version, timerNs, lowMemoryHook };
  return { takenAtNs, description, pieces };
}
