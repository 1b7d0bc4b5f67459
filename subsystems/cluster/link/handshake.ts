/**
 * The beginning of a connection between two servers of one service. Each proves to the other that it has the key, which
 * is never sent, and both name the process that they are:
 *
 *     forwarder → owner   svc-link/1 <node> <nonce>, or svc-calls/1 …
 *     owner → forwarder   svc-link/1 <node> <nonce> <proof of the owner>
 *     forwarder → owner   <proof of the forwarder>
 *
 * A proof is the HMAC-SHA-256 of its side's name and both first lines, so none is of use on another connection. HTTP
 * follows, or calls between actors, in the clear: the network between the servers must be private, or a tunnel.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Socket } from 'node:net';
import { ServerError } from '../../../kernel/index.ts';

const PROTOCOL = 'svc-link/1';
const CALLS_PROTOCOL = 'svc-calls/1';
const NONCE_BYTES = 32;
const LINE_BYTES_MAX = 256;
const LINE_FEED = 0x0a;
/** Milliseconds that the other side may take, for all of its lines. */
const PATIENCE_MS = 5_000;
const HELLO = /^(svc-link|svc-calls)\/1 ([\w-]{1,64}) [\w-]{43}$/;
const ANSWER = /^(svc-link\/1 ([\w-]{1,64}) [\w-]{43}) ([\w-]{43})$/;

export type LinkKey = Uint8Array;

/** Content of a connection behind the handshake. */
export type LinkUse = 'http' | 'calls';

interface Greeting {
  readonly key: LinkKey;
  /** Id of this process. */
  readonly node: string;
  /** Id of the process that has to answer. */
  readonly expected: string;
  readonly use: LinkUse;
}

/** Proves this server to the owner that it has connected to. Resolves when its use may begin, or rejects. */
export async function greet(socket: Socket, { key, node, expected, use }: Greeting): Promise<void> {
  using lines = new Lines(socket);
  const hello = helloOf(node, use === 'http' ? PROTOCOL : CALLS_PROTOCOL);
  socket.write(`${hello}\n`);
  const [, answer = '', peer, proof = ''] = ANSWER.exec(await lines.next()) ?? refused('it does not speak svc-link/1');
  if (!isSame(proof, proofOf(key, 'owner', hello, answer))) refused('it has another key: SVC_CLUSTER_KEY');
  if (peer !== expected) refused('another server answers there by now');
  socket.write(`${proofOf(key, 'forwarder', hello, answer)}\n`);
}

/** Lets a server in that proves to have the key. Resolves with its node when its use may begin, or rejects. */
export async function receive(
  socket: Socket,
  key: LinkKey,
  node: string,
): Promise<{ readonly node: string; readonly use: LinkUse }> {
  using lines = new Lines(socket);
  const hello = await lines.next();
  const [, protocol, peer = ''] = HELLO.exec(hello) ?? refused('it does not speak svc-link/1');
  const answer = helloOf(node);
  socket.write(`${answer} ${proofOf(key, 'owner', hello, answer)}\n`);
  if (!isSame(await lines.next(), proofOf(key, 'forwarder', hello, answer)))
    refused('it has another key: SVC_CLUSTER_KEY');
  return { node: peer, use: protocol === 'svc-link' ? 'http' : 'calls' };
}

function helloOf(node: string, protocol = PROTOCOL): string {
  return `${protocol} ${node} ${randomBytes(NONCE_BYTES).toString('base64url')}`;
}

function proofOf(key: LinkKey, side: 'owner' | 'forwarder', hello: string, answer: string): string {
  return createHmac('sha256', key).update(`${side}\n${hello}\n${answer}`).digest('base64url');
}

function isSame(given: string, right: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(right)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function refused(reason: string): never {
  throw new ServerError('unavailable', 'link-refused', `a link between servers was refused: ${reason}`);
}

/** Reads lines from the beginning of a connection, and leaves what follows them. */
class Lines implements Disposable {
  readonly #socket: Socket;
  #bytes = Buffer.alloc(0);
  #waiting: PromiseWithResolvers<string> | undefined;
  #failure: Error | undefined;
  readonly #patience: NodeJS.Timeout;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', this.#take).on('error', this.#failed).on('close', this.#closed);
    this.#patience = setTimeout(() => this.#failed(new Error('the other side says nothing')), PATIENCE_MS);
  }

  next(): Promise<string> {
    this.#waiting = Promise.withResolvers();
    const { promise } = this.#waiting;
    this.#settle();
    return promise;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#patience);
    this.#socket.off('data', this.#take).off('error', this.#failed).off('close', this.#closed);
    this.#socket.pause();
    if (this.#bytes.length > 0) this.#socket.unshift(this.#bytes);
  }

  readonly #take = (chunk: Buffer): void => {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    this.#settle();
  };

  readonly #failed = (error: Error): void => {
    this.#failure ??= error;
    this.#settle();
  };

  readonly #closed = (): void => this.#failed(new Error('the other side has closed the connection'));

  #settle(): void {
    if (this.#waiting === undefined) return;
    const end = this.#bytes.indexOf(LINE_FEED);
    if (end >= 0 && end <= LINE_BYTES_MAX) {
      const line = this.#bytes.toString('latin1', 0, end);
      this.#bytes = this.#bytes.subarray(end + 1);
      this.#waiting.resolve(line);
    } else if (this.#failure !== undefined) this.#waiting.reject(this.#failure);
    else if (this.#bytes.length > LINE_BYTES_MAX)
      this.#waiting.reject(new Error('the other side sends no short lines'));
    else return;
    this.#waiting = undefined;
  }
}
