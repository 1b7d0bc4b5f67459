/**
 * Messages of one thread that are too long to be run in one go: they take turns.
 *
 * Each has a stack and an engine of its own (another journal, another current execution), so any of them may go on next
 * (JavaScript Promise Integration, ADR 31). About once a millisecond, when a slice of its fuel is used up, its code
 * calls `svc.yield`. If no other work wants the thread, the message goes on. Otherwise it goes on until its turn is
 * over: after TURN_MS of processor time, or, if only short messages wait, after as long as those had the thread before.
 * So a flood of short messages takes half of the thread from the long ones, and long ones among themselves get equal
 * shares: slices take more or less than a millisecond, and the excess of a turn is taken from the message's next ones.
 *
 * Shares are of processor time: the machine may give the processor to others in the middle of a turn, which must not
 * count against the message. Callers wait by the clock, so the time of short messages is measured by the clock.
 *
 * A turn that short messages cut off goes on before another's begins.
 *
 * Work of the host's own for which short messages wait, such as the waking of an actor, is brief: while there is any,
 * every other turn is its. Among 32 endless loops an actor of 5 MiB would wake after seconds otherwise.
 *
 * Executor thread; lends engines and gives turns, and touches no canister itself.
 */
import type { CanisterState } from '../engine/canister-state.ts';
import type { Engine } from '../engine/engine.ts';
import { TooLong } from '../engine/fault.ts';

/** Processor time that a message has before another long one goes on. */
export const TURN_MS = 4;
/** Turns that a message may owe: one slice with large copies and many page faults takes several. */
const TURNS_OWED_MAX = 16;
/**
 * Messages that have begun and not ended, in one thread; each holds a stack and a journal. Further ones wait to begin.
 */
export const LONG_MESSAGES_MAX = 1024;
/** Engines that are kept for messages to come: this many, or as many as there are messages without an engine. */
const SPARE_ENGINES_MAX = 16;
/** A journal never gets smaller: a journal that a message has made larger than this goes with its engine. */
const SPARE_JOURNAL_BYTES_MAX = 64 * 2 ** 20;

/** Ends a message as too long: the message is undone, and nothing is told of it. */
const ENDED = new TooLong();
const isNeverRecalled = (): boolean => false;

/** The part of an engine that the turns use. */
type LongEngine = Pick<Engine, 'isHomeOf' | 'journalBytes'>;

/** The part of the surrounding thread that the turns use. */
interface Surroundings<E> {
  /** Returns milliseconds that never go back. */
  readonly nowMs: () => number;
  /** Returns the milliseconds of processor time that the thread has had: never more than have passed by the clock. */
  readonly cpuMs: () => number;
  /** Makes an engine whose messages call `hooks.onYield`, and are suspended by a promise that it returns. */
  readonly createEngine: (hooks: MessageHooks) => E;
  /** Drops an engine: canisters whose instances are on its journal must leave it. */
  readonly dropEngine: (engine: E) => void;
  /** Returns true if short messages wait. */
  readonly hasOthers: () => boolean;
  /** Called when a message reaches a yield. */
  readonly onYield: () => void;
}

/** Points at which messages of an engine may be suspended. */
export interface MessageHooks {
  /** `isWaiting`: the message waits for memory, so its turn is over. */
  readonly onYield: (isWaiting?: boolean) => Promise<void> | undefined;
  /**
   * Suspends the message until an event other than its turn: `begin` gets the handle of the message's canister and a
   * `wake` to call at the event. Resolves to false if the message was recalled meanwhile.
   */
  readonly park: (begin: (handle: number, wake: () => void) => void) => Promise<boolean>;
}

/** A message that has been taken in. */
interface LongMessage {
  /** Handle of the message's canister. */
  readonly handle: number;
  /** Returns true if the host wants the message back: it then ends at its next yield, or does not begin. */
  readonly isRecalled: () => boolean;
  /** True for work of the host's own: no guest's code runs. */
  readonly isHostWork: boolean;
  /** Begins the message, or lets it go on. */
  resume: () => void;
  /**
   * Processor time of the present turn, before others were let in; at the turn's beginning, the excess of earlier
   * turns.
   */
  ranMs: number;
}

/** An engine, and the message to which it is lent. */
interface Place<E> {
  readonly engine: E;
  message: LongMessage;
}

interface Waiting<E> {
  readonly canister: CanisterState;
  readonly handle: number;
  readonly isRecalled: () => boolean;
  readonly isHostWork: boolean;
  readonly run: (engine: E) => Promise<void>;
}

export class LongMessages<E extends LongEngine = Engine> {
  readonly #around: Surroundings<E>;
  /** Messages that can go on, in the order of their turns. */
  readonly #ready: LongMessage[] = [];
  /** Work of the host's own that can go on. */
  readonly #readyHostWork: LongMessage[] = [];
  /** True if the last turn was of work of the host's own. */
  #wasHostWork = false;
  /** Messages that wait for another event. */
  readonly #parked = new Set<LongMessage>();
  readonly #spare: Place<E>[] = [];
  /** All engines. */
  readonly #engines = new Set<E>();
  readonly #waiting: Waiting<E>[] = [];
  #underWay = 0;
  /** Number of messages under way that have no engine yet. */
  #engineless = 0;
  #turnBeganMs = 0;
  #turnBeganCpuMs = 0;
  #turnEndedMs = 0;
  /** True if no other work wanted the thread when the message last looked. */
  #isAlone = false;
  /** Time that short messages had the thread before this turn. */
  #othersMs = 0;
  #endTurn: () => void = () => undefined;
  #fail: (error: unknown) => void = () => undefined;

  constructor(around: Surroundings<E>) {
    this.#around = around;
  }

  /** Number of messages that have begun and not ended. */
  get count(): number {
    return this.#underWay;
  }

