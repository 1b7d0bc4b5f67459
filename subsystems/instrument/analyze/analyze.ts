/**
 * First pass over the code: what the second one must know before it comes to a place.
 *
 * Charge points. Fuel is subtracted where control flow can begin to differ: at a function's entry, in a loop, in the arms
 * of an `if`, behind a branch. Each such point pays for all the code that certainly follows. Behind the `end` of a block
 * that no branch jumps out of (*left* here means: past its own end), execution certainly arrives when it arrived at the
 * block's beginning, so that code is paid for in front of the block. A completed path pays exactly the sum of its
 * instructions. Where a charge can wait until control flow has split, it does (charge-paths.ts).
 *
 * Everything is kept in flat lists in order of appearance; the second pass reads them in the same order.
 */
import {
  BLOCK_TYPE_EMPTY,
  decodeBody,
  describeFunction,
  hex,
  type InstructionBuffer,
  MISC,
  NESTING_MAX,
  OP,
  OPCODE_COUNT,
  POPS,
  PUSHES,
  refusal,
  SIMD,
  STORE_BYTES,
  typeOfFunction,
  VALUE_TYPE,
  type WasmModule,
} from '../../wasm/index.ts';
import { FUNCTION_ENTRY_COST, instructionCosts, systemCallOverhead } from '../metering/cost-table.ts';
import { ChargePaths } from '../metering/charge-paths.ts';
import { Uint32List } from './number-list.ts';

export { NESTING_MAX };

/**
 * V8's compilers copy the state of every local and operand wherever control flow splits or joins, so what a function costs
 * them is a product: 10,000 `if`s in a function with 50,000 locals (90 KB) took 11.6 GB and 33 s at its first call, and the
 * end of memory there is the end of the process. The sum of these copies is bounded, for a function because of memory (24
 * bytes each), for a module because of time.
 */
const STATES_MAX = { function: 10_000_000, module: 100_000_000 } as const;

/** What is known of a block, as bits of `blockFlags`. */
export const BLOCK = {
  /** A branch inside jumps past its end. */
  LEFT: 1,
  /** An innermost loop without calls, in which control flow splits once: one that V8 may unroll. */
  TIGHT_LOOP: 2,
  HAS_ELSE: 4,
  /** A global is set inside, or a function called that may do so. */
  CHANGES_GLOBALS: 8,
  /** A loop that goes round only past the head of a loop inside, which tests the fuel. */
  TESTED_INSIDE: 16,
} as const;

/** Facts about all functions; `body` indices count defined functions. */
export class ModuleAnalysis {
  /** Sum of all costs in a body, an upper bound of what runs between two tests of the fuel. */
  readonly cost: Float64Array;
  /** In words of 8 bytes, for the stack (guest-stack.ts): parameters and locals, operands, values that code may share. */
  readonly valueWords: Float64Array;
  readonly operandWords: Float64Array;
  readonly sharedWords: Float64Array;
  /** Some body works with values of 16 bytes. */
  hasV128 = false;
  /** Calls through a table in the body. */
  readonly indirectCalls: Uint32Array;
  /** Bodies called directly: those of body `f` are `callees[callStart[f] .. callStart[f + 1])`. */
  readonly callStart: Uint32Array;
  readonly callees = new Uint32List();
  /** Costs of the charge points, blocks and assigned locals; each body's begin at its `…Start`. */
  readonly chargeStart: Uint32Array;
  readonly charges = new Uint32List();
  readonly blockStart: Uint32Array;
  readonly blockFlags = new Uint32List();
  /** Locals set inside block `b`, nested ones included: `assigned[assignedFrom[b] .. assignedTo[b])`. */
  readonly assigned = new Uint32List();
  readonly assignedFrom = new Uint32List();
  readonly assignedTo = new Uint32List();
  /** Functions whose reference code takes. */
  readonly referenced = new Set<number>();

  constructor(bodies: number) {
    this.cost = new Float64Array(bodies);
    this.valueWords = new Float64Array(bodies);
    this.operandWords = new Float64Array(bodies);
    this.sharedWords = new Float64Array(bodies);
    this.indirectCalls = new Uint32Array(bodies);
    this.callStart = new Uint32Array(bodies + 1);
    this.chargeStart = new Uint32Array(bodies + 1);
    this.blockStart = new Uint32Array(bodies + 1);
  }
}

