/**
 * Keys that clients give their calls (`Idempotency-Key`): a call that comes again with its key is answered, not
 * executed (ADR 38).
 *
 * A key belongs to a canister and a caller. While its call is under way a repeat waits for the same answer. The answer
 * is entered in the turn in which it is known, and so in the unit of the step that gave it: there is no crash after
 * which the effect is there and the key is not, or the other way round. A call that awaits others has its key in its
 * call context (call-journal.ts), in the unit of each of its steps. What was never executed leaves nothing, and may be
 * tried again.
 *
 *     asked ─► under way? ─yes─► waits               ┌─► its row ─► the same call? ─► answered, or 422
 *                  └─no──► hash in the index? ──yes──┤
 *                               └─no─► let in ◄──no──┘ another key of that hash
 *
 * Answers are forgotten when they are old enough, oldest first: a few with each new key of their canister, and the rest
 * in slices. Nothing is forgotten before that: where there is no room, new keys are refused.
 *
 * Main thread; what it does in one go takes a millisecond or two, but for the growth of an index (key-index.ts).
 */
import { type Clock, type ServerError, TimeSlices } from '../../../kernel/index.ts';
import { type Outcome, REJECT_CODE } from '../../ic/index.ts';
import type { PackedRecords } from '../../storage/index.ts';
import type { CallJournal } from '../call-journal.ts';
import { type IdempotencyFigures, isOpenKey, isRequestKey, type KnownCall, REQUEST_SECONDS } from '../index.ts';
import { type AnsweredCall, type AnswerRecord, AnswerRow, AnswerRowReader } from './answer-record.ts';
import { type AnswerRows, MemoryRows, ROW_BYTES, type RowStorage, StoredRows } from './answer-rows.ts';
import { type Asked, CanisterKeys, identityOf, isSameOwner, type KeyOwner, UnderWay } from './canister-keys.ts';
import {
  fullness,
  isKept,
  KEY_BOUNDS,
  type KeyBounds,
  KeyCount,
  openBounds,
  reused,
  tooManyRepeats,
  WAITING_REPEATS_MAX,
} from './key-bounds.ts';
import { KeyHashes } from './key-hash.ts';
import { INDEX_BYTES_PER_KEY, type KeyEntry } from './key-index.ts';
import { NO_BYTES } from '../../bytes/index.ts';

/** Expired keys that a new one takes the place of: more than one, so that they become fewer. */
const EXPIRED_WITH_EACH = 2;
const SWEEP_EVERY_MS = 100;
/** Expired keys of one slice: about a millisecond. */
const SWEPT_AT_ONCE = 2000;
/** Canisters whose rows a start has asked for before it needs them. */
const READ_AHEAD = 16;
/** Rows that have ended and are used again. */
const SPARE_ROWS_MAX = 64;

/** Who lets in a call whose key is new. */
export interface KeyedCalls {
  /** The answer goes to `underWay`, as soon as it is known and once. */
  letIn(asked: Asked, underWay: UnderWay): void;
}

interface IdempotencyNeeds {
  readonly storage: RowStorage;
  readonly journal: Pick<CallJournal, 'tell' | 'newest'>;
  readonly clock: Clock;
  readonly intake: KeyedCalls;
  /** For tests: what the index looks for, below 2^32. */
  readonly hashOf?: (caller: Uint8Array, key: string) => number;
}

export interface IdempotencyOptions {
  /** Seconds after its answer for which a key is known. */
  readonly idempotencySecs: number;
  readonly keyBounds?: KeyBounds;
}

export class Idempotency {
  readonly #needs: IdempotencyNeeds;
  readonly #seconds: number;
  readonly #bounds: KeyBounds;
  readonly #rows: AnswerRows;
  readonly #hashes: Pick<KeyHashes, 'hashOf'>;
  readonly #canisters = new Map<KeyOwner, CanisterKeys>();
  /** Canisters whose rows end with this turn. */
  #openRows: CanisterKeys[] = [];
  readonly #spare: AnswerRow[] = [];
  /** All keys, and those of clients that have shown no token. */
  readonly #all = new KeyCount();
  readonly #open = new KeyCount();
  #repeats = 0;
  /** As `#expiredUntil` said last: with each answer, and in each sweep. A new call does not ask the clock for it. */
  #expired = Number.NEGATIVE_INFINITY;
  #sweeping: Disposable | undefined;
  #isEnding = false;
  /** Canisters that the sweep has not looked at yet. */
  #unswept: Iterator<CanisterKeys> | undefined;

