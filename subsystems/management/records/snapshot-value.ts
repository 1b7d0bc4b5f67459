import { LOW_MEMORY_HOOKS, WASM_PAGE_BYTES, hexOf } from '../../ic/index.ts';
import type { SnapshotDescription } from '../snapshot.ts';
import { type RecordReader, RecordWriter } from '../../bytes/index.ts';
import { HASH_BYTES } from './record-keys.ts';

/**
 * Positions in this list are stored numbers: new values come last. A snapshot is unfinished while its pieces are being
 * written.
 */
const STATES = ['unfinished', 'taken', 'uploaded'] as const;

export interface StoredSnapshot {
  readonly takenAtNs: bigint;
  readonly description: SnapshotDescription;
  /** Number of pieces and chunks of a taken snapshot; 0 for an uploaded one, whose number changes all the time. */
  readonly pieces: number;
}

export const UNFINISHED = Uint8Array.of(STATES.indexOf('unfinished'));

export function writeSnapshot({ takenAtNs, description, pieces }: StoredSnapshot): Uint8Array {
  const out = new RecordWriter();
  out.u8(STATES.indexOf(description.source));
  out.leb128(takenAtNs);
  out.leb128(pieces);
  out.leb128(description.wasmBytes);
  out.leb128(description.heapBytes);
  out.leb128(description.stableBytes);
  out.leb128(description.bytes);
  out.leb128(description.version);
  out.data(description.certifiedData);
  out.list(description.chunkHashes, (hash) => out.data(Buffer.from(hash, 'hex')));
  out.optional(description.timerNs, (timerNs) => out.leb128(timerNs));
  out.optional(description.lowMemoryHook, (hook) => out.u8(LOW_MEMORY_HOOKS.indexOf(hook)));
  return out.view();
}

/** Returns the description; undefined for an unfinished snapshot. */
export function readSnapshotValue(value: RecordReader): StoredSnapshot | undefined {
  const source = value.oneOf(STATES);
  if (source === 'unfinished') {
    value.close();
    return undefined;
  }
  const takenAtNs = value.leb128();
  const pieces = value.leb128Number();
  const wasmBytes = value.leb128Number();
  const heapBytes = value.leb128Number();
  const stableBytes = value.leb128Number();
  const bytes = value.leb128Number();
  // Without this check a damaged length could allocate more than was ever counted.
  if (wasmBytes + heapBytes > bytes)
    throw value.malformed(`${wasmBytes} + ${heapBytes} bytes in a snapshot of ${bytes}`);
  if (stableBytes % WASM_PAGE_BYTES !== 0)
    throw value.malformed(`${stableBytes} bytes of stable memory are not whole pages`);
  const version = value.leb128Number();
  const certifiedData = value.data().slice();
  const chunkHashes = value.list(() => {
    const hash = value.data();
    if (hash.length !== HASH_BYTES) throw value.malformed(`a hash of ${hash.length} bytes`);
    return hexOf(hash);
  });
  const timerNs = value.optional(() => value.leb128());
  const lowMemoryHook = value.optional(() => value.oneOf(LOW_MEMORY_HOOKS));
  if (source === 'taken' && (timerNs === undefined || lowMemoryHook === undefined))
    throw value.malformed('a taken one without timer or hook');
  value.close();
  const sizes = { wasmBytes, heapBytes, stableBytes, bytes };
  const description = { source, ...sizes, certifiedData, chunkHashes, version, timerNs, lowMemoryHook };
  return { takenAtNs, description, pieces };
}