export function analyzeModule(module: WasmModule, buffer: InstructionBuffer): ModuleAnalysis {
  const bodies = module.bodyStart.length;
  const analysis = new ModuleAnalysis(bodies);
  const analyzer = new BodyAnalyzer(module, analysis);
  for (let body = 0; body < bodies; body++) {
    decodeBody(module, body, buffer);
    analyzer.analyze(body, buffer);
    analysis.callStart[body + 1] = analysis.callees.length;
    analysis.chargeStart[body + 1] = analysis.charges.length;
    analysis.blockStart[body + 1] = analysis.blockFlags.length;
  }
  return analysis;
}

/** By opcode: 1 if V8 may compute it once where the code does twice, because it reads neither memory nor a global. */
const SHAREABLE = Uint8Array.from({ length: OPCODE_COUNT }, (_, opcode) => {
  const isNumeric = opcode >= OP.I32_EQZ && opcode <= OP.I64_EXTEND32_S;
  const isOther = [OP.SELECT, OP.SELECT_TYPED, OP.F32_CONST, OP.F64_CONST].some((other) => other === opcode);
  return isNumeric || isOther || opcode >= MISC ? 1 : 0;
});

class BodyAnalyzer {
  readonly #module: WasmModule;
  readonly #analysis: ModuleAnalysis;
  readonly #costs: Uint16Array;
  readonly #importCosts: readonly number[];
  readonly #signaturesHaveV128: boolean;

  // Open blocks, by nesting; index 0 is the function itself.
  readonly #block = new Uint32Array(NESTING_MAX + 1);
  readonly #charge = new Uint32Array(NESTING_MAX + 1);
  readonly #height = new Int32Array(NESTING_MAX + 1);
  /** Operands that the block takes and leaves. */
  readonly #params = new Uint32Array(NESTING_MAX + 1);
  readonly #results = new Uint32Array(NESTING_MAX + 1);
  /** The outermost nesting that a branch from inside goes to. */
  readonly #target = new Int32Array(NESTING_MAX + 1);
  readonly #isLoop = new Uint8Array(NESTING_MAX + 1);
  readonly #isIf = new Uint8Array(NESTING_MAX + 1);
  /** Calls, bulk operations or loops inside. */
  readonly #isBusy = new Uint8Array(NESTING_MAX + 1);
  readonly #changesGlobals = new Uint8Array(NESTING_MAX + 1);
  // Of what is open inside a loop (see #testsFuel).
  readonly #isPassable = new Uint8Array(NESTING_MAX + 1);
  readonly #tests = new Uint8Array(NESTING_MAX + 1);
  readonly #hasPassedTest = new Uint8Array(NESTING_MAX + 1);
  readonly #goesRound = new Uint8Array(NESTING_MAX + 1);
  /** Conditional branches inside; of a table 2. */
  readonly #splits = new Uint32Array(NESTING_MAX + 1);
  readonly #paths: ChargePaths;
  #nesting = 0;
  /** Copies of locals and operands that V8 will make, in this function and in all so far. */
  #states = 0;
  #allStates = 0;
  /** Those in front of an open block. */
  readonly #statesBefore = new Float64Array(NESTING_MAX + 1);

  constructor(module: WasmModule, analysis: ModuleAnalysis) {
    this.#module = module;
    this.#analysis = analysis;
    this.#paths = new ChargePaths(analysis.charges);
    this.#costs = instructionCosts(module.pointerWidth);
    this.#importCosts = module.imports.map(({ name }) => systemCallOverhead(name));
    this.#signaturesHaveV128 =
      module.globals.some(({ type }) => type === VALUE_TYPE.v128) ||
      module.types.some(({ params, results }) => params.includes(VALUE_TYPE.v128) || results.includes(VALUE_TYPE.v128));
  }

