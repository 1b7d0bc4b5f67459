/**
 * The executors of a server, all in this thread: the shipped pool, wire and threads (`ExecutorPool`, `Executor`,
 * `ExecutorThread`) over real rings and ports. What a simulation decides is when a thread works, when the main thread is
 * told, and when a thread dies; and how time passes for it, which says when messages give way. Its engines, and how modules
 * get their code, it brings along.
 */
import type { MessagePort } from 'node:worker_threads';
import { type Clock, type Logger, messageOf } from '../../kernel/index.ts';
import { ExecutorPool, type ExecutionParts } from '../../subsystems/execution/pool/executor-pool.ts';
import { ExecutorThread, type ThreadParts } from '../../subsystems/execution/thread/executor-thread.ts';
import type { CreateEngine } from '../../subsystems/execution/thread/thread-engine.ts';
import type { StartExecutorThread } from '../../subsystems/execution/pool/executor.ts';
import type { PieceSizes } from '../../subsystems/execution/persistence/piece-sizes.ts';
import type { ExecutorOptions } from '../../subsystems/execution/wire/port-messages.ts';
import type { MeteringPolicy } from '../../subsystems/metering/index.ts';
import { type RingListener, RingProducer } from '../../subsystems/threads/index.ts';
import { TAIL } from '../../subsystems/threads/message-ring.ts';

/** Whatever throws this inside of a thread is its death, and no mistake. */
export const KILLED = 'the simulation killed it';

/** A thread would have to wait for room in its ring, which the main thread does not make now: in one thread nobody can. */
export class CannotWait extends Error {}

export interface SteppedThreadsOptions {
  readonly lanes: number;
  readonly policy: MeteringPolicy;
  readonly clock: Clock;
  readonly log: Logger;
  readonly wasmStackBytes: number;
  /** Milliseconds that pass for a thread each time it looks. */
  readonly passMs: () => number;
  /** Whether the main thread works while a long message runs, which is asked at each of its yields; whether it is awake when a step is done. */
  readonly isHeard: () => boolean;
  readonly loader: NonNullable<ExecutionParts['loader']>;
  /** As shipped unless given. */
  readonly pieceSizes?: PieceSizes | undefined;
  /** What a thread has of its own that starts now. */
  readonly partsOf: (options: ExecutorOptions) => SteppedParts;
}

export type SteppedParts = ThreadParts & { readonly createEngine: CreateEngine };

/** The one end of a thread that the simulation has, by the number of its executor. */
interface SteppedThread {
  readonly thread: ExecutorThread;
  readonly port: MessagePort;
  readonly ended: (reason: string) => void;
  /** A long message has its turn, until this resolves. */
  turn: Promise<void> | undefined;
  isDead: boolean;
  /** The main thread takes nothing at the moment: it still sends what a message before has called. */
  isHeldUp: boolean;
  outbox: RingListener | undefined;
  drain: () => unknown;
}

export class SteppedThreads extends ExecutorPool {
  /** By lane; one starts with the first canister of its lane. */
  readonly #threads: readonly (SteppedThread | undefined)[];
  readonly #log: Logger;
  #isAbandoned = false;

  constructor({ lanes, policy, clock, log, wasmStackBytes, loader, pieceSizes, ...rest }: SteppedThreadsOptions) {
    const threads: SteppedThread[] = [];
    // That a thread dies when the simulation kills it is no problem of the host's.
    const error: Logger['error'] = (text, cause) => (text.includes(KILLED) ? undefined : log.error(text, cause));
    super(
      { policy, clock, log: { ...log, error } },
      { executors: lanes, wasmStackBytes },
      { pieceSizes },
      { startThread: startThread(threads, rest), loader },
    );
    this.#threads = threads;
    this.#log = log;
  }

  /** Their memory is never short, and a wait of the event loop's would outlive the seed. */
  override attendMemory(): void {}

  canExecute(lane: number): boolean {
    const at = this.#threads[lane];
    return at !== undefined && at.turn === undefined && !at.isDead && !at.isHeldUp && at.thread.hasWork;
  }

  canTell(lane: number): boolean {
    return this.#threads[lane]?.outbox?.hasMore === true;
  }

  /** Lets a thread do what has come, and give a long message a turn, which ends before the event loop's next one. */
  execute(lane: number): void {
    const at = this.#at(lane);
    try {
      const worked = at.thread.advance();
      if (typeof worked !== 'boolean') at.turn = this.#finishTurn(at, worked);
      else if (!worked && at.thread.hasTaken) throw new Error('the thread would sleep although work waits in it');
    } catch (error) {
      this.#failed(at, error);
    }
  }

