/**
 * Answers of management calls of users, by request id, so that a call that comes again is answered and not executed
 * again. Answers of changes are in the unit of the change, which is that of the turn of the event loop (ADR 14); those
 * of other calls are in memory alone, and make room for newer ones.
 */
import { type Clock, ServerError } from '../../kernel/index.ts';
import { RecordReader, RecordWriter } from '../bytes/index.ts';
import { META, metaKey, type Storage } from '../storage/index.ts';
import type { Rejection } from './rejections.ts';

export type AnswerStorage = Pick<Storage, 'isKept' | 'markDirty' | 'unit' | 'range' | 'settled'>;

/** Milliseconds for which an answer is known: longer than an envelope is valid (ADR 110). */
export const KNOWN_MS = 400_000;
const PREFIX = metaKey(META.userCall);
const ID_BYTES = 32;
const MIB = 1024 * 1024;
/** Kinds of results in stored rows. */
const REPLY = 0;
const REJECTION = 1;

interface KnownAnswer {
  readonly sender: Uint8Array;
  /** The id in the path of the call. */
  readonly effectiveId: Uint8Array;
  /** Milliseconds since 1970, at which it is forgotten. */
  readonly untilMs: number;
  readonly result: Uint8Array | Rejection;
}

interface AnswerBounds {
  /** Answers of changes; beyond, changes are refused. */
  readonly changesMax: number;
  /** Bytes of the answers of other calls. */
  readonly readBytesMax: number;
}

const BOUNDS: AnswerBounds = { changesMax: 100_000, readBytesMax: 64 * MIB };

export class ManagementAnswers {
  readonly #storage: AnswerStorage;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #bounds: AnswerBounds;
  /** Answers by request id in hex, in the order in which they are forgotten. */
  readonly #changes = new Map<string, KnownAnswer>();
  readonly #reads = new Map<string, KnownAnswer>();
  #readBytes = 0;
  #opening: Promise<void> | undefined;

  constructor(storage: AnswerStorage, clock: Pick<Clock, 'nowMs'>, bounds = BOUNDS) {
    this.#storage = storage;
    this.#clock = clock;
    this.#bounds = bounds;
  }

  /** Resolves when answers of earlier processes are known. Rejects with ServerError `state-corrupt`. */
  open(): Promise<void> {
    this.#opening ??= this.#load().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  find(idHex: string): KnownAnswer | undefined {
    this.#forgetOld();
    return this.#changes.get(idHex) ?? this.#reads.get(idHex);
  }

  /** Throws ServerError `agents-full` if `changes` more changes cannot have their answers kept. */
  expectRoom(changes: number): void {
    this.#forgetOld();
    if (this.#changes.size + changes <= this.#bounds.changesMax) return;
    const text = `answers of ${this.#bounds.changesMax} changes are kept already: wait until some are forgotten`;
    throw new ServerError('unavailable', 'agents-full', text);
  }

  /** Keeps the answer of a change. Called in the turn of the event loop in which the change was made. */
  keepChange(idHex: string, sender: Uint8Array, effectiveId: Uint8Array, result: KnownAnswer['result']): void {
    const answer = { sender, effectiveId, result, untilMs: this.#clock.nowMs() + KNOWN_MS };
    this.#changes.set(idHex, answer);
    if (!this.#storage.isKept) return;
    this.#storage.markDirty();
    this.#storage.unit.put('meta', keyOf(idHex), encode(answer));
  }

  keepRead(idHex: string, sender: Uint8Array, effectiveId: Uint8Array, result: KnownAnswer['result']): void {
    const answer = { sender, effectiveId, result, untilMs: this.#clock.nowMs() + KNOWN_MS };
    this.#reads.set(idHex, answer);
    this.#readBytes += bytesOf(answer);
    for (const [oldest, { result: old }] of this.#reads) {
      if (this.#readBytes <= this.#bounds.readBytesMax) break;
      this.#readBytes -= bytesOf({ result: old });
      this.#reads.delete(oldest);
    }
  }

  async #load(): Promise<void> {
    if (!this.#storage.isKept) return;
    const rows = await this.#storage.range('meta', PREFIX);
    const answers = rows.map(([key, value]) => [key, decode(key, value)] as const);
    answers.sort(([, one], [, other]) => one.untilMs - other.untilMs);
    for (const [key, answer] of answers) this.#changes.set(Buffer.from(key.subarray(1)).toString('hex'), answer);
    this.#forgetOld();
  }

  #forgetOld(): void {
    const now = this.#clock.nowMs();
    for (const [idHex, { untilMs }] of this.#changes) {
      if (untilMs > now) break;
      this.#changes.delete(idHex);
      if (!this.#storage.isKept) continue;
      this.#storage.markDirty();
      this.#storage.unit.delete('meta', keyOf(idHex));
    }
    for (const [idHex, answer] of this.#reads) {
      if (answer.untilMs > now) break;
      this.#reads.delete(idHex);
      this.#readBytes -= bytesOf(answer);
    }
  }
}

/** Bytes that an answer takes, about. */
function bytesOf({ result }: Pick<KnownAnswer, 'result'>): number {
  return 1024 + (result instanceof Uint8Array ? result.length : result.message.length);
}

/** Returns a key with bytes of its own. */
function keyOf(idHex: string): Uint8Array {
  return metaKey(META.userCall, Buffer.from(idHex, 'hex'));
}

function encode({ sender, effectiveId, untilMs, result }: KnownAnswer): Uint8Array {
  const out = new RecordWriter();
  out.f64(untilMs);
  out.data(sender);
  out.data(effectiveId);
  if (result instanceof Uint8Array) {
    out.u8(REPLY);
    out.data(result);
  } else {
    out.u8(REJECTION);
    out.count(result.code);
    out.text(result.errorCode);
    out.text(result.message);
  }
  return out.view();
}

function decode(key: Uint8Array, bytes: Uint8Array): KnownAnswer {
  const value = new RecordReader(bytes, `the stored value meta ${Buffer.from(key).toString('hex')}`);
  value.open(0, bytes.length);
  if (key.length !== 1 + ID_BYTES) throw value.malformed('there is no such key');
  const untilMs = value.f64();
  const sender = value.data().slice();
  const effectiveId = value.data().slice();
  const kind = value.u8();
  if (kind !== REPLY && kind !== REJECTION) throw value.malformed(`there is no kind ${kind} of answers`);
  const result =
    kind === REPLY ? value.data().slice() : { code: value.count(), errorCode: value.text(), message: value.text() };
  value.close();
  return { sender, effectiveId, untilMs, result };
}
