/**
 * Messages between two servers as bytes: u32 length, little-endian, then a frame of that length.
 *
 *     1 begin      shard of the sender · epoch · number of the way
 *     2 call       name · callee · method · argument · cycles · milliseconds left, or none
 *     3 accepted   name
 *     4 response   name · refund · 0 and data, or reject code and message
 *     5 done       name
 *     6 ping       nothing: a sign of life
 *     7 called     numbers of the newest moves of sender and callee · as call: one of them has moved
 *     8 moved      name · shard · number of the move
 *     9 ask        number · what: 1 prepare, 2 take, 3 forget, 4 moving · actor
 *    10 told       number · why not, or nothing
 *
 * A name is sender · node · u48 number. What is read may be anything: every length is checked.
 *
 * Main thread: messages in, bytes out, and back.
 */
import { NO_BYTES, RecordReader, RecordWriter } from '../../bytes/index.ts';
import type { RejectCode, Response } from '../../ic/index.ts';
import type { CallName, CallPlaces, LinkMessage, WayNumber } from '../../scheduler/index.ts';

export type Frame =
  | LinkMessage
  | { readonly kind: 'begin'; readonly shard: number; readonly way: WayNumber }
  | { readonly kind: 'ping' }
  | MoveFrame;

/** Frames between the two servers of a move; `number` belongs to the connection. */
type MoveFrame =
  | { readonly kind: 'ask'; readonly number: number; readonly what: MoveAsk; readonly id: Uint8Array }
  | { readonly kind: 'told'; readonly number: number; readonly problem: string };

const LENGTH_BYTES = 4;
/** More than any call has: 10 MiB of method and payload, and a name. */
const FRAME_BYTES_MAX = 11 * 2 ** 20;
const KINDS = ['', 'begin', 'call', 'accepted', 'response', 'done', 'ping', 'called', 'moved', 'ask', 'told'] as const;
const ASKS = ['', 'prepare', 'take', 'forget', 'moving'] as const;
/** Requests of an actor's old owner to its new one; `moving`, the other way round, asks whether it still comes. */
export type MoveAsk = 'prepare' | 'take' | 'forget' | 'moving';
const REJECT_CODE_MAX = 6;

export class FrameWriter {
  readonly #out = new RecordWriter();

  /** Returns the bytes of a frame with its length. */
  write(frame: Frame): Uint8Array {
    const out = this.#out.begin();
    const places = frame.kind === 'call' ? frame.places : undefined;
    out.u8(KINDS.indexOf(places === undefined ? frame.kind : 'called'));
    if (places !== undefined) {
      out.u48(places.sender);
      out.u48(places.callee);
    }
    if ('name' in frame) this.#name(frame.name);
    switch (frame.kind) {
      case 'begin':
        out.count(frame.shard);
        out.u48(frame.way.epoch);
        out.u48(frame.way.number);
        break;
      case 'call':
        out.data(frame.callee);
        out.data(Buffer.from(frame.method));
        out.data(frame.argument);
        out.leb128(frame.cycles);
        out.optional(frame.leftMs, (ms) => out.f64(ms));
        break;
      case 'response':
        out.leb128(frame.refunded);
        this.#response(frame.response);
        break;
      case 'moved':
        out.count(frame.shard);
        out.u48(frame.version);
        break;
      case 'ask':
        out.u48(frame.number);
        out.u8(ASKS.indexOf(frame.what));
        out.data(frame.id);
        break;
      case 'told':
        out.u48(frame.number);
        out.text(frame.problem);
        break;
      case 'accepted':
      case 'done':
      case 'ping':
    }
    const bytes = Buffer.allocUnsafe(LENGTH_BYTES + out.length);
    bytes.writeUInt32LE(out.length);
    bytes.set(out.view(), LENGTH_BYTES);
    return bytes;
  }

