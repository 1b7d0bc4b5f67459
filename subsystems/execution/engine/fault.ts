/**
 * Executor thread, and the module worker for `get_candid_pointer`: the end of an execution, as a value. Touches
 * nothing.
 */
import { messageOf } from '../../../kernel/index.ts';
import { STOP } from '../../instrument/abi/index.ts';
import { openFunctions } from './wasm-stack.ts';

/** Reason why an execution ended without returning. A value: nobody has to catch it. */
export interface Fault {
  /**
   * `trap`: the canister's own doing, or a system call it may not make. `calledTrap`: `ic0.trap`. `noCallback`: the
   * callback is no entry of the table. `limit`: out of instructions. `stackOverflow`: recursion too deep. `host`: a bug
   * of ours, to be logged as one. `long`: the message used up its first slice where no message may be suspended
   * (`TooLong`); it is undone and begins again where messages may be.
   */
  readonly kind: 'trap' | 'calledTrap' | 'noCallback' | 'limit' | 'stackOverflow' | 'host' | 'long';
  readonly message: string;
  /**
   * Text for the canister's log; undefined: none. The replica has records of traps alone, not of limits and contracts.
   */
  readonly record?: string;
  /** Functions of the guest that were open, innermost first, one a line; undefined: not known. */
  readonly stack?: string | undefined;
  /** For `host`: the error that was thrown. */
  readonly cause?: unknown;
}

/** Thrown by a system call to trap the canister with a text; wasm cannot catch it. */
export class HostTrap extends Error {
  override readonly name: string = 'HostTrap';
}

/** Thrown by a system call that the canister must not make, or must not make in this way. */
export class ContractViolation extends HostTrap {
  override readonly name = 'ContractViolation';
}

/** Thrown by `ic0.trap`. */
export class CalledTrap extends HostTrap {
  override readonly name = 'CalledTrap';
  /** The canister's own words. */
  readonly text: string;

  constructor(text: string) {
    super(`Canister called \`ic0.trap\` with message: '${text}'`);
    this.text = text;
  }
}

/** Thrown if a system call's own cost does not fit into what is left of the instruction limit. */
export class OutOfInstructions extends Error {
  override readonly name = 'OutOfInstructions';
}

/** Thrown to end a message that has to wait where it cannot be suspended; by `svc.yield`, or by a system call. */
export class TooLong extends Error {
  override readonly name = 'TooLong';
}

const LIMIT_MESSAGE = 'instruction limit exceeded';
const STACK_OVERFLOW_MESSAGE = 'stack overflow';
const JOURNAL_FULL_MESSAGE = 'memory access limit exceeded: the message changes too much memory';

export const LONG: Fault = Object.freeze({
  kind: 'long',
  message: 'the message is begun again where it can be suspended',
});

/** V8's texts for traps, and the texts that canister developers know. */
const TRAP_TEXTS: readonly (readonly [RegExp, string])[] = [
  [/^unreachable/, 'unreachable'],
  [/memory access out of bounds|memory index is out of range/, 'heap out of bounds'],
  [/divide by zero|remainder by zero/, 'integer division by 0'],
  [/divide result unrepresentable/, 'integer overflow'],
  [/float unrepresentable/, 'bad conversion to integer'],
  [/table index is out of bounds|table access out of bounds|table or segment/, 'table out of bounds'],
  [/null function|signature mismatch/, 'function signature mismatch or null function'],
];

const recordOf = (text: string): string => `[TRAP]: ${text}`;
const trap = (message: string): Fault => ({ kind: 'trap', message, record: recordOf(message) });
const STACK_OVERFLOW: Fault = {
  kind: 'stackOverflow',
  message: STACK_OVERFLOW_MESSAGE,
  record: recordOf(STACK_OVERFLOW_MESSAGE),
};

/** Returns the fault for an error that came out of wasm; `stop` is the control memory's reason. */
export function faultOf(error: unknown, stop: number): Fault {
  if (error instanceof TooLong) return LONG;
  if (error instanceof CalledTrap)
    return { kind: 'calledTrap', message: error.message, record: recordOf(error.text || '(no message)') };
  if (error instanceof ContractViolation) return { kind: 'trap', message: error.message };
  if (error instanceof HostTrap) return trap(error.message);
  if (error instanceof OutOfInstructions) return { kind: 'limit', message: LIMIT_MESSAGE };
  if (stop === STOP.OUT_OF_INSTRUCTIONS) return { kind: 'limit', message: LIMIT_MESSAGE };
  if (stop === STOP.STACK_OVERFLOW) return STACK_OVERFLOW;
  if (stop === STOP.JOURNAL_FULL) return { kind: 'trap', message: JOURNAL_FULL_MESSAGE };
  if (error instanceof WebAssembly.RuntimeError) {
    const text = TRAP_TEXTS.find(([pattern]) => pattern.test(error.message))?.[1];
    return trap(text ?? error.message);
  }
  // V8 ran out of its own stack. The budget should have tripped first, but it is the canister's recursion all the same.
  if (error instanceof RangeError && /call stack/.test(error.message)) return STACK_OVERFLOW;
  return { kind: 'host', message: `internal error: ${messageOf(error)}`, cause: error };
}

/** Returns the fault with what the host adds to its message, and with the guest's stack. */
export function toldFault(fault: Fault, error: unknown, note: string): Fault {
  const told = note === '' ? fault : { ...fault, message: fault.message + note };
  const stack = told.kind === 'long' || told.kind === 'host' ? undefined : openFunctions(error);
  return stack === undefined ? told : { ...told, stack };
}
