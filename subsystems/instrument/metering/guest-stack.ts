/**
 * The guest's stack: what a frame weighs, and how much of V8's stack the whole may take.
 *
 * A frame weighs FRAME_BYTES and VALUE_BYTES for each parameter and local. That is a matter of the module, so a recursion
 * ends at the same depth on every tier, machine and version of V8. V8's own frames are larger, by a factor that must have
 * an end: a message may take NATIVE_PER_GUEST times its guest stack. Code that could need more than that weighs what it
 * may need, divided by the factor. That hardly ever decides: of the two functions in which Motoko deserialises a list (21
 * locals each, enhanced persistence) one weighs 62 bytes and the other, by what V8 may need, 65 instead of 62.
 *
 * What V8 14.6 may need, in words of 8 bytes (test/subsystems/instrument/stack-depth.test.ts):
 *
 *   baseline      every parameter, local and operand has a slot; arguments and results beyond the registers come on top
 *   optimised     what lives across a call: locals and operands, but also
 *                 - values that the code computes twice, before and after a call, and V8 once (a hundred products of a
 *                   parameter: 800 bytes in a frame with one local), so half of the operations that can be shared;
 *                 - what inlined callees keep, seven levels deep (428 operands: 3,400 bytes in a frame with one local),
 *                   and what they share with each other, as far as V8's budget for inlining goes
 *
 * Inlining does no other harm: an inlined function still takes its frame from the guest's stack.
 */
import { numberAt } from '../../../kernel/index.ts';
import type { WasmModule } from '../../wasm/index.ts';
import { NATIVE_PER_GUEST } from '../abi/stack-bytes.ts';
import type { ModuleCalls } from '../analyze/call-pass.ts';
import type { ModuleFrames } from '../analyze/frame-pass.ts';

/** Deserialising `?((), List)` takes two frames a level in Motoko, of 21 locals each with enhanced persistence: 124 bytes. */
const FRAME_BYTES = 20;
const VALUE_BYTES = 2;

const WORD_BYTES = 8;
/** Return address, frame pointer, marker, instance, feedback vector and what V8 spills for itself. */
const BASE_WORDS = 16;
/** Stack, fuel and temporaries that instrumentation adds to a function; an inlined one keeps the first two. */
const ADDED_WORDS = 16;
const INLINED_WORDS = 4;
/** V8 inlines bodies up to this size (`--wasm-inlining-max-size`), so deep, and as many functions behind a table's call. */
const INLINED_BYTES_MAX = 500;
const INLINED_LEVELS_MAX = 7;
const TARGETS_MAX = 4;
/** V8's budget for one function is 6,000 bytes; a shared value takes two places of six, an immutable global is one anyway. */
const SHARED_VALUES_MAX = 500;

/** By body: bytes of guest stack that its frame takes. `addressTaken`: functions that can be called through a table. */
export function frameBytes(
  module: WasmModule,
  frames: ModuleFrames,
  calls: ModuleCalls,
  addressTaken: ReadonlySet<number>,
): Float64Array {
  const { valueWords, operandWords, sharedWords } = frames;
  const inlined = inlinedWords(module, frames, calls, addressTaken);
  return valueWords.map((values, body) => {
    const operands = numberAt(operandWords, body, 'operands of body');
    const words =
      BASE_WORDS +
      ADDED_WORDS +
      values +
      3 * operands +
      numberAt(sharedWords, body, 'shared values of body') +
      numberAt(inlined, body, 'inlined words of body');
    return Math.max(FRAME_BYTES + VALUE_BYTES * values, Math.ceil((words * WORD_BYTES) / NATIVE_PER_GUEST));
  });
}

/** By body: words that functions inlined into it may add to its frame. */
function inlinedWords(
  module: WasmModule,
  { valueWords, operandWords, sharedWords, hasV128 }: ModuleFrames,
  { start, callees, indirect }: ModuleCalls,
  addressTaken: ReadonlySet<number>,
): Float64Array {
  const bodies = valueWords.length;
  const isSmall = (body: number): boolean =>
    numberAt(module.bodyEnd, body, 'end of body') - numberAt(module.bodyStart, body, 'start of body') <=
    INLINED_BYTES_MAX;
  const targets = [...addressTaken].map((index) => index - module.importedFunctionCount).filter((body) => body >= 0);
  const immutable = module.globals.filter(({ isMutable }) => !isMutable).length;
  const sharedMax = (SHARED_VALUES_MAX + immutable) * (hasV128 ? 2 : 1);
  // What a body adds where it is inlined: itself, and what is inlined into it in turn.
  const ownNested = valueWords.map((values, body) =>
    isSmall(body) ? INLINED_WORDS + values + numberAt(operandWords, body, 'operands of body') : 0,
  );
  const ownShared = sharedWords.map((words, body) => (isSmall(body) ? words : 0));
  let nested = new Float64Array(bodies);
  let shared = new Float64Array(bodies);
  for (let level = 0; level < INLINED_LEVELS_MAX; level++) {
    const adds = ownNested.map((own, body) => (own === 0 ? 0 : own + numberAt(nested, body, 'nested words of body')));
    const addsShared = ownShared.map((own, body) =>
      ownNested[body] === 0 ? 0 : own + numberAt(shared, body, 'shared words of body'),
    );
    const byTable = targets.reduce((most, body) => Math.max(most, numberAt(adds, body, 'words of body')), 0);
    const sharedByTable =
      TARGETS_MAX *
      targets.reduce((most, body) => Math.max(most, numberAt(addsShared, body, 'shared words of body')), 0);
    nested = new Float64Array(bodies);
    shared = new Float64Array(bodies);
    for (let body = 0; body < bodies; body++) {
      const calls = numberAt(indirect, body, 'indirect calls of body');
      let most = calls === 0 ? 0 : byTable;
      let sum = calls * sharedByTable;
      for (
        let k = numberAt(start, body, 'first call of body');
        k < numberAt(start, body + 1, 'first call of body');
        k++
      ) {
        const callee = callees.at(k);
        most = Math.max(most, numberAt(adds, callee, 'words of body'));
        sum += numberAt(addsShared, callee, 'shared words of body');
      }
      nested[body] = most;
      shared[body] = Math.min(sum, sharedMax);
    }
  }
  return nested.map((words, body) => words + numberAt(shared, body, 'shared words of body'));
}