  #name({ sender, node, number }: CallName): void {
    this.#out.data(sender);
    this.#out.text(node);
    this.#out.u48(number);
  }

  #response(response: Response): void {
    const isReply = response.kind === 'reply';
    this.#out.u8(isReply ? 0 : response.code);
    this.#out.data(isReply ? response.data : Buffer.from(response.message));
  }
}

/** Puts frames together from pieces of a stream. */
export class FrameReader {
  #pieces: Uint8Array[] = [];
  #length = 0;

  add(piece: Uint8Array): void {
    this.#pieces.push(piece);
    this.#length += piece.length;
  }

  /** Returns the next frame, which shares no bytes; undefined: it is not whole. Throws ServerError. */
  next(): Frame | undefined {
    if (this.#length < LENGTH_BYTES) return undefined;
    const length = Buffer.from(this.#gathered(LENGTH_BYTES)).readUInt32LE();
    const whole = LENGTH_BYTES + length;
    if (length > FRAME_BYTES_MAX) throw new RecordReader(NO_BYTES, 'a frame').malformed(`${length} bytes are too many`);
    if (this.#length < whole) return undefined;
    const all = this.#gathered(whole);
    // Not a `Buffer`, whose slices share its bytes.
    const reader = new RecordReader(new Uint8Array(all.buffer, all.byteOffset, all.length), 'a frame');
    reader.open(LENGTH_BYTES, whole);
    const frame = readFrame(reader);
    reader.close();
    if (all.length > whole) this.#pieces[0] = all.subarray(whole);
    else this.#pieces.shift();
    this.#length -= whole;
    return frame;
  }

  /** Returns the first piece, which has that many bytes then. */
  #gathered(bytes: number): Uint8Array {
    const [first = new Uint8Array(0)] = this.#pieces;
    if (first.length >= bytes) return first;
    const all = Buffer.concat(this.#pieces);
    this.#pieces = [all];
    return all;
  }
}

function readFrame(reader: RecordReader): Frame {
  const kind = reader.oneOf(KINDS);
  switch (kind) {
    case 'begin':
      return { kind, shard: reader.count(), way: { epoch: reader.u48(), number: reader.u48() } };
    case 'call':
      return readCall(reader);
    case 'called':
      return readMovedCall(reader);
    case 'moved':
      return { kind, name: readName(reader), shard: reader.count(), version: reader.u48() };
    case 'ask': {
      const number = reader.u48();
      const what = reader.oneOf(ASKS);
      if (what === '') throw reader.malformed('it asks for nothing');
      return { kind, number, what, id: reader.data().slice() };
    }
    case 'told':
      return { kind, number: reader.u48(), problem: reader.text() };
    case 'response':
      return { kind, name: readName(reader), refunded: reader.leb128(), response: readResponse(reader) };
    case 'accepted':
    case 'done':
      return { kind, name: readName(reader) };
    case 'ping':
      return { kind };
    case '':
      throw reader.malformed('it is of no kind');
  }
}

function readMovedCall(reader: RecordReader): Frame {
  const places: CallPlaces = { sender: reader.u48(), callee: reader.u48() };
  return { ...readCall(reader), places };
}

function readCall(reader: RecordReader): LinkMessage & { readonly kind: 'call' } {
  return {
    kind: 'call',
    name: readName(reader),
    callee: reader.data().slice(),
    method: Buffer.from(reader.data()).toString(),
    argument: reader.data().slice(),
    cycles: reader.leb128(),
    leftMs: reader.optional(() => reader.limit()),
  };
}

function readName(reader: RecordReader): CallName {
  return { sender: reader.data().slice(), node: reader.text(), number: reader.u48() };
}

function readResponse(reader: RecordReader): Response {
  const code = reader.u8();
  const data = reader.data().slice();
  if (code === 0) return { kind: 'reply', data };
  if (code > REJECT_CODE_MAX) throw reader.malformed(`reject code ${code}`);
  return { kind: 'reject', code: code as RejectCode, message: Buffer.from(data).toString() };
}
