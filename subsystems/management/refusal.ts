import { ServerError } from '../../kernel/index.ts';
import type { RejectCode } from '../ic/index.ts';

/**
 * Refusal of a call. Methods throw it, and the answer to the call turns it into a reject. A refused call has changed
 * nothing, and its cycles are refunded.
 */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: RejectCode;

  /** `number` is from the replica's list (`IC0301`); the message begins with it, for clients that match on it. */
  constructor(code: RejectCode, number: string, message: string) {
    super(`${number}: ${message}`);
    this.code = code;
  }
}

const OUTCALL_NUMBERS = { 1: 'IC0101', 2: 'IC0201', 4: 'IC0406', 5: 'IC0502' } as const;

export const REFUSE = {
  /** The argument's bytes or values are not what the method accepts. */
  badArgument: (message: string) => new Refusal(4, 'IC0408', message),
  /** The call is correct, but this system does not offer it. */
  notOffered: (message: string) => new Refusal(4, 'IC0406', message),
  unknownMethod: (method: string) =>
    new Refusal(4, 'IC0407', `the management canister has no method ${JSON.stringify(method.slice(0, 100))}`),
  noCanister: (id: string) => new Refusal(3, 'IC0301', `canister ${id} not found`),
  notAllowed: (message: string) => new Refusal(5, 'IC0512', message),
  wrongState: (message: string) => new Refusal(5, 'IC0504', message),
  idInUse: (id: string) => new Refusal(2, 'IC0205', `canister ${id} exists already`),
  empty: (id: string) => new Refusal(5, 'IC0537', `canister ${id} has no wasm module`),
  /** An outcall that got no answer. */
  outcall: (code: keyof typeof OUTCALL_NUMBERS, message: string) => new Refusal(code, OUTCALL_NUMBERS[code], message),
  full: (message: string) => new Refusal(1, 'IC0101', message),
  unavailable: (message: string) => new Refusal(2, 'IC0201', message),
} as const;

/** Returns the host's error as a refusal with the number that fits; throws bugs on. */
export function refusalOf(error: unknown, code: RejectCode, number: string): Refusal {
  if (error instanceof Refusal) return error;
  if (!(error instanceof ServerError)) throw error;
  return error.kind === 'unavailable' ? REFUSE.unavailable(error.message) : new Refusal(code, number, error.message);
}
