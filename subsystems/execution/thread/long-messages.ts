/**
 * Messages of one thread that are too long to be run in one go: they take turns.
 *
 * Each has a stack and an engine of its own (another journal, another current execution), so any of them may go on next
 * (JavaScript Promise Integration, ADR 31). About once a millisecond, when a slice of its fuel is used up, its code
 * calls `svc.yield`. There the message goes on if nobody else wants the thread, or until its turn is over: after TURN_MS of
 * processor time, or, when only short messages wait, after as long as those had the thread before. So a flood of short
 * messages takes half of the thread from the long ones, and long ones among themselves get equal shares: slices take more
 * or less than a millisecond, and what a turn was too long is taken from the message's next ones.
 *
 * Shares are of processor time, which the machine may give to others in the middle of a turn; that is nobody's doing. Who
 * waits for an answer waits by the clock, so what short messages get is measured by that.
 *
 * A turn that short messages cut off goes on before another's begins.
 *
 * Executor thread; lends engines and gives turns, and touches no canister itself.
 */
import type { CanisterState } from '../engine/canister-state.ts';
import type { Engine } from '../engine/engine.ts';
import { TooLong } from '../engine/fault.ts';

/** Processor time that a message has before another long one goes on. */
export const TURN_MS = 4;
/** Turns that a message may owe: one slice with large copies and many page faults in it takes some. */
const TURNS_OWED_MAX = 16;
/** Messages that have begun and not ended, in one thread; each holds a stack and a journal. Further ones wait to begin. */
export const LONG_MESSAGES_MAX = 1024;
/** Engines that are kept for messages to come: so many, or as many as are to begin. */
const SPARE_ENGINES_MAX = 16;
/** A journal never gets smaller: one that a message has made larger than this goes with its engine. */
const SPARE_JOURNAL_BYTES_MAX = 64 * 2 ** 20;

/** Ends a message as one that was too long: it is undone, and nothing is told of it. */
const ENDED = new TooLong();
const isNeverRecalled = (): boolean => false;

/** What the turns need of an engine. */
export type LongEngine = Pick<Engine, 'isHomeOf' | 'journalBytes'>;

/** What the turns need of the thread around them. */
export interface Surroundings<E> {
  /** Milliseconds, only forwards. */
  readonly nowMs: () => number;
  /** Milliseconds of processor time that the thread has had: never more than passes by the clock. */
  readonly cpuMs: () => number;
  /** An engine whose messages call `hooks.onYield`, and are suspended by a promise that it returns. */
  readonly createEngine: (hooks: MessageHooks) => E;
  /** An engine is not used any more: canisters whose instances are on its journal must leave it. */
  readonly dropEngine: (engine: E) => void;
  /** Short messages wait. */
  readonly hasOthers: () => boolean;
  /** A message has come past a yield. */
  readonly onYield: () => void;
}

/** Where messages of an engine may be suspended. */
export interface MessageHooks {
  readonly onYield: () => Promise<void> | undefined;
  /**
   * Suspends the message until something else has happened than its turn: `begin` is told whose message it is, and calls `wake` then. Resolves to
   * false when the message was recalled meanwhile.
   */
  readonly park: (begin: (handle: number, wake: () => void) => void) => Promise<boolean>;
}

/** A message that has been taken in. */
interface LongMessage {
  /** Of its canister. */
  readonly handle: number;
  /** The host wants it back: it ends at its next yield, or does not begin. */
  readonly isRecalled: () => boolean;
  /** Begins it, or lets it go on. */
  resume: () => void;
  /** Processor time of its present turn, before others were let in; at its beginning, what the ones before were too long. */
  ranMs: number;
}

/** An engine, and the message that it is lent to. */
interface Place<E> {
  readonly engine: E;
  message: LongMessage;
}

interface Waiting<E> {
  readonly canister: CanisterState;
  readonly handle: number;
  readonly isRecalled: () => boolean;
  readonly run: (engine: E) => Promise<void>;
}

