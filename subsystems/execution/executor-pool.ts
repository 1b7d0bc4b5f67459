/**
 * The executor threads together: which canister lives where, and what becomes of it when its thread dies.
 *
 * A canister belongs to one executor for as long as that lives. A dead executor is replaced at once, so that new
 * canisters find a place; those that lived in it have nowhere to come back from and answer `unavailable` for good.
 */
import { type Clock, type Logger, ServerError } from '../../kernel/index.ts';
import type { MeteringPolicy } from '../metering/index.ts';
import { threadStackMb } from '../metering/instrument/index.ts';
import { Executor } from './executor.ts';
import type {
  CanisterGauges,
  CanisterMessage,
  CanisterObserver,
  CanisterSpec,
  Execution,
  InstallRequest,
  ModuleInfo,
  Outcome,
} from './index.ts';
import { type LoadedModule, ModuleLoader } from './module-loader.ts';
import type { OutcomeRecord } from './wire.ts';

export interface ExecutionOptions {
  readonly executors: number;
  /** Bytes of stack a message may use. */
  readonly wasmStackBytes: number;
}

interface Placed {
  readonly lane: number;
  readonly executor: Executor;
  readonly observer: CanisterObserver;
  module: LoadedModule | undefined;
}

export class ExecutorPool implements Execution {
  readonly #executors: Executor[];
  readonly #canisters: (Placed | undefined)[] = [];
  readonly #loader: ModuleLoader;
  readonly #loaded = new WeakMap<ModuleInfo, LoadedModule>();
  readonly #policy: MeteringPolicy;
  readonly #options: ExecutionOptions;
  readonly #clock: Clock;
  readonly #log: Logger;
  #isClosing = false;

  constructor(
    granted: { readonly policy: MeteringPolicy; readonly clock: Clock; readonly log: Logger },
    options: ExecutionOptions,
  ) {
    this.#policy = granted.policy;
    this.#clock = granted.clock;
    this.#log = granted.log;
    this.#options = options;
    this.#loader = new ModuleLoader(options);
    this.#executors = Array.from({ length: options.executors }, (_, lane) => this.#startExecutor(lane));
  }

  get lanes(): number {
    return this.#options.executors;
  }

  laneOf(handle: number): number {
    return this.#placed(handle).lane;
  }

  async prepare(bytes: Uint8Array): Promise<ModuleInfo> {
    const loaded = await this.#loader.load(bytes);
    this.#loaded.set(loaded.info, loaded);
    return loaded.info;
  }

  create(spec: CanisterSpec, observer: CanisterObserver): number {
    const handle = this.#canisters.length;
    const lane = handle % this.lanes;
    const executor = this.#executors[lane];
    if (executor === undefined) throw new Error(`no executor ${lane}`);
    this.#canisters.push({ lane, executor, observer, module: undefined });
    const { id, balance, controllers, env } = spec;
    executor.send({ kind: 'create', handle, spec: { id, balance, controllers, env } });
    return handle;
  }

  install(handle: number, request: InstallRequest): Promise<Outcome> {
    const placed = this.#placed(handle);
    const loaded = this.#loaded.get(request.module);
    if (loaded === undefined) throw new Error(`module ${request.module.hash} does not come from prepare`);
    const { argument, caller } = request;
    const nowMs = this.#clock.nowMs();
    return new Promise((resolve) => {
      placed.executor.request(
        (call) => ({ kind: 'install', call, handle, code: loaded.code, argument, caller, nowMs }),
        (outcome) => {
          if (outcome.kind === 'reply') placed.module = loaded;
          resolve(outcome);
        },
      );
    });
  }

  execute(message: CanisterMessage, done: (outcome: Outcome) => void): void {
    const placed = this.#placed(message.handle);
    const entry = placed.module?.entries.get(message.method);
    if (entry === undefined) throw new Error(`canister ${message.handle} has no method ${message.method}`);
    placed.executor.execute(
      {
        nowMs: this.#clock.nowMs(),
        handle: message.handle,
        entry,
        kind: message.kind,
        caller: message.caller,
        argument: message.argument,
      },
      done,
    );
  }

  async addCycles(handle: number, amount: bigint): Promise<bigint> {
    const balance = await this.#placed(handle).executor.addCycles(handle, amount);
    if (balance === undefined) {
      throw new ServerError('unavailable', 'executor-stopped', "the actor's thread has stopped");
    }
    return balance;
  }

  remove(handle: number): void {
    this.#placed(handle).executor.send({ kind: 'remove', handle });
    this.#canisters[handle] = undefined;
  }

  refuseNew(): void {
    for (const executor of this.#executors) executor.refuseNew();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.all([this.#loader.close(), ...this.#executors.map((executor) => executor.terminate())]);
  }

  #placed(handle: number): Placed {
    const placed = this.#canisters[handle];
    if (placed === undefined) throw new Error(`no canister ${handle}`);
    return placed;
  }

  #startExecutor(lane: number): Executor {
    const { wasmStackBytes } = this.#options;
    const settings = {
      policy: this.#policy,
      wasmStackBytes,
      threadStackMb: threadStackMb(wasmStackBytes),
    };
    return new Executor(settings, {
      debug: (handle, text) => this.#canisters[handle]?.observer.debug(text),
      ended: (record) => this.#canisters[record.handle]?.observer.ended(gaugesOf(record)),
      bug: (message) => this.#log.error(`a message failed by the host's own fault: ${message}`),
      died: (reason) => this.#replace(lane, reason),
    });
  }

  #replace(lane: number, reason: string): void {
    if (this.#isClosing) return;
    const lost = this.#canisters.filter((placed) => placed?.executor === this.#executors[lane]).length;
    this.#log.error(`executor ${lane} has stopped (${reason}): ${lost} actor(s) answer 503 from now on`);
    this.#executors[lane] = this.#startExecutor(lane);
  }
}

/** One object, filled again and again: `ended` copies what it keeps. */
const gauges: { -readonly [K in keyof CanisterGauges]: CanisterGauges[K] } = {
  heapBytes: 0,
  stableBytes: 0,
  charge: 0,
  balance: undefined,
};

function gaugesOf(record: OutcomeRecord): CanisterGauges {
  gauges.heapBytes = record.heapBytes;
  gauges.stableBytes = record.stableBytes;
  gauges.charge = record.outcome.charge;
  gauges.balance = record.balance;
  return gauges;
}
