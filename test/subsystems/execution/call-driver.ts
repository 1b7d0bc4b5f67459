/**
 * A minimal scheduler: calls among canisters that live in the test's thread, one message at a time, in the order sent.
 * The scheduler supports call contexts, refunds and "did not reply", so that Motoko programs can await in engine tests.
 */
import {
  type ContextView,
  type OutgoingCall,
  type Response,
  type Step,
  FULL_LIMIT,
} from '../../../subsystems/ic/index.ts';
import type { TestCanister, TestResult } from './engine-fixture.ts';

interface Origin {
  readonly canister: TestCanister;
  readonly context: CallContext;
  readonly call: OutgoingCall;
}

/** A call in progress; `answered` takes its response and its remaining cycles. */
class CallContext {
  readonly canister: TestCanister;
  readonly caller: Uint8Array;
  readonly answered: ((response: Response, refund: bigint) => void) | undefined;
  available: bigint;
  instructions = 0;
  open = 0;
  hasAnswered = false;

  constructor(
    canister: TestCanister,
    caller: Uint8Array,
    available: bigint,
    answered?: (response: Response, refund: bigint) => void,
  ) {
    this.canister = canister;
    this.caller = caller;
    this.available = available;
    this.answered = answered;
  }

  get view(): ContextView {
    const canAnswer = this.answered !== undefined && !this.hasAnswered;
    return {
      caller: this.caller,
      deadlineNs: 0n,
      canAnswer,
      cyclesAvailable: this.available,
      instructions: this.instructions,
    };
  }

  answer(response: Response): void {
    if (this.hasAnswered) return;
    this.hasAnswered = true;
    this.answered?.(response, this.available);
    this.available = 0n;
  }
}

export class CallDriver {
  readonly #canisters = new Map<string, TestCanister>();
  readonly #queue: (() => void)[] = [];
  /** All steps, in order. */
  readonly steps: Step[] = [];

  add(canister: TestCanister): TestCanister {
    this.#canisters.set(keyOf(canister.state.id), canister);
    return canister;
  }

  /** Makes a call from outside, and runs until no work is left. */
  call(canister: TestCanister, method: string, argument: Uint8Array): Response {
    let response: Response | undefined;
    this.#request(canister, method, argument, canister.caller, 0n, (answer) => (response = answer));
    this.run();
    if (response === undefined) throw new Error(`${method} was never answered`);
    return response;
  }

  /** Runs a system task and everything that follows from it. */
  system(canister: TestCanister, exported: string): TestResult {
    const context = new CallContext(canister, new Uint8Array(0), 0n);
    const result = canister.system(exported);
    this.#take(context, result.step);
    this.run();
    return result;
  }

  run(): void {
    for (let job = this.#queue.shift(); job !== undefined; job = this.#queue.shift()) job();
  }

  #request(
    canister: TestCanister,
    method: string,
    argument: Uint8Array,
    caller: Uint8Array,
    cycles: bigint,
    answered: (response: Response, refund: bigint) => void,
  ): void {
    this.#queue.push(() => {
      const context = new CallContext(canister, caller, cycles, answered);
      const kind = canister.module.info.methods.get(method);
      if (kind === undefined) return context.answer({ kind: 'reject', code: 5, message: `no method ${method}` });
      const entry = canister.entry(`canister_${kind} ${method}`);
      const task = { kind: 'update', entry, argument, context: context.view, instructionsMax: FULL_LIMIT } as const;
      this.#take(context, canister.execute(task).step);
    });
  }

  #take(context: CallContext, step: Step): void {
    this.steps.push(step);
    context.instructions += step.instructions;
    context.available -= step.cyclesAccepted;
    if (step.answer !== undefined) context.answer(step.answer);
    for (const call of step.calls) {
      context.open++;
      const callee = this.#canisters.get(keyOf(call.callee));
      const origin = { canister: context.canister, context, call };
      const answered = (response: Response, refund: bigint): void => this.#respond(origin, response, refund);
      if (callee === undefined) answered({ kind: 'reject', code: 3, message: 'no such canister' }, call.cycles);
      else this.#request(callee, call.method, call.payload, context.canister.state.id, call.cycles, answered);
    }
    if (context.open === 0)
      context.answer({ kind: 'reject', code: 5, message: step.fault?.message ?? 'did not reply' });
  }

  #respond({ canister, context, call }: Origin, response: Response, refunded: bigint): void {
    this.#queue.push(() => {
      context.open--;
      const { callbacks } = call;
      const rest = { context: context.view, frame: 0, instructionsMax: FULL_LIMIT };
      this.#take(context, canister.execute({ kind: 'callback', callbacks, response, refunded, ...rest }).step);
    });
  }
}

function keyOf(id: Uint8Array): string {
  return Buffer.from(id).toString('hex');
}