  constructor(needs: IdempotencyNeeds, { idempotencySecs, keyBounds = KEY_BOUNDS }: IdempotencyOptions) {
    this.#needs = needs;
    this.#seconds = idempotencySecs;
    this.#bounds = keyBounds;
    const { storage, hashOf } = needs;
    this.#hashes = hashOf === undefined ? new KeyHashes() : { hashOf };
    this.#rows = storage.isKept ? new StoredRows(storage) : new MemoryRows();
    if (this.#rows.endWithTurn) storage.onSeal(() => this.#endRows());
  }

  get figures(): IdempotencyFigures {
    return { keys: this.#all.all, bytes: this.#all.bytes, repeats: this.#repeats };
  }

  // ---- a call comes

  /**
   * Answers what was answered already, or lets the call in. Refuses with ServerError `idempotency-key-reused`,
   * `idempotency-full`, or `state-corrupt` when a kept answer is damaged.
   */
  ask(canister: KeyOwner, asked: Asked): void {
    const { key, message } = asked;
    const keys = this.#keysOf(canister);
    const hash = this.#hashes.hashOf(message.caller, key);
    const underWay = keys.underWay(hash, message.caller, key);
    if (underWay !== undefined) {
      if (underWay.repeats >= WAITING_REPEATS_MAX) asked.refuse(tooManyRepeats());
      else this.#repeat(asked, underWay, () => underWay.repeat(asked.answer));
      return;
    }
    const others = keys.looking.size === 0 ? undefined : keys.looking.get(identityOf(message.caller, key));
    if (others !== undefined) {
      if (others.length > WAITING_REPEATS_MAX) asked.refuse(tooManyRepeats());
      else others.push(asked);
      return;
    }
    const living = this.#living(keys, hash);
    if (living.length === 0) this.#begin(keys, asked, hash);
    else void this.#look(keys, asked, hash, living);
  }

  /** Calls `same` if it is the same call that has come again. */
  #repeat(asked: Asked, first: AnsweredCall, same: () => void): void {
    const isSameMethod = first.method === asked.message.method;
    if (isSameMethod && first.digest === asked.digest) {
      this.#repeats++;
      same();
    } else asked.refuse(reused(isSameMethod ? 'another argument' : 'another method'));
  }

  /** There may be an answer. Who asks meanwhile for the same waits. */
  async #look(keys: CanisterKeys, asked: Asked, hash: number, living: readonly KeyEntry[]): Promise<void> {
    const identity = identityOf(asked.message.caller, asked.key);
    const waiting = [asked];
    keys.looking.set(identity, waiting);
    const unit = this.#needs.journal.newest;
    let record: AnswerRecord | undefined;
    try {
      record = await this.#find(keys, { key: asked.key, caller: asked.message.caller }, living);
    } catch (error) {
      keys.looking.delete(identity);
      for (const each of waiting) each.refuse(error);
      return;
    }
    keys.looking.delete(identity);
    if (record === undefined) {
      // The first of them lets in its call, and the others wait for that.
      const [first, ...rest] = waiting;
      if (first !== undefined) this.#begin(this.#keysOf(keys.canister), first, hash);
      for (const each of rest) this.ask(keys.canister, each);
      return;
    }
    const { outcome } = record;
    for (const each of waiting) {
      this.#repeat(each, record, () => this.#needs.journal.tell(unit, each.answer, { ...outcome, isRepeat: true }));
    }
  }