export class LongMessages<E extends LongEngine = Engine> {
  readonly #around: Surroundings<E>;
  /** Whose turn is next, in order. */
  readonly #ready: LongMessage[] = [];
  /** Those that wait for something else. */
  readonly #parked = new Set<LongMessage>();
  readonly #spare: Place<E>[] = [];
  /** All that there are. */
  readonly #engines = new Set<E>();
  readonly #waiting: Waiting<E>[] = [];
  #underWay = 0;
  /** Of those, that have no engine yet. */
  #engineless = 0;
  #turnBeganMs = 0;
  #turnBeganCpuMs = 0;
  #turnEndedMs = 0;
  /** Nobody else wanted the thread when the message last looked. */
  #isAlone = false;
  /** How long short messages had the thread before this turn. */
  #othersMs = 0;
  #endTurn: () => void = () => undefined;
  #fail: (error: unknown) => void = () => undefined;

  constructor(around: Surroundings<E>) {
    this.#around = around;
  }

  /** Messages that have begun and not ended. */
  get count(): number {
    return this.#underWay;
  }

  /** One of them can go on. */
  get hasReady(): boolean {
    return this.#ready.length > 0;
  }

  /** What the journals of all engines have of memory. */
  get journalBytes(): number {
    let bytes = 0;
    for (const engine of this.#engines) bytes += engine.journalBytes;
    return bytes;
  }

  /** What of it engines have that are kept for messages to come. */
  get spareBytes(): number {
    return this.#spare.reduce((sum, { engine }) => sum + engine.journalBytes, 0);
  }

  /** Lets go of engines that are kept for messages to come. */
  trim(): void {
    for (const { engine } of this.#spare.splice(0)) this.#drop(engine);
  }

  /**
   * Takes a message in: `run` begins it in its first turn, and resolves when it has ended. Once `isRecalled` says so, it does not come
   * past its next yield.
   */
  add(
    { canister, handle }: Pick<Waiting<E>, 'canister' | 'handle'>,
    run: (engine: E) => Promise<void>,
    isRecalled = isNeverRecalled,
  ): void {
    const waiting = { canister, handle, run, isRecalled };
    if (this.#underWay >= LONG_MESSAGES_MAX) this.#waiting.push(waiting);
    else this.#begin(waiting);
  }

  /** Gives those that are recalled their turns before all others: they end at once. */
  hurryRecalled(): void {
    for (let n = this.#waiting.length; n > 0; n--) {
      const next = this.#waiting.shift();
      if (next?.isRecalled() === true) this.#begin(next);
      else if (next !== undefined) this.#waiting.push(next);
    }
    for (const message of this.#parked) if (message.isRecalled()) this.#wake(message);
    const isRecalled = this.#ready.map((message) => message.isRecalled());
    if (!isRecalled.includes(true)) return;
    const ready = this.#ready.splice(0);
    const those = (isWanted: boolean): LongMessage[] => ready.filter((_, at) => isRecalled[at] === isWanted);
    // Nothing that one of them owes holds it up.
    for (const message of those(true)) message.ranMs = 0;
    this.#ready.push(...those(true), ...those(false));
  }

  /** Lets the message whose turn it is go on until its turn is over; rejects with what went wrong in the host. */
  turn(): Promise<void> {
    const message = this.#next();
    if (message === undefined) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#endTurn = resolve;
      this.#fail = reject;
      this.#turnBeganMs = this.#around.nowMs();
      this.#turnBeganCpuMs = this.#around.cpuMs();
      this.#isAlone = false;
      this.#othersMs = this.#turnBeganMs - this.#turnEndedMs;
      message.resume();
    });
  }

  #next(): LongMessage | undefined {
    for (;;) {
      const message = this.#ready.shift();
      if (message === undefined || message.ranMs < TURN_MS || this.#ready.length === 0) return message;
      // It has had this turn already.
      message.ranMs -= TURN_MS;
      this.#ready.push(message);
    }
  }

  /** It gets its engine in its first turn: to make many at once would hold up the short messages behind them. */
  #begin({ canister, handle, isRecalled, run }: Waiting<E>): void {
    this.#underWay++;
    this.#engineless++;
    const message: LongMessage = {
      handle,
      isRecalled,
      resume: () => {
        this.#engineless--;
        const place = this.#takePlace(canister, message);
        run(place.engine).then(
          () => this.#ended(place),
          (error: unknown) => this.#fail(error),
        );
      },
      ranMs: 0,
    };
    this.#ready.push(message);
  }

  /** Where the canister's instance is already, if that is free: to move it takes a new instance. */
  #takePlace(canister: CanisterState, message: LongMessage): Place<E> {
    const at = this.#spare.findLastIndex(({ engine }) => engine.isHomeOf(canister));
    const place = at < 0 ? this.#spare.pop() : this.#spare.splice(at, 1)[0];
    if (place !== undefined) {
      place.message = message;
      return place;
    }
    const hooks: MessageHooks = {
      onYield: () => this.#yielded(fresh.message),
      park: (begin) => this.#park(fresh.message, begin),
    };
    const fresh: Place<E> = { engine: this.#around.createEngine(hooks), message };
    this.#engines.add(fresh.engine);
    return fresh;
  }

  #drop(engine: E): void {
    this.#engines.delete(engine);
    this.#around.dropEngine(engine);
  }

