/** Compares how two codes ended the same message. */
import type { CandidInterface } from '../codec/index.ts';
import type { PlayedEnd, WaitingCall } from '../copies/index.ts';
import { principalToText, sameBytes } from '../ic/index.ts';

const FAULTS: ReadonlySet<string> = new Set(['trap', 'limit', 'out_of_cycles', 'missing']);
const LOSSLESS = { lossless: true };
/** Bytes of an argument and of a reply that are kept for the report. */
const SHOWN_BYTES_MAX = 4_096;

export function isFault({ outcome }: PlayedEnd): boolean {
  return FAULTS.has(outcome);
}

/** True for methods that compilers put into a module for its own calls: their arguments mean something to it alone. */
export function isOfCompiler(method: string): boolean {
  return method.startsWith('__motoko');
}

/**
 * True if callers see no difference. Replies are compared as callers of the old interface decode them: a module may
 * write the same value in other bytes. Faults of the same kind are the same, whatever their texts say.
 */
export async function isSameEnd(
  old: CandidInterface | undefined,
  method: string,
  was: PlayedEnd,
  is: PlayedEnd,
): Promise<boolean> {
  if (was.outcome !== is.outcome) return false;
  if (was.outcome === 'reject') return was.message === is.message;
  if (was.reply === undefined || is.reply === undefined || isOfCompiler(method)) return true;
  if (sameBytes(was.reply, is.reply)) return true;
  const results = old?.methods.get(method)?.results;
  if (results === undefined) return false;
  try {
    return sameBytes(await results.decodeAnySize(was.reply, LOSSLESS), await results.decodeAnySize(is.reply, LOSSLESS));
  } catch {
    // One of them is no reply of that method.
    return false;
  }
}

/** Calls of both codes in one message. */
interface MatchedCalls {
  readonly pairs: readonly (readonly [was: WaitingCall, is: WaitingCall])[];
  readonly notMade: readonly WaitingCall[];
  readonly added: readonly WaitingCall[];
}

/** Matches calls by callee, method and argument, in order. */
export function matchCalls(was: readonly WaitingCall[], is: readonly WaitingCall[]): MatchedCalls {
  const added = [...is];
  const pairs: (readonly [WaitingCall, WaitingCall])[] = [];
  const notMade: WaitingCall[] = [];
  for (const call of was) {
    const at = added.findIndex((other) => isSameCall(call, other));
    const [match] = at < 0 ? [] : added.splice(at, 1);
    if (match === undefined) notMade.push(call);
    else pairs.push([call, match]);
  }
  return { pairs, notMade, added };
}

function isSameCall({ made: a }: WaitingCall, { made: b }: WaitingCall): boolean {
  if (a.method !== b.method || !sameBytes(a.callee, b.callee)) return false;
  return isOfCompiler(a.method) || sameBytes(a.payload, b.payload);
}

/** Returns a call as reports name it. */
export function callText({ made: { callee, method } }: WaitingCall): string {
  return `${method} of ${principalToText(callee)}`;
}

/** Returns a copy of the bytes that a report has of an argument or a reply. */
export function shownBytes(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.subarray(0, SHOWN_BYTES_MAX));
}

export function shownEnd(end: PlayedEnd): PlayedEnd {
  return { ...end, reply: end.reply && shownBytes(end.reply) };
}
