/**
 * The newest messages of one canister, oldest first, as they are kept while nobody reads them.
 *
 * An entry is made for every message, so making it must cost next to nothing, and there may be 10,000 canisters.
 * Numbers go into a row of a Float64Array, the bytes of caller, argument and reply into a slot of a Uint8Array; of
 * objects only the method's name (shared by all messages of that method) and what is told of a failure are referred to.
 * Nothing is allocated once the ring has its size. Texts are made when somebody reads: about 110 bytes an entry until
 * then, instead of 700.
 *
 * The ring begins small and grows by half up to its bound. Slots are as wide as the widest caller with argument and
 * reply needs, in steps.
 */
import { assert, at, numberAt } from '../../kernel/index.ts';
import type { MessageTrace, Outcome, RejectCode } from '../ic/index.ts';
import { NOTED_ARGUMENT_BYTES_MAX } from '../scheduler/index.ts';
import type { HistoryEntry, HistoryKind, HistoryOutcome } from './index.ts';
import type { BudgetMember, SharedBudget } from './shared-budget.ts';
import { NO_BYTES } from '../bytes/index.ts';

/** Characters of a failure's message that are kept. */
const MESSAGE_CHARACTERS_MAX = 500;
/** More than 32 names have. */
const STACK_CHARACTERS_MAX = 8_192;
const PRINCIPAL_BYTES_MAX = 29;
const SLOT_BYTES_MIN = 32;
/** Bytes of a reply that are kept. */
const REPLY_BYTES_MAX = NOTED_ARGUMENT_BYTES_MAX;
const SLOT_BYTES_MAX = PRINCIPAL_BYTES_MAX + NOTED_ARGUMENT_BYTES_MAX + REPLY_BYTES_MAX;
const CAPACITY_MIN = 4;
/** Bytes of the ring itself: objects and headers of arrays. */
const OVERHEAD_BYTES = 600;

const KINDS: readonly HistoryKind[] = ['update', 'query', 'install', 'upgrade', 'call', 'outcall'];
const OUTCOMES: readonly HistoryOutcome[] = ['reply', 'reject', 'trap', 'limit', 'noReply', 'outOfCycles'];
const NUMBER_OF_KIND = numbered(KINDS);
const NUMBER_OF_OUTCOME = numbered(OUTCOMES);

/** Places in an entry's row. */
const ROW = {
  timeMs: 0,
  ms: 1,
  instructions: 2,
  cycles: 3,
  argumentBytes: 4,
  /** Kind, outcome, reject code and the caller's length, in digits of base 32; before them the reply's length. */
  packed: 5,
  /** The message's number in this process. */
  number: 6,
  /** Distances from the numbers of cause and root, see `ancestryOf`. */
  ancestry: 7,
} as const;
const ROW_LENGTH = Object.keys(ROW).length;

/** Distances are below this: 67 million messages that came between a message and its cause. */
const DISTANCE_MAX = 2 ** 26;

const NO_ROWS = new Float64Array(0);

/** A message that has ended. */
export interface EndedMessage {
  readonly kind: HistoryKind;
  /** Empty for changes of code. */
  readonly method: string;
  readonly caller: Uint8Array;
  /** At least its first NOTED_ARGUMENT_BYTES_MAX bytes. */
  readonly argument: Uint8Array;
  readonly argumentBytes: number;
  /** When it came. */
  readonly startedMs: number;
  readonly trace: MessageTrace;
}

interface Failure {
  readonly message: string;
  readonly stack: string | undefined;
}

export class CanisterHistory implements BudgetMember {
  readonly #entriesMax: number;
  readonly #budget: SharedBudget;
  isRecent = true;
  #rows = NO_ROWS;
  #slots = NO_BYTES;
  #slotBytes = SLOT_BYTES_MIN;
  #methods: string[] = [];
  #failures: (Failure | undefined)[] = [];
  /** Characters of all failures. */
  #failureCharacters = 0;
  /** Index of the oldest entry. */
  #oldest = 0;
  #count = 0;
  #nextSeq = 1;
  #bytesTold = 0;