  /** Resolves when the turn of a long message has ended, if one has a turn. */
  turnOf(lane: number): Promise<void> | undefined {
    return this.#threads[lane]?.turn;
  }

  async #finishTurn(at: SteppedThread, worked: Promise<boolean>): Promise<void> {
    try {
      await worked;
    } catch (error) {
      this.#failed(at, error);
    } finally {
      at.turn = undefined;
    }
  }

  /** As a thread that throws: what it has not published is lost with it. */
  #failed(at: SteppedThread, error: unknown): void {
    const reason = messageOf(error);
    if (reason !== KILLED) this.#log.error('an executor thread has failed', error);
    this.#end(at, reason);
  }

  /** Tells the main thread what a thread has published. */
  tell(lane: number): void {
    this.#at(lane).drain();
  }

  /** The thread of an executor dies and is replaced; what it has published still counts. */
  kill(lane: number): void {
    const at = this.#threads[lane];
    if (at !== undefined) this.#end(at, KILLED);
  }

  /** Does nothing more; the main thread is told in a turn of its event loop, as of a real thread. */
  #end(at: SteppedThread, reason: string): void {
    if (at.isDead) return;
    at.isDead = true;
    setImmediate(() => {
      if (this.#isAbandoned) return;
      at.ended(reason);
      at.port.close();
    });
  }

  /** The process ends: nothing of it counts any more. */
  abandon(): void {
    this.#isAbandoned = true;
    for (const at of this.#threads) at?.port.close();
  }

  /** What an executor has of canisters. */
  threadOf(handle: number): ExecutorThread {
    return this.#at(this.executorOf(handle)).thread;
  }

  get heapsLive(): number {
    return this.#threads.reduce((sum, at) => sum + (at?.thread.heapsLive ?? 0), 0);
  }

  #at(lane: number): SteppedThread {
    const thread = this.#threads[lane];
    if (thread === undefined) throw new Error(`no executor ${lane}`);
    return thread;
  }
}

/** Longer than a thread's short messages may have while long ones wait (SHORT_MS_MAX of executor-thread.ts). */
const HELD_UP_MS = 6;

/** What passes between two looks at the clock: now and then the machine has held the thread up. */
export function drawPassedMs(draw: (below: number) => number): number {
  const drawn = draw(24);
  return drawn === 0 ? HELD_UP_MS : drawn % 3;
}

/** The main thread makes room at once: it cannot do so while this one waits. */
class TellingOutbox extends RingProducer {
  readonly #tell: () => void;
  readonly #isHeard: () => boolean;

  constructor(shared: SharedArrayBuffer, tell: () => void, isHeard: () => boolean) {
    super(shared);
    this.#tell = tell;
    this.#isHeard = isHeard;
  }

  override get isHeard(): boolean {
    return this.#isHeard();
  }

  override waitForRoom(): void {
    this.publish();
    const taken = this.words[TAIL];
    this.#tell();
    if (this.words[TAIL] === taken) throw new CannotWait('the main thread takes nothing now');
  }
}

function startThread(
  threads: SteppedThread[],
  { passMs, isHeard, partsOf }: Pick<SteppedThreadsOptions, 'passMs' | 'isHeard' | 'partsOf'>,
): StartExecutorThread {
  return (options, ended) => {
    let ms = 0;
    const nowMs = (): number => (ms += passMs());
    const outbox = new TellingOutbox(options.outbox, () => stepped.drain(), isHeard);
    const parts = partsOf(options);
    const createEngine: CreateEngine = ({ onYield, canSuspend = false, ...others }, ...rest) => {
      const heard = (): unknown => {
        // It hears what there is, and sends what it has: short messages come while the long one runs.
        if (canSuspend && isHeard()) stepped.drain();
        return onYield?.();
      };
      return parts.createEngine({ onYield: heard, canSuspend, ...others }, ...rest);
    };
    const stepped: SteppedThread = {
      thread: new ExecutorThread(options, nowMs, { ...parts, createEngine, outbox }),
      port: options.port,
      ended,
      turn: undefined,
      isDead: false,
      isHeldUp: false,
      outbox: undefined,
      drain: () => undefined,
    };
    threads[options.lane] = stepped;
    return {
      listen: (ring, drain) => {
        stepped.outbox = ring;
        stepped.drain = () => {
          const taken = ring.words[TAIL];
          drain();
          stepped.isHeldUp = ring.hasMore && ring.words[TAIL] === taken;
        };
      },
      terminate: () => Promise.resolve(),
    };
  };
}
