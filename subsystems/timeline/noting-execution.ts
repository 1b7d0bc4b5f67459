/**
 * An execution that notes what it runs: each message of an actor, and each change of its code, is told in the unit of
 * the turn in which it has ended, behind what it changed. Only a server with `--timeline` has one.
 *
 * Main thread.
 */
import { isShared, NO_BYTES } from '../bytes/index.ts';
import type {
  CanisterSettings,
  CodeChange,
  Executing,
  ExecutionListener,
  ModuleInfo,
  Recall,
} from '../execution/index.ts';
import type { MemoryFigures } from '../execution/index.ts';
import type { ContextView, EndedStep, StepFault, Task, ToldStep } from '../ic/index.ts';
import type { ScheduledExecution } from '../scheduler/index.ts';
import type { MessageKind, MessageOutcome, Note, NotedActor, NotedAnswer, NotedCall, NotedUpgrade } from './index.ts';

type Told = Pick<Note, 'kind' | 'caller' | 'method' | 'argument' | 'call' | 'upgrade'>;
type ActorOf = (handle: number) => NotedActor | undefined;

export class NotingExecution implements ScheduledExecution {
  readonly #execution: ScheduledExecution;
  readonly #actorOf: ActorOf;
  readonly #note: (id: Uint8Array, note: Note) => void;
  readonly #names = new WeakMap<ModuleInfo, readonly string[]>();

  /** `note` puts a note into the unit of this turn. */
  constructor(execution: ScheduledExecution, actorOf: ActorOf, note: (id: Uint8Array, note: Note) => void) {
    this.#execution = execution;
    this.#actorOf = actorOf;
    this.#note = note;
  }

  run(handle: number, task: Task, ended: (ended: EndedStep) => Promise<void> | void): void {
    const told = this.#toldOf(handle, task);
    if (told === undefined) {
      this.#execution.run(handle, task, ended);
      return;
    }
    const noted = 'context' in task ? { ...task, context: { ...task.context, keepsArgument: true } } : task;
    this.#execution.run(handle, noted, (step) => {
      const result = ended(step);
      if (!step.isReturned) this.#ended(handle, told, step);
      return result;
    });
  }

  change(handle: number, module: ModuleInfo, change: CodeChange, ended: (ended: EndedStep) => void): void {
    const { mode: kind, caller } = change;
    const told: Told = {
      kind,
      caller,
      method: '',
      argument: new Uint8Array(change.argument),
      call: undefined,
      ...(change.mode === 'upgrade' && { upgrade: upgradeOf(change) }),
    };
    this.#execution.change(handle, module, change, (step) => {
      ended(step);
      if (!step.isReturned) this.#ended(handle, told, step);
    });
  }

  #ended(handle: number, told: Told, { step, instantMs, version, heapBytes, stableBytes, balance }: ToldStep): void {
    const actor = this.#actorOf(handle);
    if (actor === undefined || step.fault?.kind === 'unavailable') return;
    this.#note(actor.id, {
      ...told,
      outcome: outcomeOf(step.fault, step.answer?.kind),
      instantMs,
      instructions: step.instructions,
      charge: step.charge,
      version,
      heapBytes,
      stableBytes,
      openCalls: actor.openCalls,
      balance,
      timerNs: step.timerNs,
    });
  }

  /** Returns what a note says of a task; undefined for one that changes nothing. */
  #toldOf(handle: number, task: Task): Told | undefined {
    switch (task.kind) {
      case 'update': {
        const { context, entry } = task;
        const argument = kept(task.argument);
        const call = callOf(context, undefined);
        return { kind: 'update', caller: context.caller, method: this.#methodOf(handle, entry), argument, call };
      }
      case 'callback': {
        if (task.frame !== 0) return undefined;
        const { response, context, callbacks, refunded } = task;
        const argument = response.kind === 'reply' ? kept(response.data) : Buffer.from(response.message);
        const rejectCode = response.kind === 'reply' ? 0 : response.code;
        const call = callOf(context, { callbacks: new Uint8Array(callbacks), rejectCode, refunded });
        return { kind: 'callback', caller: context.caller, method: '', argument, call };
      }
      case 'system':
        return {
          kind: this.#kindOf(handle, task.entry),
          caller: NO_BYTES,
          method: '',
          argument: NO_BYTES,
          call: undefined,
        };
      default:
        return undefined;
    }
  }

  #kindOf(handle: number, entry: number): MessageKind {
    const name = this.#nameOf(handle, entry);
    if (name === 'canister_heartbeat') return 'heartbeat';
    return name === 'canister_global_timer' ? 'timer' : 'low-memory';
  }

  #methodOf(handle: number, entry: number): string {
    const name = this.#nameOf(handle, entry);
    return name.slice(name.indexOf(' ') + 1);
  }

  /** Returns the name under which a module exports an entry point. */
  #nameOf(handle: number, entry: number): string {
    const module = this.#actorOf(handle)?.module;
    if (module === undefined) return '';
    let names = this.#names.get(module);
    if (names === undefined) {
      const byNumber: string[] = [];
      for (const [name, number] of module.entries) byNumber[number] = name;
      this.#names.set(module, (names = byNumber));
    }
    return names[entry] ?? '';
  }

  // ---- everything else as it is

  get executorCount(): number {
    return this.#execution.executorCount;
  }

  get memory(): MemoryFigures {
    return this.#execution.memory;
  }

  attend(listener: ExecutionListener): void {
    this.#execution.attend(listener);
  }

  executorOf(handle: number): number {
    return this.#execution.executorOf(handle);
  }

  aheadOf(handle: number): number {
    return this.#execution.aheadOf(handle);
  }

  recall(handle: number, recall: Recall): void {
    this.#execution.recall(handle, recall);
  }

  uninstall(handle: number): Promise<void> {
    return this.#execution.uninstall(handle);
  }

  configure(handle: number, settings: CanisterSettings): void {
    this.#execution.configure(handle, settings);
  }

  addCycles(handle: number, amount: bigint): Promise<bigint> {
    return this.#execution.addCycles(handle, amount);
  }

  executing(): readonly Executing[] {
    return this.#execution.executing();
  }

  refuseNew(): void {
    this.#execution.refuseNew();
  }

  attendMemory(answer: (bytesWanted: number) => Promise<unknown>): void {
    this.#execution.attendMemory(answer);
  }

  trim(): Promise<void> {
    return this.#execution.trim();
  }
}

/**
 * Returns bytes of a task as they stay: those that are not shared go with it. `slice` of a Buffer would go along, too.
 */
function kept(bytes: Uint8Array): Uint8Array {
  return isShared(bytes) ? bytes : new Uint8Array(bytes);
}

function upgradeOf({ keepsHeap, skipsPreUpgrade }: NotedUpgrade): NotedUpgrade {
  return { keepsHeap, skipsPreUpgrade };
}

function callOf({ canAnswer, cyclesAvailable, deadlineNs }: ContextView, answered: NotedAnswer | undefined): NotedCall {
  return { canAnswer, cyclesAvailable, deadlineNs, answered };
}

function outcomeOf(fault: StepFault | undefined, answer: 'reply' | 'reject' | undefined): MessageOutcome {
  switch (fault?.kind) {
    case undefined:
      return answer ?? 'done';
    case 'limit':
      return 'limit';
    case 'outOfCycles':
      return 'out_of_cycles';
    default:
      return 'trap';
  }
}
