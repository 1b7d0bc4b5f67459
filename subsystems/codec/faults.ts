import { ServerError } from '../../kernel/index.ts';

/**
 * Deepest nesting of values, in JSON and in Candid: well below the depth at which recursion would exhaust the stack.
 */
export const VALUE_DEPTH_MAX = 512;

/** Longest nat or int in a message: converting longer ones to decimal would take too much time (it is not linear). */
export const BIGNUM_BYTES_MAX = 8_192;
/** Decimal digits that surely fit into `BIGNUM_BYTES_MAX` bytes of 7 bits. */
export const BIGNUM_DIGITS_MAX = 17_000;

/**
 * Limit on the work of a conversion for the length of its input. Every value visited costs at least one unit, even one
 * without bytes, so that `vec null` of 2^40 ends at once; the constant lets small messages use optional fields freely.
 */
export const WORK_BASE = 200_000;
export const WORK_PER_BYTE = 12;
/** Bytes that a conversion may write: names make JSON many times longer than Candid, but there must be a limit. */
export const OUTPUT_BYTES_BASE = 16 * 1024 * 1024;
export const OUTPUT_BYTES_PER_BYTE = 64;
export const OUTPUT_BYTES_MAX = 512 * 1024 * 1024;

/** Error for JSON text that does not fit the types, or is not JSON. */
export function badJson(path: string, problem: string): ServerError {
  return new ServerError('invalid', 'bad-json', `${path}: ${problem}`);
}

/** Error for bytes that are not the expected Candid message. */
export function badCandid(place: string, problem: string): ServerError {
  return new ServerError('invalid', 'bad-candid', `${place}: ${problem}`);
}

/** Error for a conversion that would cost more than its input's length allows. */
export function quotaExceeded(place: string, problem: string): ServerError {
  return new ServerError('invalid', 'codec-quota', `${place}: ${problem}`);
}

/** Throws for a bug of the program, never for a fault of the input. */
export function unreachable(what: string): never {
  throw new Error(`bug in codec: ${what}`);
}

/** Step of a path into a value: a field name, an index, or undefined for a step without a name (`opt`). */
export type PathStep = string | number | undefined;

/** Returns a path such as `args[0].owner["odd name"]`. */
export function formatPath(root: string, steps: readonly PathStep[], depth: number): string {
  let text = root;
  for (let level = 1; level <= depth; level++) {
    const step = steps[level];
    if (step === undefined) continue;
    if (typeof step === 'number') text += `[${step}]`;
    else if (/^[A-Za-z_$][\w$]*$/.test(step)) text += `.${step}`;
    else text += `[${JSON.stringify(step.length > 40 ? `${step.slice(0, 40)}…` : step)}]`;
    if (text.length > 400) return `${text.slice(0, 400)}…`;
  }
  return text;
}
/**
 * Bodies above this size are converted in the codec's worker thread by a tuple's `encodeAnySize` and `decodeAnySize`.
 */
export const LARGE_BODY_BYTES = 256 * 1024;