  analyze(body: number, buffer: InstructionBuffer): void {
    const analysis = this.#analysis;
    const { charges } = analysis;
    const costs = this.#costs;
    const { opcode: opcodes, first, count } = buffer;
    const imported = this.#module.importedFunctionCount;
    let height = 0;
    let heightMax = 0;
    let shareable = 0;
    let indirectCalls = 0;
    let hasV128 = buffer.localsHaveV128 || this.#signaturesHaveV128;
    let total = FUNCTION_ENTRY_COST;
    let charge = charges.length;
    charges.push(FUNCTION_ENTRY_COST);
    const paths = this.#paths;
    paths.begin();
    this.#nesting = 0;
    this.#isLoop[0] = 0;
    this.#height[0] = 0;
    this.#results[0] = 0;

    this.#states = 0;

    const open = (): void => {
      charge = charges.length;
      charges.push(0);
    };

    for (let i = 0; i < count; i++) {
      const opcode = opcodes[i] ?? 0;
      const cost = costs[opcode] ?? 0;
      charges.values[charge] = (charges.values[charge] ?? 0) + cost;
      total += cost;
      // Operands: in unreachable code fewer may be there than are taken.
      height -= POPS[opcode] ?? 0;
      const floor = this.#height[this.#nesting] ?? 0;
      if (height < floor) height = floor;
      height += PUSHES[opcode] ?? 0;
      shareable += SHAREABLE[opcode] ?? 0;
      switch (opcode) {
        case OP.BLOCK:
        case OP.LOOP:
        case OP.IF: {
          const type = this.#module.types[first[i] ?? 0];
          const params = (first[i] ?? 0) < 0 ? 0 : (type?.params.length ?? 0);
          const results = (first[i] ?? 0) < 0 ? (first[i] === BLOCK_TYPE_EMPTY ? 0 : 1) : (type?.results.length ?? 0);
          this.#states += buffer.localCount + height;
          if (opcode === OP.IF) this.#split(1);
          this.#enter(opcode, charge, Math.max(floor, height - params), params, results, buffer.at[i] ?? 0);
          if (opcode === OP.BLOCK) break;
          const before = charge;
          open();
          if (opcode === OP.LOOP) paths.loop();
          else paths.firstArm(this.#nesting, before);
          break;
        }
        case OP.ELSE: {
          const block = this.#block[this.#nesting] ?? 0;
          analysis.blockFlags.values[block] = analysis.blockFlags.at(block) | BLOCK.HAS_ELSE;
          height = (this.#height[this.#nesting] ?? 0) + (this.#params[this.#nesting] ?? 0);
          this.#states += buffer.localCount + height;
          const last = charge;
          this.#passes(this.#nesting);
          open();
          paths.secondArm(this.#nesting, this.#charge[this.#nesting] ?? 0, last);
          break;
        }
        case OP.END: {
          if (this.#nesting === 0) break;
          this.#states += buffer.localCount + height;
          height = (this.#height[this.#nesting] ?? 0) + (this.#results[this.#nesting] ?? 0);
          const before = this.#charge[this.#nesting] ?? 0;
          const label = this.#nesting;
          const block = this.#block[label] ?? 0;
          if (this.#leave()) {
            const last = charge;
            open();
            const skips = this.#isIf[label] === 1 && (analysis.blockFlags.at(block) & BLOCK.HAS_ELSE) === 0;
            paths.joins(label, last, skips ? before : undefined);
          } else {
            paths.continues(label, charge === before);
            charge = before;
          }
          break;
        }
        case OP.BR:
        case OP.BR_IF: {
          this.#states += buffer.localCount + height;
          if (opcode === OP.BR_IF) this.#split(1);
          this.#branch(first[i] ?? 0);
          const label = this.#nesting - (first[i] ?? 0);
          const isLost = label <= 0 || this.#isLoop[label] === 1;
          const before = charge;
          open();
          if (opcode === OP.BR) {
            height = floor;
            paths.branch(label, isLost, before, undefined);
            paths.ends();
          } else paths.branchIf(label, isLost, before);
          break;
        }
        case OP.BR_TABLE: {
          this.#states += (buffer.localCount + height) * ((buffer.second[i] ?? 0) + 1);
          this.#split(2);
          this.#branchTable(buffer, i);
          const split = paths.table(charge);
          const start = first[i] ?? 0;
          for (let k = start; k <= start + (buffer.second[i] ?? 0); k++) {
            const label = this.#nesting - (buffer.labels[k] ?? 0);
            paths.branch(label, label <= 0 || this.#isLoop[label] === 1, charge, split);
          }
          height = floor;
          open();
          paths.ends();
          break;
        }
        case OP.RETURN:
          this.#branch(this.#nesting);
          height = floor;
          open();
          paths.ends();
          break;
        case OP.UNREACHABLE:
          height = floor;
          open();
          paths.ends();
          break;
        case OP.CALL:
        case OP.RETURN_CALL: {
          const callee = first[i] ?? 0;
          const type = typeOfFunction(this.#module, callee);
          height = Math.max(floor, height - type.params.length) + type.results.length;
          if (callee >= imported) analysis.callees.push(callee - imported);
          else total += this.#importCosts[callee] ?? 0;
          this.#isBusy[this.#nesting] = 1;
          this.#changesGlobals[this.#nesting] = 1;
          paths.calls();
          if (opcode === OP.RETURN_CALL) {
            this.#branch(this.#nesting);
            height = floor;
            open();
            paths.ends();
          }
          break;
        }
        case OP.CALL_INDIRECT:
        case OP.RETURN_CALL_INDIRECT: {
          const type = this.#module.types[first[i] ?? 0];
          const params = type?.params.length ?? 0;
          height = Math.max(floor, height - params) + (type?.results.length ?? 0);
          indirectCalls++;
          this.#isBusy[this.#nesting] = 1;
          this.#changesGlobals[this.#nesting] = 1;
          paths.calls();
          if (opcode === OP.RETURN_CALL_INDIRECT) {
            this.#branch(this.#nesting);
            height = floor;
            open();
            paths.ends();
          }
          break;
        }
        case OP.LOCAL_SET:
        case OP.LOCAL_TEE:
          if (this.#nesting > 0) analysis.assigned.push(first[i] ?? 0);
          break;
        case OP.GLOBAL_GET:
          if (this.#module.globals[first[i] ?? 0]?.isMutable === false) shareable++;
          break;
        case OP.GLOBAL_SET:
          this.#changesGlobals[this.#nesting] = 1;
          break;
        case OP.REF_FUNC:
          analysis.referenced.add(first[i] ?? 0);
          break;
        case OP.MEMORY_GROW:
        case OP.MEMORY_INIT:
        case OP.MEMORY_COPY:
        case OP.MEMORY_FILL:
          paths.calls();
          this.#isBusy[this.#nesting] = 1;
          break;
        default:
          if (opcode >= SIMD) hasV128 = true;
          if (STORE_BYTES[opcode] !== 0) {
            // In front of it stands a test.
            this.#states += buffer.localCount + height;
          }
      }
      if (height > heightMax) heightMax = height;
    }
    paths.move();
    this.#bound(body);
    analysis.cost[body] = total;
    const wordsPerValue = hasV128 ? 2 : 1;
    if (hasV128) analysis.hasV128 = true;
    analysis.valueWords[body] = wordsPerValue * buffer.localCount;
    analysis.operandWords[body] = wordsPerValue * heightMax;
    analysis.sharedWords[body] = wordsPerValue * Math.ceil(shareable / 2);
    analysis.indirectCalls[body] = indirectCalls;
  }

  #bound(body: number): void {
    this.#allStates += this.#states;
    const isFunction = this.#states > STATES_MAX.function;
    if (!isFunction && this.#allStates <= STATES_MAX.module) return;
    const where = isFunction ? describeFunction(this.#module, this.#module.importedFunctionCount + body) : 'the module';
    const max = isFunction ? STATES_MAX.function : STATES_MAX.module;
    throw refusal(
      'wasm-limit',
      `${where} is too complex to compile: locals and operands, counted at each block, branch and store, are more than ${max}`,
    );
  }

  #enter(opcode: number, charge: number, height: number, params: number, results: number, at: number): void {
    if (this.#nesting === NESTING_MAX)
      throw refusal('wasm-limit', `blocks are nested more than ${NESTING_MAX} deep at offset ${hex(at)}`);
    const { blockFlags, assignedFrom, assignedTo, assigned } = this.#analysis;
    const n = ++this.#nesting;
    this.#block[n] = blockFlags.length;
    this.#charge[n] = charge;
    this.#height[n] = height;
    this.#params[n] = params;
    this.#results[n] = results;
    this.#target[n] = n;
    this.#isLoop[n] = opcode === OP.LOOP ? 1 : 0;
    this.#isIf[n] = opcode === OP.IF ? 1 : 0;
    this.#paths.enter(n);
    this.#isBusy[n] = 0;
    this.#changesGlobals[n] = 0;
    this.#splits[n] = 0;
    this.#statesBefore[n] = this.#states;
    this.#isPassable[n] = opcode === OP.IF ? 1 : 0;
    this.#tests[n] = 0;
    this.#hasPassedTest[n] = 0;
    this.#goesRound[n] = 0;
    blockFlags.push(0);
    assignedFrom.push(assigned.length);
    assignedTo.push(0);
  }

  /** Closes the innermost block; true when a branch inside jumps past its end. */
  #leave(): boolean {
    const { blockFlags, assignedTo, assigned } = this.#analysis;
    const n = this.#nesting--;
    const block = this.#block[n] ?? 0;
    const target = this.#target[n] ?? n;
    const isLeft = target < n;
    let flags = blockFlags.at(block);
    if (isLeft) {
      flags |= BLOCK.LEFT;
      if (target < (this.#target[n - 1] ?? 0)) this.#target[n - 1] = target;
    }
    const isLoop = this.#isLoop[n] === 1;
    if (this.#changesGlobals[n] === 1) {
      flags |= BLOCK.CHANGES_GLOBALS;
      this.#changesGlobals[n - 1] = 1;
    }
    const splits = this.#splits[n] ?? 0;
    if (isLoop && this.#isBusy[n] === 0) {
      if (splits <= 1) flags |= BLOCK.TIGHT_LOOP;
      // It may be written twice (loop-ranges.ts).
      this.#states += this.#states - (this.#statesBefore[n] ?? 0);
    }
    this.#splits[n - 1] = (this.#splits[n - 1] ?? 0) + splits;
    if (!isLoop) this.#passes(n);
    else if (this.#tests[n] === 1 || this.#hasPassedTest[n] === 1) flags |= BLOCK.TESTED_INSIDE;
    else this.#testsFuel(n - 1);
    if (isLoop || this.#isBusy[n] === 1) this.#isBusy[n - 1] = 1;
    blockFlags.values[block] = flags;
    assignedTo.values[block] = assigned.length;
    return isLeft;
  }

  /**
   * A loop that tests the fuel has ended inside of block `n`. It counts for the innermost loop around it, if that cannot go
   * round without having come past: the same rule as for stores in loop-strides.ts.
   */
  #testsFuel(n: number): void {
    let region = n;
    while (region > 0 && this.#isLoop[region] === 0 && this.#isPassable[region] === 0) region--;
    let around = region;
    while (around > 0 && this.#isLoop[around] === 0) around--;
    if (around > 0 && this.#goesRound[around] === 0) this.#tests[region] = 1;
  }

  /** The block or arm `n`, which is no loop, has ended: what comes behind may have come past its tests or not. */
  #passes(n: number): void {
    if (this.#tests[n] === 0) return;
    this.#tests[n] = 0;
    let around = n - 1;
    while (around > 0 && this.#isLoop[around] === 0) around--;
    this.#hasPassedTest[around] = 1;
  }

  #reaches(target: number): void {
    if (target <= 0) return;
    if (this.#isLoop[target] === 0) {
      this.#isPassable[target] = 1;
      return;
    }
    this.#goesRound[target] = 1;
    this.#hasPassedTest[target] = 0;
  }

  #split(branches: number): void {
    this.#splits[this.#nesting] = (this.#splits[this.#nesting] ?? 0) + branches;
  }

  /** A branch to the block `depth` levels out. */
  #branch(depth: number): void {
    const target = this.#nesting - depth;
    this.#reaches(target);
    if (target < (this.#target[this.#nesting] ?? 0)) this.#target[this.#nesting] = target;
  }

  #branchTable({ labels, first, second }: InstructionBuffer, i: number): void {
    const start = first[i] ?? 0;
    let outermost = 0;
    for (let k = start; k <= start + (second[i] ?? 0); k++) {
      outermost = Math.max(outermost, labels[k] ?? 0);
      this.#reaches(this.#nesting - (labels[k] ?? 0));
    }
    this.#branch(outermost);
  }
}