  constructor(entriesMax: number, budget: SharedBudget) {
    this.#entriesMax = entriesMax;
    this.#budget = budget;
    budget.join(this);
  }

  get #capacity(): number {
    return this.#methods.length;
  }

  /** `method`: its name, as a string of its own. Returns the number of the entry. */
  add(ended: EndedMessage, outcome: Outcome, timeMs: number, method: string): number {
    const { kind } = outcome;
    assert(kind !== 'unavailable', 'what nobody executed is in no history');
    const { caller, argument, argumentBytes } = ended;
    const kept = Math.min(argument.length, NOTED_ARGUMENT_BYTES_MAX);
    const reply = outcome.kind === 'reply' ? outcome.data : NO_BYTES;
    const replyBytes = Math.min(reply.length, REPLY_BYTES_MAX);
    const bytes = caller.length + kept + replyBytes;
    const isTight = bytes > this.#slotBytes || (this.#count === this.#capacity && this.#count < this.#entriesMax);
    if (isTight) this.#layOut(this.#roomier(), Math.max(bytes, this.#slotBytes), this.#count);
    const capacity = this.#methods.length;
    let place = this.#oldest + this.#count;
    if (place >= capacity) place -= capacity;
    if (this.#count < capacity) this.#count++;
    else this.#oldest = place + 1 === capacity ? 0 : place + 1;
    const seq = this.#nextSeq++;
    this.isRecent = true;

    const rows = this.#rows;
    const row = place * ROW_LENGTH;
    const callerBytes = caller.length;
    const isReply = outcome.kind === 'reply';
    const code = isReply ? 0 : outcome.code;
    // Nearly always a reply: nothing is looked up for it.
    const outcomeNumber = isReply ? 0 : NUMBER_OF_OUTCOME[kind];
    rows[row + ROW.timeMs] = timeMs;
    rows[row + ROW.ms] = timeMs - ended.startedMs;
    rows[row + ROW.instructions] = outcome.instructions;
    rows[row + ROW.cycles] = outcome.charge;
    rows[row + ROW.argumentBytes] = argumentBytes;
    const replyNumber = Math.min(reply.length, REPLY_BYTES_MAX + 1);
    rows[row + ROW.packed] =
      NUMBER_OF_KIND[ended.kind] | (outcomeNumber << 5) | (code << 10) | (callerBytes << 15) | (replyNumber << 20);
    rows[row + ROW.number] = ended.trace.number;
    rows[row + ROW.ancestry] = ancestryOf(ended.trace);
    const slots = this.#slots;
    const to = place * this.#slotBytes;
    // `?? 0`: of every message, and the loops end with the arrays.
    for (let from = 0; from < callerBytes; from++) slots[to + from] = caller[from] ?? 0;
    const toArgument = to + callerBytes;
    for (let from = 0; from < kept; from++) slots[toArgument + from] = argument[from] ?? 0;
    const toReply = toArgument + kept;
    for (let from = 0; from < replyBytes; from++) slots[toReply + from] = reply[from] ?? 0;
    this.#methods[place] = method;
    const hasFailure = !isReply || this.#failures[place] !== undefined;
    if (hasFailure) this.#putFailure(place, isReply ? undefined : failureOf(outcome));
    // Last: if this is too much for all together, it may be this one that has to give something up.
    if (isTight || hasFailure) this.#tell();
    return seq;
  }

  #putFailure(place: number, failure: Failure | undefined): void {
    this.#failureCharacters += charactersOf(failure) - charactersOf(this.#failures[place]);
    this.#failures[place] = failure;
  }

  /** Yields the entries behind `after` that there are now; one that goes while somebody reads is left out. */
  *entries(after = 0): Iterable<HistoryEntry> {
    const end = this.#nextSeq;
    for (let seq = Math.max(after + 1, end - this.#count); seq < end; seq++) {
      const first = this.#nextSeq - this.#count;
      if (seq < first) seq = first;
      if (seq >= end) return;
      yield this.#entry(seq, (this.#oldest + seq - first) % this.#capacity);
    }
  }

  #entry(seq: number, place: number): HistoryEntry {
    const number = (column: number): number => numberAt(this.#rows, place * ROW_LENGTH + column, 'number of a row');
    const packed = number(ROW.packed);
    const argumentBytes = number(ROW.argumentBytes);
    const callerBytes = (packed >> 15) & 31;
    const from = place * this.#slotBytes;
    const code = (packed >> 10) & 31;
    const argumentFrom = from + callerBytes;
    const replyFrom = argumentFrom + Math.min(argumentBytes, NOTED_ARGUMENT_BYTES_MAX);
    const replyNumber = packed >> 20;
    const failure = this.#failures[place];
    return {
      seq,
      timeMs: number(ROW.timeMs),
      kind: at(KINDS, packed & 31, 'kind'),
      method: at(this.#methods, place, 'method'),
      caller: this.#slots.slice(from, from + callerBytes),
      argument: this.#slots.slice(argumentFrom, replyFrom),
      argumentBytes,
      outcome: at(OUTCOMES, (packed >> 5) & 31, 'outcome'),
      code: code === 0 ? undefined : (code as RejectCode),
      message: failure?.message,
      stack: failure?.stack,
      instructions: number(ROW.instructions),
      cycles: number(ROW.cycles),
      ms: number(ROW.ms),
      trace: traceOf(number(ROW.number), number(ROW.ancestry)),
      reply: this.#slots.slice(replyFrom, replyFrom + Math.min(replyNumber, REPLY_BYTES_MAX)),
      isReplyCut: replyNumber > REPLY_BYTES_MAX,
    };
  }

  /** Calls `see` with each message's number, that of its root, and that of its entry. */
  traces(see: (number: number, root: number, seq: number) => void): void {
    const rows = this.#rows;
    for (let index = 0; index < this.#count; index++) {
      const row = ((this.#oldest + index) % this.#capacity) * ROW_LENGTH;
      // `?? 0`: of every message that there is, and the loop ends with the ring.
      const number = rows[row + ROW.number] ?? 0;
      see(number, number - ((rows[row + ROW.ancestry] ?? 0) % DISTANCE_MAX), this.#nextSeq - this.#count + index);
    }
  }

  /** Returns the entry with that number; undefined: it has gone. */
  entryAt(seq: number): HistoryEntry | undefined {
    const first = this.#nextSeq - this.#count;
    if (seq < first || seq >= this.#nextSeq) return undefined;
    return this.#entry(seq, (this.#oldest + seq - first) % this.#capacity);
  }

  shrink(): void {
    const kept = Math.floor(this.#count / 2);
    this.#layOut(kept, SLOT_BYTES_MIN, kept);
    this.#tell();
  }

  /**
   * Keeps room for half as many more as it has at most: its canister sleeps. One that is woken again and again is not
   * laid out anew each time.
   */
  compact(): void {
    if (this.#capacity - this.#count <= this.#count / 2 && this.#slotBytes === SLOT_BYTES_MIN) return;
    this.#layOut(this.#count, SLOT_BYTES_MIN, this.#count);
    this.#tell();
  }

  /** Releases the history: the canister is gone. */
  end(): void {
    this.#layOut(0, SLOT_BYTES_MIN, 0);
    this.#tell();
    this.#budget.leave(this);
  }

  #roomier(): number {
    if (this.#count < this.#capacity) return this.#capacity;
    return Math.min(this.#entriesMax, Math.max(CAPACITY_MIN, this.#capacity + Math.ceil(this.#capacity / 2)));
  }

  /** Moves the newest entries to a ring of another size, whose slots take what they have. */
  #layOut(capacity: number, slotBytesMin: number, kept: number): void {
    const from = { rows: this.#rows, slots: this.#slots, slotBytes: this.#slotBytes, methods: this.#methods };
    const failures = this.#failures;
    const fromAt = (index: number): number =>
      (this.#oldest + this.#count - kept + index) % Math.max(1, from.methods.length);
    const usedOf = (place: number): number => {
      const number = (column: number): number => numberAt(from.rows, place * ROW_LENGTH + column, 'number of a row');
      const packed = number(ROW.packed);
      const argumentBytes = Math.min(number(ROW.argumentBytes), NOTED_ARGUMENT_BYTES_MAX);
      return ((packed >> 15) & 31) + argumentBytes + Math.min(packed >> 20, REPLY_BYTES_MAX);
    };
    let slotBytes = slotBytesMin;
    for (let index = 0; index < kept; index++) slotBytes = Math.max(slotBytes, usedOf(fromAt(index)));
    slotBytes = Math.min(SLOT_BYTES_MAX, 2 ** Math.ceil(Math.log2(slotBytes)));

    this.#rows = capacity === 0 ? NO_ROWS : new Float64Array(capacity * ROW_LENGTH);
    this.#slots = capacity === 0 ? NO_BYTES : new Uint8Array(capacity * slotBytes);
    this.#methods = Array.from({ length: capacity }, () => '');
    this.#failures = Array.from({ length: capacity });
    this.#failureCharacters = 0;
    for (let index = 0; index < kept; index++) {
      const place = fromAt(index);
      this.#rows.set(from.rows.subarray(place * ROW_LENGTH, (place + 1) * ROW_LENGTH), index * ROW_LENGTH);
      const slot = place * from.slotBytes;
      this.#slots.set(from.slots.subarray(slot, slot + usedOf(place)), index * slotBytes);
      this.#methods[index] = at(from.methods, place, 'method');
      this.#putFailure(index, failures[place]);
    }
    this.#slotBytes = slotBytes;
    this.#oldest = 0;
    this.#count = kept;
  }

  #tell(): void {
    const bytes =
      (this.#capacity === 0 ? 0 : OVERHEAD_BYTES) +
      this.#rows.byteLength +
      this.#slots.byteLength +
      this.#capacity * 16 +
      this.#failureCharacters * 2;
    const more = bytes - this.#bytesTold;
    this.#bytesTold = bytes;
    if (more !== 0) this.#budget.changed(more);
  }
}

/** Returns the distances from a message to its cause and to its root as one number; 0: it has no cause. */
function ancestryOf({ number, cause, root }: MessageTrace): number {
  const fromRoot = number - root;
  // Root and cause are too long ago: this message is told as the top of what it has caused itself.
  if (cause === 0 || fromRoot >= DISTANCE_MAX) return 0;
  return (number - cause) * DISTANCE_MAX + fromRoot;
}

function traceOf(number: number, ancestry: number): MessageTrace {
  if (ancestry === 0) return { number, cause: 0, root: number };
  return { number, cause: number - Math.floor(ancestry / DISTANCE_MAX), root: number - (ancestry % DISTANCE_MAX) };
}

function failureOf({ message, stack }: Exclude<Outcome, { readonly kind: 'reply' }>): Failure {
  return {
    message: withoutParent(message, MESSAGE_CHARACTERS_MAX),
    stack: stack ? withoutParent(stack, STACK_CHARACTERS_MAX) : undefined,
  };
}

function charactersOf(failure: Failure | undefined): number {
  return failure === undefined ? 0 : failure.message.length + (failure.stack?.length ?? 0);
}

/** The text, or its beginning, as a string of its own: a part of one refers to the whole. */
export function withoutParent(text: string, charactersMax: number): string {
  const kept = text.length > charactersMax ? `${text.slice(0, charactersMax)}…` : text;
  return Buffer.from(kept, 'utf8').toString('utf8');
}

function numbered<Word extends string>(words: readonly Word[]): Readonly<Record<Word, number>> {
  return Object.fromEntries(words.map((word, index) => [word, index])) as Record<Word, number>;
}