  #ended(place: Place<E>): void {
    this.#underWay--;
    const next = this.#waiting.shift();
    if (next !== undefined) this.#begin(next);
    const sparesMax = Math.max(SPARE_ENGINES_MAX, this.#engineless);
    const isKept = this.#spare.length < sparesMax && place.engine.journalBytes <= SPARE_JOURNAL_BYTES_MAX;
    if (isKept) this.#spare.push(place);
    else this.#drop(place.engine);
    this.#leave();
  }

  #yielded(message: LongMessage): Promise<void> | undefined {
    this.#around.onYield();
    if (message.isRecalled()) throw ENDED;
    const others = this.#around.hasOthers();
    const isAlone = this.#ready.length === 0;
    const wasAlone = this.#isAlone;
    this.#isAlone = isAlone && !others;
    if (this.#isAlone) return undefined;
    const turnMs = this.#around.nowMs() - this.#turnBeganMs;
    const isCutOff = others && turnMs >= this.#othersMs;
    // The clock of processor time is the dearer one, and is looked at when its answer may matter.
    if (!wasAlone && !isCutOff && message.ranMs + turnMs < TURN_MS) return undefined;
    const ranMs = message.ranMs + this.#around.cpuMs() - this.#turnBeganCpuMs;
    const isOver = wasAlone || ranMs >= TURN_MS;
    if (!isOver && !isCutOff) return undefined;
    if (isOver) {
      // What it had while nobody else wanted the thread it does not owe.
      message.ranMs = wasAlone || isAlone ? 0 : Math.min(ranMs - TURN_MS, TURNS_OWED_MAX * TURN_MS);
      this.#ready.push(message);
    } else {
      message.ranMs = ranMs;
      this.#ready.unshift(message);
    }
    return new Promise((resolve, reject) => {
      message.resume = () => (message.isRecalled() ? reject(ENDED) : resolve());
      this.#leave();
    });
  }

  #park(message: LongMessage, begin: Parameters<MessageHooks['park']>[0]): Promise<boolean> {
    return new Promise((resolve) => {
      message.resume = () => resolve(!message.isRecalled());
      message.ranMs = 0;
      this.#parked.add(message);
      begin(message.handle, () => this.#wake(message));
      this.#leave();
    });
  }

  /** It may have been woken for another reason. */
  #wake(message: LongMessage): void {
    if (this.#parked.delete(message)) this.#ready.push(message);
  }

  #leave(): void {
    this.#turnEndedMs = this.#around.nowMs();
    this.#endTurn();
  }
}
