import type { IncomingMessage } from 'node:http';
import { ServerError } from '../../kernel/index.ts';
import type { HeldBody } from './body-budget.ts';
import { BodyTurns } from './body-turns.ts';
import { NO_BYTES } from '../bytes/index.ts';

const ROOM_BYTES_MIN = 64 * 1024;
/** Large, so that little is ever copied again (about 16 MiB at most); what is not written to yet takes no memory. */
const ROOM_FACTOR = 16;

/** One for all servers of the process: they share an event loop. */
const TURNS = new BodyTurns();

/**
 * Reads the body of a request and hands it over once, in the turn in which its last byte arrives: with a
 * `Content-Length` that is known before the stream says so, which saves two ticks. A chunked body is counted as it
 * arrives. `failed` is called with a ServerError `tooLarge` as soon as the body passes `bytesMax`, or with the error
 * that `held` returns when it has no room; the rest is left unread. If the client goes away in the middle, neither
 * callback is called, and nothing holds on to what was sent.
 */
export function readBody(
  request: IncomingMessage,
  bytesMax: number,
  received: (body: Uint8Array) => void,
  failed: (error: ServerError) => void,
  held?: HeldBody,
): void {
  const { headers } = request;
  const lengthText = headers['content-length'];
  if (lengthText === undefined) {
    if (headers['transfer-encoding'] === undefined) received(NO_BYTES);
    else readChunked(request, bytesMax, received, failed, held);
    return;
  }
  const length = Number(lengthText);
  if (length === 0) {
    received(NO_BYTES);
    return;
  }
  let gathered: GrowingBody | undefined;
  let missing = length;
  const onData = (chunk: Buffer): void => {
    const refusal = held?.take(chunk.length);
    if (refusal !== undefined) {
      request.off('data', onData).pause();
      failed(refusal);
      return;
    }
    missing -= chunk.length;
    if (missing === 0 && gathered === undefined) {
      received(chunk);
      return;
    }
    gathered ??= new GrowingBody(length);
    gathered.append(chunk);
    if (missing === 0) received(gathered.take());
    else TURNS.took(request, chunk.length);
  };
  request.on('data', onData);
}

function readChunked(
  request: IncomingMessage,
  bytesMax: number,
  received: (body: Uint8Array) => void,
  failed: (error: ServerError) => void,
  held: HeldBody | undefined,
): void {
  const gathered = new GrowingBody(bytesMax);
  const onData = (chunk: Buffer): void => {
    const isTooLarge = gathered.length + chunk.length > bytesMax;
    const refusal = isTooLarge ? bodyTooLarge(bytesMax) : held?.take(chunk.length);
    if (refusal === undefined) {
      gathered.append(chunk);
      return;
    }
    gathered.take();
    request.off('data', onData);
    request.off('end', onEnd);
    request.pause();
    held?.free();
    failed(refusal);
  };
  const onEnd = (): void => received(gathered.take());
  request.on('data', onData);
  request.on('end', onEnd);
}

/**
 * Bytes in one piece, copied as they arrive: to join 192 MiB at the end would hold the main thread for longer than
 * anything may. Room grows with what has come, so a length that is merely claimed takes nothing.
 */
export class GrowingBody {
  readonly #lengthMax: number;
  #bytes: Buffer = Buffer.alloc(0);
  #length = 0;

  constructor(lengthMax: number) {
    this.#lengthMax = lengthMax;
  }

  get length(): number {
    return this.#length;
  }

  append(chunk: Buffer): void {
    const needed = this.#length + chunk.length;
    if (needed > this.#bytes.length) {
      const room = Math.min(this.#lengthMax, Math.max(needed * ROOM_FACTOR, ROOM_BYTES_MIN));
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, room));
      larger.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = larger;
    }
    this.#bytes.set(chunk, this.#length);
    this.#length = needed;
  }

  /** Returns the whole body, and forgets it. */
  take(): Uint8Array {
    const all = this.#bytes.subarray(0, this.#length);
    this.#bytes = Buffer.alloc(0);
    return all;
  }
}

/**
 * Hands the body over piece by piece, without keeping any of it. `take` may return a promise: the next piece then
 * waits for it, and the client with it. Resolves at the end of the body, also if `take` was never called because
 * there is no body. Rejects with a ServerError `tooLarge`, or with what `take` throws. Never settles if the client
 * goes away in the middle.
 */
export async function readPieces(
  request: IncomingMessage,
  bytesMax: number,
  take: (piece: Buffer) => void | Promise<void>,
): Promise<void> {
  const { headers } = request;
  if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined) return;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let bytes = 0;
  const stop = (): void => {
    request.off('data', onData).off('end', resolve);
  };
  const failed = (error: unknown): void => {
    stop();
    // A body that is too large is not read any further. Otherwise the connection goes on, so the rest of the body must
    // not stay on it.
    if (error instanceof ServerError && error.kind === 'tooLarge') request.pause();
    else request.resume();
    reject(error);
  };
  const onData = (piece: Buffer): void => {
    bytes += piece.length;
    if (bytes > bytesMax) {
      failed(bodyTooLarge(bytesMax));
      return;
    }
    try {
      const taken = take(piece);
      if (taken === undefined) {
        TURNS.took(request, piece.length);
        return;
      }
      request.pause();
      taken.then(() => request.resume(), failed);
    } catch (error) {
      failed(error);
    }
  };
  request.on('data', onData).on('end', resolve);
  await promise;
  stop();
}

/** Reads a body as `readBody` does, for handlers that are not in a hurry. */
export function bodyOf(request: IncomingMessage, bytesMax: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => readBody(request, bytesMax, resolve, reject));
}

export function bodyTooLarge(bytesMax: number): ServerError {
  return tooLarge(`the body is larger than ${bytesMax} bytes, the most this path takes`);
}

export function tooLarge(text: string): ServerError {
  return new ServerError('tooLarge', 'body-too-large', text);
}
