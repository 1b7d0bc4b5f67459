/**
 * Clients of a server on this machine that cost it as little processor time as they can: requests are bytes that were
 * made beforehand, and of an answer only the status and the length are read.
 */
import { connect, type Socket } from 'node:net';

/** Candid's empty tuple. */
const NO_ARGUMENTS = Buffer.from('4449444c0000', 'hex');
const HEADER_END = Buffer.from('\r\n\r\n');
const NOTHING: Buffer = Buffer.alloc(0);

/** Returns the bytes of a call without arguments. */
export function callOf(path: string): Uint8Array {
  const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${NO_ARGUMENTS.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), NO_ARGUMENTS]);
}

interface Load {
  /** Number of calls that are under way at once, each on a connection of its own. */
  readonly underWay: number;
  /** No call begins after so many milliseconds; each connection makes one at least. */
  readonly ms: number;
  readonly signal: AbortSignal;
}

interface LoadResult {
  readonly calls: number;
  readonly seconds: number;
  /** Half of the calls took no longer. */
  readonly medianMs: number;
}

/** Calls again and again, `calls` by turns. Rejects if an answer is not 200, or the signal is aborted. */
export async function load(
  origin: string,
  calls: readonly Uint8Array[],
  { underWay, ms, signal }: Load,
): Promise<LoadResult> {
  const startMs = performance.now();
  const took: number[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    using line = new Line(origin, signal);
    do {
      const call = calls[next++ % calls.length];
      if (call === undefined) throw new Error('there is no call to make');
      const beganMs = performance.now();
      await line.ask(call);
      took.push(performance.now() - beganMs);
    } while (performance.now() - startMs < ms);
  };
  await Promise.all(Array.from({ length: underWay }, work));
  const seconds = (performance.now() - startMs) / 1000;
  return { calls: took.length, seconds, medianMs: medianOf(took) };
}

export function medianOf(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((one, other) => one - other);
  return sorted[sorted.length >> 1] ?? Number.NaN;
}

/** One connection, which carries one request at a time. */
class Line implements Disposable {
  readonly #socket: Socket;
  #received: Buffer = NOTHING;
  #asked: PromiseWithResolvers<void> | undefined;
  #failure: Error | undefined;

  constructor(origin: string, signal: AbortSignal) {
    const { hostname, port } = new URL(origin);
    this.#socket = connect({ host: hostname, port: Number(port), noDelay: true, signal });
    this.#socket.on('data', (bytes: Buffer) => this.#take(bytes));
    this.#socket.on('error', (error) => this.#fail(error));
    this.#socket.on('close', () => this.#fail(new Error('the server has closed a connection')));
  }

  async ask(request: Uint8Array): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    this.#asked = Promise.withResolvers();
    this.#socket.write(request);
    await this.#asked.promise;
  }

  #take(bytes: Buffer): void {
    this.#received = this.#received.length === 0 ? bytes : Buffer.concat([this.#received, bytes]);
    const headEnd = this.#received.indexOf(HEADER_END);
    if (headEnd === -1) return;
    const head = this.#received.toString('latin1', 0, headEnd);
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? Number.NaN);
    if (!head.startsWith('HTTP/1.1 200 ') || Number.isNaN(length)) {
      this.#fail(new Error(`the server answered ${head.split('\r\n', 1)[0]}`));
      return;
    }
    if (this.#received.length < headEnd + HEADER_END.length + length) return;
    this.#received = NOTHING;
    this.#asked?.resolve();
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#asked?.reject(this.#failure);
  }

  [Symbol.dispose](): void {
    this.#asked = undefined;
    this.#socket.destroy();
  }
}
