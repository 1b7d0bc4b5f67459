/**
 * A snapshot's content as pieces of at most 1 MiB, each with its place. Zeros are left out of module and heap, and of
 * stable memory what does not exist: what is missing reads as zeros. Of an uploaded snapshot, only what a call wrote to
 * is written again, so its pieces are smaller.
 */
import type { GlobalValue } from '../backend.ts';
import { type SnapshotContent, type StablePiece, TakenSnapshot, type UploadedSnapshot } from '../snapshot.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import { RecordWriter } from '../../bytes/index.ts';
import { pieceKey, snapshotChunkKey, type SnapshotPart } from './record-keys.ts';

/** A key of the family `blob` and its value; a view of the content. */
export type Piece = readonly [key: Uint8Array, bytes: Uint8Array];

export const GLOBAL_TYPES = ['i32', 'i64', 'f32', 'f64', 'v128'] as const;

/** How long the pieces of module and heap are, but for the last one. An upload's are pages, as its stable memory is kept. */
export const PIECE_BYTES = { taken: 1 << 20, uploaded: WASM_PAGE_BYTES } as const;
const ZEROS = Buffer.alloc(PIECE_BYTES.taken);

/** Everything a new snapshot consists of, and undefined for each piece of zeros, so that who writes it may pause. `snapshot`: what its keys begin with. */
export function* piecesOf(snapshot: Uint8Array, content: SnapshotContent): Generator<Piece | undefined> {
  const globals = globalsBytes(content.globals);
  for (const bytes of piecewise(globals)) yield [pieceKey(snapshot, 'g', bytes.byteOffset - globals.byteOffset), bytes];
  // An upload begins with nothing but zeros.
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

/** Of an uploaded snapshot, the pieces that have any of `length` bytes from `offset` on. */
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

/** Neighbours as one, as long as that is no larger than a piece may be. `pieces`: in order. */
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