  async #find(
    keys: CanisterKeys,
    { key, caller }: Pick<AnsweredCall, 'key' | 'caller'>,
    living: readonly KeyEntry[],
  ): Promise<AnswerRecord | undefined> {
    for (const { row, offset, bytes, seconds } of living) {
      const number = keys.rowNumber(row);
      const stored = keys.row?.number === number ? keys.row.view() : await this.#rows.get(keys.canister, number);
      // The key may have been forgotten meanwhile.
      if (stored === undefined && (this.#hasExpired(seconds) || !this.#knows(keys))) continue;
      const record = new AnswerRowReader(stored ?? NO_BYTES, nameOf(keys.canister, number)).record(offset, bytes);
      if (record.key === key && isSameOwner(key, record.caller, caller)) return record;
    }
    return undefined;
  }

  #begin(keys: CanisterKeys, asked: Asked, hash: number): void {
    this.#forgetExpired(keys, this.#expired);
    let problem = this.#fullness(keys, asked.key);
    if (problem !== undefined && this.#forgetExpired(keys, this.#expiredUntil()) > 0)
      problem = this.#fullness(keys, asked.key);
    if (problem !== undefined) {
      this.#tidy(keys);
      asked.refuse(problem);
      return;
    }
    const { key, digest, message, answer } = asked;
    const underWay = new UnderWay(message, key, digest, hash, keys, answer, this.#ended);
    this.#enter(keys, underWay);
    this.#needs.intake.letIn(asked, underWay);
  }

  #enter(keys: CanisterKeys, underWay: UnderWay): void {
    keys.enter(underWay);
    for (const count of countsOf(keys, underWay.key)) count.underWay++;
  }

  #fullness(keys: CanisterKeys, key: string): ServerError | undefined {
    const problem = fullness(this.#bounds, keys.all, this.#all);
    if (problem !== undefined || !isOpenKey(key)) return problem;
    return fullness(openBounds(this.#bounds), keys.open, this.#open, ' of clients without the token');
  }

  /** Returns what is known of the call with a request id. Rejects with ServerError `state-corrupt`. */
  async known(canister: KeyOwner, key: string): Promise<KnownCall | undefined> {
    const keys = this.#canisters.get(canister);
    if (keys === undefined) return undefined;
    const hash = this.#hashes.hashOf(NO_BYTES, key);
    const underWay = keys.underWay(hash, NO_BYTES, key);
    if (underWay !== undefined) return { caller: underWay.caller, outcome: undefined, hasRun: underWay.hasRun };
    const record = await this.#find(keys, { key, caller: NO_BYTES }, this.#living(keys, hash));
    return record && { caller: record.caller, outcome: record.outcome, hasRun: true };
  }

  /** Returns true if an answer is kept under that request id; another key of the same hash may be taken for it. */
  isKept(canister: KeyOwner, key: string): boolean {
    const keys = this.#canisters.get(canister);
    return keys !== undefined && this.#living(keys, this.#hashes.hashOf(NO_BYTES, key)).length > 0;
  }

  #living(keys: CanisterKeys, hash: number): readonly KeyEntry[] {
    const found = keys.index.withHash(hash);
    return found.length === 0 ? found : found.filter((entry) => !this.#hasExpired(entry.seconds));
  }

  // ---- an answer is known

  /** To be called in the turn of the step that gave the answer, before anybody is told. */
  answered(underWay: UnderWay, outcome: Outcome): void {
    const { keys } = underWay;
    if (keys === undefined) return;
    this.#ended(underWay);
    if (!underWay.hasRun || !this.#knows(keys)) return;
    this.#keep(keys, underWay, this.#fitting(keys, underWay.key, outcome));
  }

  readonly #ended = (underWay: UnderWay): void => {
    const { keys } = underWay;
    if (keys === undefined) return;
    underWay.keys = undefined;
    if (!keys.leave(underWay)) return;
    for (const count of countsOf(keys, underWay.key)) count.underWay--;
    if (!underWay.hasRun) this.#tidy(keys);
  };

  #fitting(keys: CanisterKeys, key: string, outcome: Outcome): Outcome {
    const bytes = outcome.kind === 'reply' ? outcome.data.length : Buffer.byteLength(outcome.message);
    const isOpenKept = !isOpenKey(key) || isKept(openBounds(this.#bounds), keys.open, this.#open, bytes);
    if (isOpenKept && isKept(this.#bounds, keys.all, this.#all, bytes)) return outcome;
    const message =
      `the call was executed, and its answer of ${bytes} bytes was not kept: ` +
      'there was no room among the answers that are kept for idempotency keys';
    return { kind: 'reject', code: REJECT_CODE.SYS_UNKNOWN, message, instructions: 0, charge: 0 };
  }

  #keep(keys: CanisterKeys, call: UnderWay, outcome: Outcome): void {
    const givenMs = this.#needs.clock.nowMs();
    this.#expiredUntil(givenMs);
    const row = (keys.row ??= this.#beginRow(keys));
    const offset = row.bytes;
    row.add(call, outcome, givenMs);
    this.#index(keys, call.key, call.hash, row.number, offset, row.bytes - offset, givenMs);
    if (row.bytes >= ROW_BYTES) this.#endRow(keys, row);
    this.#sweepFromNow();
  }

  #index(
    keys: CanisterKeys,
    key: string,
    hash: number,
    row: number,
    offset: number,
    bytes: number,
    givenMs: number,
  ): void {
    // As if it had been given earlier: ids of requests are forgotten sooner than clients' keys.
    const earlier = isRequestKey(key) ? this.#seconds - REQUEST_SECONDS : 0;
    const seconds = Math.max(0, Math.ceil(givenMs / 1000) - earlier);
    keys.index.add(hash, row >>> 0, offset, bytes, seconds, isOpenKey(key));
    for (const count of countsOf(keys, key)) {
      count.keys++;
      count.bytes += bytes + INDEX_BYTES_PER_KEY;
    }
  }

  #beginRow(keys: CanisterKeys): AnswerRow {
    if (this.#rows.endWithTurn) {
      this.#openRows.push(keys);
      this.#needs.storage.markDirty();
    }
    return (this.#spare.pop() ?? new AnswerRow()).begin(++keys.lastRow);
  }

  #endRow(keys: CanisterKeys, row: AnswerRow): void {
    this.#rows.put(keys.canister, row.number, row.view());
    this.#dropRow(keys, row);
  }

  #dropRow(keys: CanisterKeys, row: AnswerRow): void {
    keys.row = undefined;
    if (this.#spare.length < SPARE_ROWS_MAX) this.#spare.push(row);
  }

  /** Before the turn's unit is sealed. */
  #endRows(): void {
    if (this.#openRows.length === 0) return;
    const open = this.#openRows;
    this.#openRows = [];
    for (const keys of open) if (keys.row !== undefined) this.#endRow(keys, keys.row);
  }

  // ---- forgetting

  #hasExpired(seconds: number): boolean {
    return seconds < this.#expiredUntil();
  }

  /** Returns the second, since 1970, before which given answers have expired. */
  #expiredUntil(nowMs = this.#needs.clock.nowMs()): number {
    return (this.#expired = nowMs / 1000 - this.#seconds);
  }

  /** A few, to make room for one; how many. */
  #forgetExpired(keys: CanisterKeys, expired: number): number {
    let gone = 0;
    for (; gone < EXPIRED_WITH_EACH && keys.index.oldestSeconds < expired; gone++) this.#forgetOldest(keys);
    return gone;
  }

  #forgetOldest(keys: CanisterKeys): void {
    const { index } = keys;
    const row = index.oldestRow;
    const bytes = index.oldestBytes + INDEX_BYTES_PER_KEY;
    const counts = index.isOldestOpen ? keys.openCounts : keys.counts;
    index.removeOldest();
    for (const count of counts) {
      count.keys--;
      count.bytes -= bytes;
    }
    if (index.oldestRow === row) return;
    const number = keys.rowNumber(row);
    if (keys.row?.number === number) this.#dropRow(keys, keys.row);
    else this.#rows.delete(keys.canister, number);
  }

  #sweepFromNow(): void {
    if (this.#sweeping === undefined && !this.#isEnding) {
      this.#sweeping = this.#needs.clock.every(SWEEP_EVERY_MS, this.#sweep);
    }
  }

  /** The server stops: what expires from now on is forgotten after the next start. */
  end(): void {
    this.#isEnding = true;
    this.#rest();
  }

  #rest(): void {
    this.#sweeping?.[Symbol.dispose]();
    this.#sweeping = undefined;
  }

  /** One slice of what has expired. */
  readonly #sweep = (): void => {
    let left = SWEPT_AT_ONCE;
    const expired = this.#expiredUntil();
    this.#unswept ??= this.#canisters.values();
    for (; left > 0; left--) {
      const next = this.#unswept.next();
      if (next.done === true) {
        this.#unswept = undefined;
        break;
      }
      const keys = next.value;
      for (; left > 0 && keys.index.oldestSeconds < expired; left--) this.#forgetOldest(keys);
      this.#tidy(keys);
    }
    if (this.#all.keys === 0) this.#rest();
  };

  #tidy(keys: CanisterKeys): void {
    if (keys.isEmpty && this.#knows(keys)) this.#canisters.delete(keys.canister);
  }

  /** They were not forgotten. */
  #knows(keys: CanisterKeys): boolean {
    return this.#canisters.get(keys.canister) === keys;
  }

  /** The canister is deleted, or its state lost: so are its keys. */
  forget(canister: KeyOwner): void {
    const keys = this.#canisters.get(canister);
    if (keys === undefined) return;
    this.#canisters.delete(canister);
    this.#rows.forget(canister);
    this.#all.subtract(keys.all);
    this.#open.subtract(keys.open);
    keys.leaveAll();
    keys.row = undefined;
  }

  // ---- a start

  /** A call that has awaited others when the process ended that had taken it: what its answer is to be told to. */
  resume(canister: KeyOwner, call: AnsweredCall): UnderWay {
    const keys = this.#keysOf(canister);
    const { caller, key, digest } = call;
    const hash = this.#hashes.hashOf(caller, key);
    const underWay = new UnderWay(call, key, digest, hash, keys, undefined, this.#ended);
    this.#enter(keys, underWay);
    return underWay;
  }

  /** Takes over what is stored; once, after canisters have been admitted. Rejects with ServerError `state-corrupt`. */
  async restore(find: (id: Uint8Array) => KeyOwner | undefined): Promise<void> {
    const rows = this.#rows;
    if (!(rows instanceof StoredRows)) return;
    const nowMs = this.#needs.clock.nowMs();
    const canisters = (await rows.owners()).map(find).filter((canister) => canister !== undefined);
    const ask = (canister: KeyOwner): Promise<PackedRecords> => {
      const reading = rows.rowsOf(canister);
      // A failure is told when its turn comes, unless an earlier one was.
      reading.catch(() => undefined);
      return reading;
    };
    const asked = canisters.slice(0, READ_AHEAD).map(ask);
    // One after the other: several that had their slices in the same turn would make a long one of it.
    const slices = new TimeSlices(() => this.#needs.clock.nowMs());
    for (const [at, canister] of canisters.entries()) {
      const packed = await asked.shift();
      const next = canisters[at + READ_AHEAD];
      if (next !== undefined) asked.push(ask(next));
      if (packed !== undefined) await this.#readRows(this.#keysOf(canister), packed, nowMs, slices);
    }
    if (this.#all.keys > 0) this.#sweepFromNow();
  }

  /** Takes over what is stored of one canister, which has come here. Rejects with ServerError `state-corrupt`. */
  async restoreOne(canister: KeyOwner): Promise<void> {
    const { clock } = this.#needs;
    const rows = this.#rows;
    if (!(rows instanceof StoredRows)) return;
    const packed = await rows.rowsOf(canister);
    await this.#readRows(this.#keysOf(canister), packed, clock.nowMs(), new TimeSlices(() => clock.nowMs()));
    if (this.#all.keys > 0) this.#sweepFromNow();
  }

  async #readRows(
    keys: CanisterKeys,
    { bytes, ends }: PackedRecords,
    nowMs: number,
    slices: TimeSlices,
  ): Promise<void> {
    let at = 0;
    for (const end of ends) {
      this.#readRow(keys, bytes.subarray(at, end), nowMs);
      at = end;
      if (slices.isOver) await slices.next();
    }
    this.#tidy(keys);
  }

  #readRow(keys: CanisterKeys, row: Uint8Array, nowMs: number): void {
    const reader = new AnswerRowReader(row, nameOf(keys.canister, keys.lastRow + 1));
    const number = reader.number();
    if (number <= keys.lastRow) throw reader.malformed(`number ${number} comes after ${keys.lastRow}`);
    keys.lastRow = number;
    // The clock may have been ahead when they were given.
    for (const { caller, key, offset, bytes, givenMs } of reader.places()) {
      this.#index(keys, key, this.#hashes.hashOf(caller, key), number, offset, bytes, Math.min(givenMs, nowMs));
    }
  }

  #keysOf(canister: KeyOwner): CanisterKeys {
    let keys = this.#canisters.get(canister);
    if (keys === undefined) this.#canisters.set(canister, (keys = new CanisterKeys(canister, this.#all, this.#open)));
    return keys;
  }
}

/** Returns the counts that a key is in. */
function countsOf(keys: CanisterKeys, key: string): readonly KeyCount[] {
  return isOpenKey(key) ? keys.openCounts : keys.counts;
}

function nameOf({ idText }: KeyOwner, number: number): string {
  return `${Buffer.from(idText, 'latin1').toString('hex')}/${number}`;
}
