/**
 * Finds the functions that test their fuel and their stack at entry.
 *
 * *Recursive* functions are a set that every recursion passes through: targets of back edges in a depth-first walk over
 * the direct calls, and every function whose reference is taken, since it can be called from anywhere. A function
 * outside the set reaches itself only through a member. So code between two tests is bounded: costs and frames of
 * untested callees are added up, and a function whose sum exceeds a limit tests as well.
 *
 * Stack: the remaining stack is reduced by each frame that is really on the stack (guest-stack.ts). A function that
 * tests compares the stack left by its own frame with the heaviest chain of untested frames below it. Frames of such a
 * chain are subtracted only in functions from which another test can be reached: in the others the remaining stack is
 * never read.
 */
import { numberAt } from '../../../kernel/index.ts';
import type { WasmModule } from '../../wasm/index.ts';
import type { ModuleAnalysis } from '../analyze/analyze.ts';
import type { ModuleCalls } from '../analyze/call-pass.ts';
import { frameBytes } from './guest-stack.ts';

/** Cost of code that may run between two tests of the fuel, besides one function's own straight code. */
const UNTESTED_COST_MAX = 10_000;
/**
 * Bytes of guest stack for frames between two tests, besides one function's own: the largest unused rest at an
 * overflow.
 */
const UNTESTED_STACK_BYTES_MAX = 4096;

export interface CallGraph {
  /** 1 for each body that tests the fuel at entry. */
  readonly testsFuel: Uint8Array;
  /** 1 for each body that tests the stack at entry. */
  readonly testsStack: Uint8Array;
  /** 1 for each body that subtracts its frame from the remaining stack; all that test do. */
  readonly takesStack: Uint8Array;
  /** Bytes of guest stack of each body's frame. */
  readonly frameBytes: Float64Array;
  /** Bytes of the heaviest chain of frames below each body's own that do not test the stack. */
  readonly untestedStackBytes: Float64Array;
}

export function callGraph(module: WasmModule, { calls, frames }: ModuleAnalysis): CallGraph {
  const taken = addressTaken(module, calls);
  const walk = new CallWalk(calls, frameBytes(module, frames, calls, taken));
  for (const functionIndex of taken) {
    if (functionIndex >= module.importedFunctionCount)
      walk.isRecursive[functionIndex - module.importedFunctionCount] = 1;
  }
  for (let root = 0; root < module.bodyStart.length; root++) walk.from(root);
  return walk;
}

/** States of a body in the walk. */
const UNSEEN = 0;
const OPEN = 1;
const DONE = 2;

/** Depth-first walk over the direct calls; a body is finished after its callees. */
class CallWalk implements CallGraph {
  readonly isRecursive: Uint8Array;
  readonly testsFuel: Uint8Array;
  readonly testsStack: Uint8Array;
  readonly takesStack: Uint8Array;
  readonly frameBytes: Float64Array;
  readonly untestedStackBytes: Float64Array;
  readonly #calls: ModuleCalls;
  readonly #cost: Float64Array;
  readonly #state: Uint8Array;
  readonly #nextCall: Uint32Array;
  readonly #path: Uint32Array;

  constructor(calls: ModuleCalls, frames: Float64Array) {
    const bodies = frames.length;
    this.isRecursive = new Uint8Array(bodies);
    this.testsFuel = new Uint8Array(bodies);
    this.testsStack = new Uint8Array(bodies);
    this.takesStack = new Uint8Array(bodies);
    this.frameBytes = frames;
    this.untestedStackBytes = new Float64Array(bodies);
    this.#calls = calls;
    this.#cost = new Float64Array(bodies);
    this.#state = new Uint8Array(bodies);
    this.#nextCall = calls.start.slice();
    this.#path = new Uint32Array(bodies);
  }

  /** Finishes the body, and the bodies that it reaches; one that the walk has seen is finished already. */
  from(root: number): void {
    const { start, callees } = this.#calls;
    const state = this.#state;
    const path = this.#path;
    if (state[root] !== UNSEEN) return;
    let depth = 0;
    path[depth++] = root;
    state[root] = OPEN;
    while (depth > 0) {
      const body = numberAt(path, depth - 1, 'body on the path');
      const next = numberAt(this.#nextCall, body, 'next call of body');
      if (next < numberAt(start, body + 1, 'first call of body')) {
        this.#nextCall[body] = next + 1;
        const callee = callees.at(next);
        if (state[callee] === UNSEEN) {
          state[callee] = OPEN;
          path[depth++] = callee;
        } else if (state[callee] === OPEN) {
          this.isRecursive[callee] = 1;
        }
        continue;
      }
      this.#finish(body);
      state[body] = DONE;
      depth--;
    }
  }

  /** All callees are finished, or open and therefore recursive. */
  #finish(body: number): void {
    const { isRecursive, testsFuel, testsStack, takesStack, frameBytes: frames, untestedStackBytes } = this;
    const { start, callees, indirect, cost } = this.#calls;
    let untested = numberAt(cost, body, 'cost of body');
    let below = 0;
    let takes = numberAt(indirect, body, 'indirect calls of body') > 0;
    const end = numberAt(start, body + 1, 'first call of body');
    for (let k = numberAt(start, body, 'first call of body'); k < end; k++) {
      const callee = callees.at(k);
      if (testsFuel[callee] === 0 && isRecursive[callee] === 0)
        untested += numberAt(this.#cost, callee, 'cost of body');
      if (isRecursive[callee] === 1 || takesStack[callee] === 1) takes = true;
      if (isRecursive[callee] === 0 && testsStack[callee] === 0)
        below = Math.max(
          below,
          numberAt(frames, callee, 'frame of body') + numberAt(untestedStackBytes, callee, 'stack of body'),
        );
    }
    untestedStackBytes[body] = below;
    testsFuel[body] = isRecursive[body] === 1 || untested > UNTESTED_COST_MAX ? 1 : 0;
    testsStack[body] = isRecursive[body] === 1 || below > UNTESTED_STACK_BYTES_MAX ? 1 : 0;
    takesStack[body] = takes || testsStack[body] === 1 ? 1 : 0;
    this.#cost[body] = testsFuel[body] === 1 ? 0 : untested;
  }
}

/** Returns the functions that can be called through a table. */
function addressTaken(module: WasmModule, calls: ModuleCalls): Set<number> {
  const taken = new Set(calls.referenced);
  for (const { functions, expressions } of module.elements) {
    for (const index of functions ?? []) taken.add(index);
    for (const { functionIndex } of expressions ?? []) if (functionIndex !== undefined) taken.add(functionIndex);
  }
  return taken;
}
