/**
 * The executors of a server, all in this thread: the shipped pool, wire and threads (`ExecutorPool`, `Executor`,
 * `ExecutorThread`) over real rings and ports. The simulation decides when a thread works, when the main thread is
 * told, when a thread dies, and how time passes for it, on which the turns of messages depend. It brings its own
 * engines and its own loader of modules.
 */
import type { MessagePort } from 'node:worker_threads';
import { type Clock, type Logger, messageOf } from '../../kernel/index.ts';
import type { ExecutionParts } from '../../subsystems/execution/pool/execution-options.ts';
import { ExecutorPool } from '../../subsystems/execution/pool/executor-pool.ts';
import { ExecutorThread, type ThreadParts } from '../../subsystems/execution/thread/executor-thread.ts';
import type { CreateEngine } from '../../subsystems/execution/thread/thread-engine.ts';
import type { StartExecutorThread } from '../../subsystems/execution/pool/executor.ts';
import type { PieceSizes } from '../../subsystems/execution/persistence/piece-sizes.ts';
import type { ExecutorOptions } from '../../subsystems/execution/wire/port-messages.ts';
import type { MeteringPolicy } from '../../subsystems/metering/index.ts';
import { type RingListener, RingProducer } from '../../subsystems/threads/index.ts';
import { TAIL } from '../../subsystems/threads/message-ring.ts';

/** An error with this message inside a thread is the thread's planned death, and no mistake. */
export const KILLED = 'the simulation killed it';

/** Thrown when a thread would have to wait for room in its ring: within one thread, nobody can make that room. */
export class CannotWait extends Error {}

interface SteppedThreadsOptions {
  readonly lanes: number;
  readonly policy: MeteringPolicy;
  readonly clock: Clock;
  readonly log: Logger;
  readonly wasmStackBytes: number;
  /** Returns the milliseconds that pass for a thread at each look. */
  readonly passMs: () => number;
  /**
   * Returns true if the main thread works while a long message runs (asked at each of the message's yields), or is
   * awake when a step is done.
   */
  readonly isHeard: () => boolean;
  readonly loader: NonNullable<ExecutionParts['loader']>;
  /** Default: the shipped sizes. */
  readonly pieceSizes?: PieceSizes | undefined;
  /** Returns the parts of a thread that starts now. */
  readonly partsOf: (options: ExecutorOptions) => SteppedParts;
}

export type SteppedParts = ThreadParts & { readonly createEngine: CreateEngine };

/** The simulation's side of a thread, by the number of its executor. */
interface SteppedThread {
  readonly thread: ExecutorThread;
  readonly port: MessagePort;
  readonly ended: (reason: string) => void;
  /** Resolves when the turn of a long message ends; undefined if no message has a turn. */
  turn: Promise<void> | undefined;
  isDead: boolean;
  /** True while the main thread takes nothing, since it still sends the calls of an earlier message. */
  isHeldUp: boolean;
  outbox: RingListener | undefined;
  drain: () => unknown;
}

export class SteppedThreads extends ExecutorPool {
  /** Threads by lane; each starts with the first canister of its lane. */
  readonly #threads: readonly (SteppedThread | undefined)[];
  readonly #log: Logger;
  #isAbandoned = false;

  constructor({ lanes, policy, clock, log, wasmStackBytes, loader, pieceSizes, ...rest }: SteppedThreadsOptions) {
    const threads: SteppedThread[] = [];
    // The death of a thread that the simulation kills is no problem of the host.
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

  /** Does nothing: memory is never short here, and a timer would outlive the seed. */
  override attendMemory(): void {}

  canExecute(lane: number): boolean {
    const at = this.#threads[lane];
    return at !== undefined && at.turn === undefined && !at.isDead && !at.isHeldUp && at.thread.hasWork;
  }

  canTell(lane: number): boolean {
    return this.#threads[lane]?.outbox?.hasMore === true;
  }

  /** Lets a thread handle its work, and gives a long message a turn, which ends before the event loop's next one. */
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

  /** Ends a thread that has thrown: unpublished results are lost with it. */
  #failed(at: SteppedThread, error: unknown): void {
    const reason = messageOf(error);
    if (reason !== KILLED) this.#log.error('an executor thread has failed', error);
    this.#end(at, reason);
  }

  /** Tells the main thread the results that a thread has published. */
  tell(lane: number): void {
    this.#at(lane).drain();
  }

  /** Kills the thread of an executor, which is replaced; its published results still count. */
  kill(lane: number): void {
    const at = this.#threads[lane];
    if (at !== undefined) this.#end(at, KILLED);
  }

  /** Ends a thread; the main thread is told in a turn of its event loop, as of a real thread. */
  #end(at: SteppedThread, reason: string): void {
    if (at.isDead) return;
    at.isDead = true;
    setImmediate(() => {
      if (this.#isAbandoned) return;
      at.ended(reason);
      at.port.close();
    });
  }

  /** Ends the process: nothing of it counts any more. */
  abandon(): void {
    this.#isAbandoned = true;
    for (const at of this.#threads) at?.port.close();
  }

  /** Returns the thread that has a canister. */
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

/** Time longer than a thread's short messages may have while long ones wait (SHORT_MS_MAX of executor-thread.ts). */
const HELD_UP_MS = 6;

/** Draws the milliseconds between two looks at the clock; sometimes the machine has held the thread up. */
export function drawPassedMs(draw: (below: number) => number): number {
  const drawn = draw(24);
  return drawn === 0 ? HELD_UP_MS : drawn % 3;
}

/** A producer that has the main thread make room at once: the main thread cannot do so while this one waits. */
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
        // The main thread takes the results and sends its tasks: short messages come while the long one runs.
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
    threads[options.executorIndex] = stepped;
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
