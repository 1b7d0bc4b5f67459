/**
 * Lists over all servers of the service: each owner is asked for its part, this one too, and the parts are handed on in
 * the order of the shards, which is that of the ids. A server that does not begin to answer within two seconds is left
 * out, and named in the header `svc-missing-nodes`.
 */
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../../kernel/index.ts';
import type { AnswerFlow, Cluster, PeerAnswer } from '../../cluster/index.ts';
import type { Responder } from '../responder.ts';
import type { ServedResponse } from '../served-response.ts';
import { answerHeadersOf, requestHeadersOf } from './forwarded-headers.ts';
import { ownerless } from './forwarding.ts';
import { CLIENT_HEADER, VERDICT_HEADER } from './verdict.ts';

const PATIENCE_MS = 2_000;
/** Bytes of one part that wait for the parts before it. */
const WAITING_BYTES_MAX = 64 * 1024;
const OPEN = 0x5b;
const CLOSE = 0x5d;
const COMMA = Buffer.from(',');

interface GatheringNeeds {
  readonly cluster: Pick<Cluster, 'shards' | 'shard' | 'peerOf' | 'owners'>;
  readonly responder: Pick<Responder, 'error' | 'stream' | 'bytes'>;
  readonly clock: Pick<Clock, 'after' | 'every' | 'nowMs'>;
}

/** Answers a request for a list with the parts of all servers. */
export async function gather(
  { cluster, responder, clock }: GatheringNeeds,
  { request, response }: { readonly request: IncomingMessage; readonly response: ServedResponse },
  { verdict, client }: { readonly verdict: string; readonly client: string },
): Promise<void> {
  const headers = [...requestHeadersOf(request), VERDICT_HEADER, verdict, CLIENT_HEADER, client];
  const parts = Array.from({ length: cluster.shards }, (_none, shard) => {
    const part = new Part();
    const peer = cluster.peerOf(shard);
    if (peer === undefined) part.failed();
    else peer.send({ method: 'GET', path: request.url ?? '/', headers, body: null }, part);
    return part;
  });
  response.once('close', () => parts.forEach((part) => part.drop()));
  const patience = Promise.withResolvers<void>();
  using _waiting = clock.after(PATIENCE_MS, patience.resolve);
  await Promise.race([Promise.all(parts.map(({ begun }) => begun)), patience.promise]);
  const own = parts[cluster.shard];
  if (own?.status === undefined) {
    responder.error(response, ownerless());
    return;
  }
  if (own.status !== 200) {
    // Whatever this server refuses, all refuse.
    const body = await wholeOf(own);
    response.writeHead(own.status, answerHeadersOf(own.headers));
    response.end(body);
    return;
  }
  const missing = parts.flatMap(({ status }, shard) => (status === 200 ? [] : [shard]));
  for (const shard of missing) parts[shard]?.drop();
  const more =
    missing.length === 0 ? [] : ['svc-missing-nodes', missing.map((shard) => nodeOf(cluster, shard)).join(', ')];
  const there = parts.filter(({ status }) => status === 200);
  const limit = new URLSearchParams(request.url?.split('?', 2)[1]).get('limit');
  if (limit === null) await responder.stream(response, 'application/json', joined(there), { more });
  else responder.bytes(response, 200, 'application/json', await cut(there, Number(limit)), more);
}

function nodeOf({ owners }: Pick<Cluster, 'owners'>, shard: number): string {
  return `shard ${shard}: ${owners[shard]?.holder ?? 'no owner'}`;
}

/** Yields one array with the elements of all. */
async function* joined(parts: readonly Part[]): AsyncGenerator<Uint8Array> {
  yield Buffer.from('[');
  let isFirst = true;
  for (const part of parts)
    for await (const piece of elementsOf(part)) {
      if (!isFirst && piece.isFirst) yield COMMA;
      isFirst = false;
      yield piece.bytes;
    }
  yield Buffer.from(']');
}

/** Yields the text of an array without its brackets; nothing of an empty one. */
async function* elementsOf(part: Part): AsyncGenerator<{ readonly bytes: Uint8Array; readonly isFirst: boolean }> {
  let [isOpen, isFirst] = [false, true];
  let held: Uint8Array | undefined;
  for await (const piece of part.pieces()) {
    let bytes = piece;
    if (!isOpen && bytes.length > 0) {
      if (bytes[0] !== OPEN) throw new Error('a server has answered with no list');
      isOpen = true;
      bytes = bytes.subarray(1);
    }
    if (bytes.length === 0) continue;
    if (held !== undefined) {
      yield { bytes: held, isFirst };
      isFirst = false;
    }
    held = bytes;
  }
  if (held?.at(-1) !== CLOSE) throw new Error('a server has not sent all of its list');
  if (held.length > 1) yield { bytes: held.subarray(0, -1), isFirst };
}

/** Resolves with all bytes of a part; rejects if it fails. */
export async function wholeOf(part: Part): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of part.pieces()) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** Returns one array with the first elements of all, by their ids: an actor may have moved away from its neighbours. */
async function cut(parts: readonly Part[], limit: number): Promise<Uint8Array> {
  const lists = await Promise.all(parts.map(async (part) => JSON.parse((await wholeOf(part)).toString()) as Listed[]));
  const sorted = lists.flat().toSorted(({ id: one }, { id: other }) => (one < other ? -1 : 1));
  return Buffer.from(JSON.stringify(sorted.slice(0, limit)));
}

/** An actor in a list; its other facts are handed on as they are. */
interface Listed {
  readonly id: string;
}

/** The answer of one server, which waits for its turn. */
export class Part implements PeerAnswer {
  readonly #begun = Promise.withResolvers<void>();
  /** Undefined: it has not begun, or failed before it began. */
  status: number | undefined;
  headers: readonly string[] = [];
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #flow: AnswerFlow | undefined;
  #isOver = false;
  #failure: Error | undefined;
  #wake: (() => void) | undefined;
  #isDropped = false;

  /** Resolves when it has begun, or failed. */
  get begun(): Promise<void> {
    return this.#begun.promise;
  }

  began(status: number, headers: readonly string[], flow: AnswerFlow): void {
    this.#flow = flow;
    if (this.#isDropped) {
      flow.abort();
      return;
    }
    this.status = status;
    this.headers = headers;
    this.#begun.resolve();
  }

  piece(bytes: Uint8Array, flow: AnswerFlow): void {
    this.#waiting.push(Uint8Array.from(bytes));
    this.#waitingBytes += bytes.length;
    if (this.#waitingBytes > WAITING_BYTES_MAX) flow.pause();
    this.#wake?.();
  }

  ended(): void {
    this.#isOver = true;
    this.#wake?.();
  }

  failed(error = new Error('it has no owner')): void {
    this.#failure = error;
    this.#isOver = true;
    this.#begun.resolve();
    this.#wake?.();
  }

  /** Nobody wants it any more. */
  drop(): void {
    this.#isDropped = true;
    if (!this.#isOver) this.#flow?.abort();
  }

  async *pieces(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const pieces = this.#waiting;
      [this.#waiting, this.#waitingBytes] = [[], 0];
      yield* pieces;
      if (this.#waiting.length > 0) continue;
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#isOver) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      this.#flow?.resume();
      await promise;
      this.#wake = undefined;
    }
  }
}
