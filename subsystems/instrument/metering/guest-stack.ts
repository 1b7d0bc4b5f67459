/**
 * The guest's stack: the weight of a frame, and the part of V8's stack that all frames may use.
 *
 * A frame weighs FRAME_BYTES, and VALUE_BYTES for each parameter and local. The weight depends only on the module, so a
 * recursion ends at the same depth on every tier, machine and version of V8. V8's own frames are larger, by a factor
 * that must be limited: a message may take NATIVE_PER_GUEST times its guest stack. Code that could need more than that
 * weighs its possible need, divided by the factor. The possible need rarely decides: of the two functions in which
 * Motoko deserialises a list (21 locals each, enhanced persistence) one weighs 62 bytes and the other, by V8's possible
 * need, 65 instead of 62.
 *
 * V8 14.6 may need, in words of 8 bytes (test/subsystems/instrument/stack-depth.test.ts):
 *
 *   baseline      every parameter, local and operand has a slot; arguments and results beyond the registers are added
 *   optimised     values that live across a call: locals and operands, but also
 *                 - values that the code computes twice, before and after a call, and V8 once (a hundred products of a
 *                   parameter: 800 bytes in a frame with one local), so half of the operations that can be shared;
 *                 - values of inlined callees, seven levels deep (428 operands: 3,400 bytes in a frame with one local),
 *                   and values that these share with each other, as far as V8's budget for inlining goes
 *
 * Inlining does no other harm: an inlined function still takes its frame from the guest's stack.
 */
import { numberAt } from '../../../kernel/index.ts';
import type { WasmModule } from '../../wasm/index.ts';
import { NATIVE_PER_GUEST } from '../abi/stack-bytes.ts';
import type { ModuleCalls } from '../analyze/call-pass.ts';
import type { ModuleFrames } from '../analyze/frame-pass.ts';

/**
 * Chosen so that deserialising `?((), List)` in Motoko, two frames for each level of 21 locals each with enhanced
 * persistence, takes 124 bytes.
 */
const FRAME_BYTES = 20;
const VALUE_BYTES = 2;

const WORD_BYTES = 8;
/** Words for return address, frame pointer, marker, instance, feedback vector and V8's own spills. */
const BASE_WORDS = 16;
/**
 * Words for stack, fuel and temporaries that instrumentation adds to a function; an inlined one keeps the first two.
 */
const ADDED_WORDS = 16;
const INLINED_WORDS = 4;
/**
 * V8's limits on inlining: the size of a body (`--wasm-inlining-max-size`), the depth, and the functions behind a call
 * through a table.
 */
const INLINED_BYTES_MAX = 500;
const INLINED_LEVELS_MAX = 7;
const TARGETS_MAX = 4;
/**
 * Values that inlined code can share: V8's budget for one function is 6,000 bytes, and a shared value takes two places
 * of six bytes. Immutable globals are shared once each in any case.
 */
const SHARED_VALUES_MAX = 500;

/**
 * Returns the bytes of guest stack of each body's frame. `addressTaken`: functions that can be called through a table.
 */
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

/** Returns the words that functions inlined into each body may add to its frame. */
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
  // Words that a body adds where it is inlined: its own, and those of functions inlined into it in turn.
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
