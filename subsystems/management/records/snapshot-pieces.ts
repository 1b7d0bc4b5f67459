/**
 * A snapshot's content as pieces of at most 1 MiB, each with its offset. Zeros are left out of module and heap, and
 * pages that do not exist out of stable memory: missing bytes read as zeros. Only the parts of an uploaded snapshot
 * that a call wrote to are written again, so its pieces are smaller.
 */
import type { GlobalValue } from '../backend.ts';
import { type SnapshotContent, type StablePiece, TakenSnapshot, type UploadedSnapshot } from '../snapshot.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import { RecordWriter } from '../../bytes/index.ts';
import { pieceKey, snapshotChunkKey, type SnapshotPart } from './record-keys.ts';

/** A key of the family `blob` and its value, which is a view of the content. */
type Piece = readonly [key: Uint8Array, bytes: Uint8Array];

export const GLOBAL_TYPES = ['i32', 'i64', 'f32', 'f64', 'v128'] as const;

/**
 * Length of the pieces of module and heap, except the last one. An upload's pieces are pages, like its stable memory.
 */
export const PIECE_BYTES = { taken: 1 << 20, uploaded: WASM_PAGE_BYTES } as const;
const ZEROS = Buffer.alloc(PIECE_BYTES.taken);

/**
 * Yields all pieces of a new snapshot, and undefined for each piece of zeros, so that the writer may pause. `snapshot`
 * is the prefix of their keys.
 */
export function* piecesOf(snapshot: Uint8Array, content: SnapshotContent): Generator<Piece | undefined> {
  const globals = globalsBytes(content.globals);
  for (const bytes of piecewise(globals)) yield [pieceKey(snapshot, 'g', bytes.byteOffset - globals.byteOffset), bytes];
  // An upload begins with zeros only.
  if (!(content instanceof TakenSnapshot)) return;
  for (const part of ['w', 'h'] as const) {
    const whole = part === 'w' ? content.wasm : content.heap;
    for (const bytes of piecewise(whole)) {
      const isZero = ZEROS.compare(bytes, 0, bytes.length, 0, bytes.length) === 0;
      yield isZero ? undefined : [pieceKey(snapshot, part, bytes.byteOffset - whole.byteOffset), bytes];
    }
  }
  for (const { offset, bytes } of joined(content.stable)) yield [pieceKey(snapshot, 't', offset), bytes];
  for (const [hash, chunk] of content.chunks) yield [snapshotChunkKey(snapshot, Buffer.from(hash, 'hex')), chunk];
}

/** Yields the pieces of an uploaded snapshot that overlap the `length` bytes from `offset` on. */
export function* touchedPieces(
  snapshot: Uint8Array,
  content: UploadedSnapshot,
  { part, offset, length }: { readonly part: SnapshotPart; readonly offset: number; readonly length: number },
): Generator<Piece> {
  const end = offset + length;
  for (let piece = Math.floor(offset / PIECE_BYTES.uploaded); piece * PIECE_BYTES.uploaded < end; piece++) {
    const from = piece * PIECE_BYTES.uploaded;
    const bytes =
      part === 't'
        ? content.page(piece)
        : (part === 'w' ? content.wasm : content.heap).subarray(from, from + PIECE_BYTES.uploaded);
    if (bytes !== undefined) yield [pieceKey(snapshot, part, from), bytes];
  }
}

function* piecewise(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES.taken) yield bytes.subarray(at, at + PIECE_BYTES.taken);
}

/** Joins neighbouring pieces up to the largest size of a piece. `pieces` must be in order. */
function* joined(pieces: readonly StablePiece[]): Generator<StablePiece> {
  let run: Uint8Array[] = [];
  let from = 0;
  let length = 0;
  for (const { offset, bytes } of pieces) {
    if (length > 0 && (offset !== from + length || length + bytes.length > PIECE_BYTES.taken)) {
      yield { offset: from, bytes: Buffer.concat(run) };
      run = [];
      length = 0;
    }
    if (length === 0) from = offset;
    run.push(bytes);
    length += bytes.length;
  }
  if (length > 0) yield { offset: from, bytes: Buffer.concat(run) };
}

function globalsBytes(globals: readonly GlobalValue[]): Uint8Array {
  const out = new RecordWriter();
  out.list(globals, ({ type, bits }) => {
    out.u8(GLOBAL_TYPES.indexOf(type));
    out.leb128(bits);
  });
  return out.view();
}