  /** True if a message can go on. */
  get hasReady(): boolean {
    return this.#ready.length > 0 || this.#readyHostWork.length > 0;
  }

  /** Bytes of memory that the journals of all engines have. */
  get journalBytes(): number {
    let bytes = 0;
    for (const engine of this.#engines) bytes += engine.journalBytes;
    return bytes;
  }

  /** Bytes of memory that the journals of spare engines have. */
  get spareBytes(): number {
    return this.#spare.reduce((sum, { engine }) => sum + engine.journalBytes, 0);
  }

  /** Lets go of engines that are kept for messages to come. */
  trim(): void {
    for (const { engine } of this.#spare.splice(0)) this.#drop(engine);
  }

  /**
   * Takes a message in: `run` begins it in its first turn, and resolves when it has ended. Once `isRecalled` returns
   * true, the message ends at its next yield.
   */
  add(
    { canister, handle }: Pick<Waiting<E>, 'canister' | 'handle'>,
    run: (engine: E) => Promise<void>,
    isRecalled = isNeverRecalled,
  ): void {
    const waiting = { canister, handle, run, isRecalled, isHostWork: false };
    if (this.#underWay >= LONG_MESSAGES_MAX) this.#waiting.push(waiting);
    else this.#begin(waiting);
  }

  /** Takes work of the host's own in, as `add` does; it waits for no message to end. */
  addHostWork(place: Pick<Waiting<E>, 'canister' | 'handle'>, run: (engine: E) => Promise<void>): void {
    this.#begin({ ...place, run, isRecalled: isNeverRecalled, isHostWork: true });
  }

  /** Gives recalled messages their turns before all others: they end at once. */
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
    // Owed turns must not delay a recalled message.
    for (const message of those(true)) message.ranMs = 0;
    this.#ready.push(...those(true), ...those(false));
  }

  /** Lets the message whose turn it is go on until its turn is over; rejects with an error of the host's own. */
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
    const isHostWork = this.#readyHostWork.length > 0 && !(this.#wasHostWork && this.#ready.length > 0);
    this.#wasHostWork = isHostWork;
    if (isHostWork) return this.#readyHostWork.shift();
    for (;;) {
      const message = this.#ready.shift();
      if (message === undefined || message.ranMs < TURN_MS || this.#ready.length === 0) return message;
      // The message has already had this turn.
      message.ranMs -= TURN_MS;
      this.#ready.push(message);
    }
  }

  /**
   * Begins a message. It gets its engine in its first turn: making many at once would hold up the short messages behind
   * them.
   */
  #begin({ canister, handle, isRecalled, isHostWork, run }: Waiting<E>): void {
    this.#underWay++;
    this.#engineless++;
    const message: LongMessage = {
      handle,
      isRecalled,
      isHostWork,
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
    this.#queueOf(message).push(message);
  }

  #queueOf({ isHostWork }: LongMessage): LongMessage[] {
    return isHostWork ? this.#readyHostWork : this.#ready;
  }

  /**
   * Returns a place for the message, preferably where the canister's instance already is: moving it takes a new
   * instance.
   */
  #takePlace(canister: CanisterState, message: LongMessage): Place<E> {
    const at = this.#spare.findLastIndex(({ engine }) => engine.isHomeOf(canister));
    const place = at < 0 ? this.#spare.pop() : this.#spare.splice(at, 1)[0];
    if (place !== undefined) {
      place.message = message;
      return place;
    }
    const hooks: MessageHooks = {
      onYield: (isWaiting) => this.#yielded(fresh.message, isWaiting),
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
    const next = this.#underWay < LONG_MESSAGES_MAX ? this.#waiting.shift() : undefined;
    if (next !== undefined) this.#begin(next);
    const sparesMax = Math.max(SPARE_ENGINES_MAX, this.#engineless);
    const isKept = this.#spare.length < sparesMax && place.engine.journalBytes <= SPARE_JOURNAL_BYTES_MAX;
    if (isKept) this.#spare.push(place);
    else this.#drop(place.engine);
    this.#leave();
  }

  #yielded(message: LongMessage, isWaiting = false): Promise<void> | undefined {
    this.#around.onYield();
    if (message.isRecalled()) throw ENDED;
    const others = this.#around.hasOthers();
    const isAlone = !this.hasReady;
    const wasAlone = this.#isAlone;
    this.#isAlone = isAlone && !others;
    if (this.#isAlone) return undefined;
    const turnMs = this.#around.nowMs() - this.#turnBeganMs;
    const isCutOff = others && turnMs >= this.#othersMs;
    // Reading the clock of processor time costs more, so it is read only if its answer may matter.
    if (!wasAlone && !isCutOff && !isWaiting && message.ranMs + turnMs < TURN_MS) return undefined;
    const ranMs = message.ranMs + this.#around.cpuMs() - this.#turnBeganCpuMs;
    const isOver = wasAlone || isWaiting || ranMs >= TURN_MS;
    if (!isOver && !isCutOff) return undefined;
    if (isOver) {
      // A message does not owe the time that it had while no other work wanted the thread.
      message.ranMs =
        wasAlone || isAlone || message.isHostWork || isWaiting
          ? 0
          : Math.min(ranMs - TURN_MS, TURNS_OWED_MAX * TURN_MS);
      this.#queueOf(message).push(message);
    } else {
      message.ranMs = ranMs;
      this.#queueOf(message).unshift(message);
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

  /** Lets a parked message go on; it may have been woken already for another reason. */
  #wake(message: LongMessage): void {
    if (this.#parked.delete(message)) this.#queueOf(message).push(message);
  }

  #leave(): void {
    this.#turnEndedMs = this.#around.nowMs();
    this.#endTurn();
  }
}
