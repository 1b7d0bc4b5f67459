/**
 * Finds the stores that need no page test, because an earlier test on every path to them covers them.
 *
 * Touching a page lasts until the message ends: calls, branches and growth never undo it. So a fact "window [base + o,
 * base + o + SPILL_BYTES) is tested" holds from where it was established in all code that this place dominates, and a
 * store inside the window needs no test of its own (a touch saves SPILL_BYTES beyond the page's end).
 *
 * Bases are *value numbers*. Each local and operand that the pass can follow holds "value v plus constant c"; copies
 * and additions of constants keep v; sums, products and shifts are numbered by operation and operands (value-table.ts),
 * and so are reads of a global until one may have been set; everything else gets a new number. A value number stands
 * for the result of the latest execution of one place. That stays true in loops because locals set in a loop get new
 * numbers at its head.
 *
 * Joins. After a block's end, only facts known at the first branch to it hold; after an `if`, those known before it;
 * locals set inside get new numbers. A loop's end is reached from inside only.
 *
 * Hostile code could make this quadratic in the nesting. Work is counted; beyond the budget the pass keeps no facts in
 * this function and every store is tested.
 */
import { SPILL_BYTES } from '../abi/index.ts';
import { NESTING_MAX, OP } from '../../wasm/index.ts';
import { BLOCK, type ModuleBlocks } from '../analyze/block-pass.ts';
import { doubled, TestedWindows } from './tested-windows.ts';
import { LoopStrides, type Stride, type StridingLoop } from './loop-strides.ts';
import { ValueTable } from '../analyze/value-table.ts';

/** Results of `store`. */
export const STORE = {
  /** The store needs no test. */
  COVERED: 0,
  /** Test the page of the constant address `windowStart`. */
  TEST_CONSTANT: 1,
  /** Test the page of `local + windowStart`. */
  TEST_LOCAL: 2,
  /** Test the page of the operand `+ windowStart`. */
  TEST_OPERAND: 3,
} as const;

const UNKNOWN = 0;
const CONSTANT = -1;
const NEVER = 0xffffffff;
/** Windows begin at multiples of this, so that neighbouring stores share one. */
const GRAIN = SPILL_BYTES / 2;
/** Constant addresses below 2 GiB are tested as constants; beyond, nothing is gained. */
const CONSTANT_ADDRESS_MAX = 2 ** 31;
const WORK_PER_INSTRUCTION_MAX = 64;

/** A state to which the walk can return. */
export interface CoverageMark {
  readonly top: number;
  readonly floor: number;
  readonly facts: number;
  readonly globals: number;
}

/** Walks through a body. `?? 0`: see block-pass.ts; place −1, of an unknown operand, has no element. */
export class StoreCoverage {
  readonly #blocks: ModuleBlocks;
  // Locals: value number (0: none yet) and constant.
  #localValue = new Int32Array(64);
  #localConstant = new Float64Array(64);
  // Operand stack as far as known; entries below #floor belong to enclosing blocks.
  #stackValue = new Int32Array(256);
  #stackConstant = new Float64Array(256);
  #stackLocal = new Int32Array(256);
  #top = 0;
  #floor = 0;
  readonly #facts = new TestedWindows();
  // Open blocks.
  readonly #blockIndex = new Uint32Array(NESTING_MAX + 1);
  readonly #blockTop = new Uint32Array(NESTING_MAX + 1);
  readonly #blockFloor = new Uint32Array(NESTING_MAX + 1);
  readonly #blockFacts = new Uint32Array(NESTING_MAX + 1);
  /** Smallest number of facts known at a branch to the block's end. */
  readonly #blockBranchFacts = new Uint32Array(NESTING_MAX + 1);
  readonly #blockSaved = new Uint32Array(NESTING_MAX + 1);
  #nesting = 0;
  /** Upper bound of #blockBranchFacts of all open blocks, except NEVER. */
  #branchFactsMax = 0;
  // Locals at the beginning of an `if` that has an `else`: local, value, constant.
  readonly #saved: number[] = [];
  /** Number of the globals' present contents: a new one wherever a global may have been set. */
  #globals = 0;
  #globalsNext = 0;
  readonly #blockGlobals = new Uint32Array(NESTING_MAX + 1);
  readonly #blockGlobalsNext = new Uint32Array(NESTING_MAX + 1);
  #values = 0;
  readonly #table = new ValueTable();
  #work = 0;
  #workMax = 0;

  /** Beginning of the window relative to its base, from the last `store`. */
  windowStart = 0;
  /** Local that holds the base, from the last `store` with TEST_LOCAL. */
  baseLocal = 0;
  /** Step of the address of the last `store` in the loop, if `hoistedValue + hoistedConstant` is tested before it. */
  stride: Stride | undefined;
  hoistedValue = 0;
  hoistedConstant = 0;
  /** Values in the innermost loop that is being rewritten. */
  readonly strides = new LoopStrides();
  #loopNesting = 0;

  constructor(blocks: ModuleBlocks) {
    this.#blocks = blocks;
  }

  begin(localCount: number, instructions: number): void {
    if (localCount > this.#localValue.length) {
      this.#localValue = new Int32Array(localCount);
      this.#localConstant = new Float64Array(localCount);
    }
    this.#localValue.fill(UNKNOWN, 0, localCount);
    this.#top = 0;
    this.#floor = 0;
    this.#facts.count = 0;
    this.#nesting = 0;
    this.#branchFactsMax = 0;
    this.#saved.length = 0;
    this.#values = 0;
    this.#table.begin();
    this.#globals = 0;
    this.#globalsNext = 0;
    this.strides.end();
    this.#work = 0;
    this.#workMax = instructions * WORK_PER_INSTRUCTION_MAX + 10_000;
  }

  // ---- operands

  pushUnknown(count: number): void {
    for (let k = 0; k < count; k++) this.#push(UNKNOWN, 0, -1);
  }

  pop(count: number): void {
    this.#top = Math.max(this.#floor, this.#top - count);
  }

  constant(value: number): void {
    this.#push(Number.isSafeInteger(value) ? CONSTANT : UNKNOWN, value, -1);
  }

  localGet(local: number): void {
    const value = this.#valueOf(local);
    if (this.strides.isActive) this.strides.localGet(local, value, this.#localConstant[local] ?? 0);
    this.#push(value, this.#localConstant[local] ?? 0, local);
  }

  /** Records `local.set`, or `local.tee` if `keeps` is true. */
  localSet(local: number, keeps: boolean): void {
    const known = this.#pop();
    if (known !== -1 && (this.#stackValue[known] ?? 0) > 0) {
      this.#localValue[local] = this.#stackValue[known] ?? 0;
      this.#localConstant[local] = this.#stackConstant[known] ?? 0;
    } else {
      this.#localValue[local] = ++this.#values;
      this.#localConstant[local] = 0;
    }
    if (keeps) this.localGet(local);
  }

  globalGet(global: number): void {
    const value = this.#computed(OP.GLOBAL_GET, global, this.#globals);
    // In a loop that sets globals each read may return another value.
    if (this.strides.isActive && this.#globals === this.#blockGlobals[this.#loopNesting])
      if ((this.#blocks.flags.at(this.#blockIndex[this.#loopNesting] ?? 0) & BLOCK.CHANGES_GLOBALS) === 0)
        this.strides.globalGet(global, value);
    this.#push(value, 0, -1);
  }

  /** Records that a global was set, or that a function was called that may have set one. */
  globalsChange(): void {
    this.#globals = ++this.#globalsNext;
  }

  /**
   * Records add, sub, mul or shl of the two topmost operands. A constant part stays separate as far as the operation
   * distributes over it (modulo 2^32 or 2^64, as wasm computes); the rest is numbered by operation and operands.
   */
  binary(opcode: number): void {
    const right = this.#pop();
    const left = this.#pop();
    const rightValue = right === -1 ? UNKNOWN : (this.#stackValue[right] ?? 0);
    const leftValue = left === -1 ? UNKNOWN : (this.#stackValue[left] ?? 0);
    const rightConstant = this.#stackConstant[right] ?? 0;
    const leftConstant = this.#stackConstant[left] ?? 0;
    if (rightValue === UNKNOWN || leftValue === UNKNOWN) return this.#push(UNKNOWN, 0, -1);
    switch (opcode) {
      case OP.I32_ADD:
      case OP.I64_ADD:
        if (rightValue === CONSTANT) return this.#pushSum(opcode, leftValue, leftConstant + rightConstant);
        if (leftValue === CONSTANT) return this.#pushSum(opcode, rightValue, leftConstant + rightConstant);
        return this.#pushSum(
          opcode,
          this.#computed(opcode, Math.min(leftValue, rightValue), Math.max(leftValue, rightValue)),
          leftConstant + rightConstant,
        );
      case OP.I32_SUB:
      case OP.I64_SUB:
        if (rightValue === CONSTANT) return this.#pushSum(opcode, leftValue, leftConstant - rightConstant);
        if (leftValue === CONSTANT) return this.#push(UNKNOWN, 0, -1);
        return this.#pushSum(opcode, this.#computed(opcode, leftValue, rightValue), leftConstant - rightConstant);
      case OP.I32_SHL:
      case OP.I64_SHL:
        if (rightValue !== CONSTANT || leftValue === CONSTANT) return this.#push(UNKNOWN, 0, -1);
        return this.#pushProduct(
          opcode,
          leftValue,
          leftConstant,
          rightConstant,
          2 ** (rightConstant & (opcode === OP.I32_SHL ? 31 : 63)),
        );
      default:
        if (rightValue === CONSTANT && leftValue > 0)
          return this.#pushProduct(opcode, leftValue, leftConstant, rightConstant, rightConstant);
        if (leftValue === CONSTANT && rightValue > 0)
          return this.#pushProduct(opcode, rightValue, rightConstant, leftConstant, leftConstant);
        return this.#push(UNKNOWN, 0, -1);
    }
  }

  /** Records wrap or extend: another number for the same value, constant included. */
  convert(opcode: number): void {
    const operand = this.#pop();
    const value = operand === -1 ? UNKNOWN : (this.#stackValue[operand] ?? 0);
    const constant = this.#stackConstant[operand] ?? 0;
    if (value > 0 && constant === (constant | 0)) this.#push(this.#computed(opcode, value, constant), 0, -1);
    else this.#push(UNKNOWN, 0, -1);
  }

  #computed(opcode: number, left: number, right: number): number {
    const value = this.#table.find(opcode, left, right, this.#values + 1);
    if (value > this.#values) this.#values = value;
    if (this.strides.isActive && opcode !== OP.GLOBAL_GET) this.strides.computed(opcode, left, right, value);
    return value;
  }

  /** Pushes `value + constant`; two constants (no value) are not followed further. */
  #pushSum(opcode: number, value: number, constant: number): void {
    if (value > 0 && Number.isSafeInteger(constant))
      this.#push(value, opcode < OP.I64_ADD ? constant | 0 : constant, -1);
    else this.#push(UNKNOWN, 0, -1);
  }

  /** Pushes `(value + constant) * factor` as `value * factor + constant * factor`. */
  #pushProduct(opcode: number, value: number, constant: number, operand: number, factor: number): void {
    if (operand !== (operand | 0)) return this.#push(UNKNOWN, 0, -1);
    const is32Bit = opcode < OP.I64_ADD;
    const product = is32Bit ? Math.imul(constant, factor) : constant * factor;
    this.#pushSum(opcode, this.#computed(opcode, value, operand), product);
  }

  // ---- stores

  /**
   * Records a store of `bytes` at `offset` to the address below the value on the stack; pops both. Returns one of
   * STORE.
   */
  store(bytes: number, offset: number, instruction: number): number {
    this.stride = undefined;
    this.#pop();
    const address = this.#pop();
    const isKnown = address !== -1 && this.#work <= this.#workMax;
    const value = isKnown ? (this.#stackValue[address] ?? 0) : UNKNOWN;
    const constant = address === -1 ? 0 : (this.#stackConstant[address] ?? 0);
    if (value === CONSTANT && constant >= 0 && constant + offset < CONSTANT_ADDRESS_MAX) {
      const at = constant + offset;
      if (this.#facts.cover(0, 0, at, bytes)) return STORE.COVERED;
      this.windowStart = at - (at % GRAIN);
      this.#addFact(0, 0, this.windowStart);
      return STORE.TEST_CONSTANT;
    }
    if (value > 0) {
      if (this.#facts.cover(value, constant, offset, bytes)) return STORE.COVERED;
      this.windowStart = offset - (offset % GRAIN);
      this.#addFact(value, constant, this.windowStart);
      const local = this.#stackLocal[address] ?? -1;
      const isStillThere = local >= 0 && this.#localValue[local] === value && this.#localConstant[local] === constant;
      this.baseLocal = local;
      const hoisted = constant + this.windowStart;
      // Beyond 2^53 the number would be rounded to another address.
      if (Number.isSafeInteger(hoisted) && this.strides.isEachTime(instruction)) {
        this.stride = this.strides.hoist(value);
        this.hoistedValue = value;
        this.hoistedConstant = hoisted;
      }
      return isStillThere ? STORE.TEST_LOCAL : STORE.TEST_OPERAND;
    }
    // The spill of the address's own page covers small offsets, which saves an addition.
    this.windowStart = offset < SPILL_BYTES - bytes ? 0 : offset;
    return STORE.TEST_OPERAND;
  }

  #addFact(value: number, constant: number, start: number): void {
    if (this.#work <= this.#workMax) this.#facts.add(value, constant, start);
  }

  // ---- control

  /** Records the beginning of a block; `block` is its index in the analysis, its parameters are on the stack. */
  enterBlock(block: number, params: number): void {
    this.#enter(block, params);
  }

  /**
   * Records the beginning of a loop. `stepping` is given if its stores may be tested before it, with their ranges if
   * `hasRanges` is true.
   */
  enterLoop(block: number, params: number, stepping?: StridingLoop, hasRanges = false): void {
    this.#forgetAssigned(block);
    if ((this.#blocks.flags.at(block) & BLOCK.CHANGES_GLOBALS) !== 0) this.globalsChange();
    this.#enter(block, params);
    this.strides.end();
    if (stepping === undefined) return;
    this.strides.begin(stepping, hasRanges);
    this.#loopNesting = this.#nesting;
    for (const [local, stride] of stepping.steps) this.strides.moves(this.#valueOf(local), local, stride);
  }

  /** Returns the state before a loop without parameters, for `goBack` after it. */
  mark(): CoverageMark {
    return { top: this.#top, floor: this.#floor, facts: this.#facts.count, globals: this.#globals };
  }

  /**
   * Takes the walk back to the loop's beginning. Locals that are set inside are forgotten there anyway, and facts about
   * others and about values still hold.
   */
  goBack({ top, floor, facts, globals }: CoverageMark): void {
    this.#top = top;
    this.#floor = floor;
    this.#keepFacts(facts);
    this.#globals = globals;
  }

  /** Records the beginning of an `if`, after its condition was popped. */
  enterIf(block: number, params: number, hasElse: boolean): void {
    const saved = this.#saved.length;
    if (hasElse) this.#saveAssigned(block);
    this.#enter(block, params);
    this.#blockSaved[this.#nesting] = saved;
  }

  enterElse(): void {
    const n = this.#nesting;
    this.#keepFacts(this.#blockFacts[n] ?? 0);
    const from = this.#blockSaved[n] ?? 0;
    for (let k = from; k < this.#saved.length; k += 3) {
      const local = this.#saved[k] ?? 0;
      this.#localValue[local] = this.#saved[k + 1] ?? 0;
      this.#localConstant[local] = this.#saved[k + 2] ?? 0;
    }
    this.#top = this.#floor;
    this.#globals = this.#blockGlobals[n] ?? 0;
  }

  endBlock(results: number): void {
    const known = this.#blockBranchFacts[this.#nesting] ?? NEVER;
    if (known !== NEVER) {
      this.#keepFacts(known);
      this.#forgetAssigned(this.#blockIndex[this.#nesting] ?? 0);
    }
    this.#exit(results);
  }

  endLoop(results: number): void {
    this.strides.end();
    this.#exit(results);
  }

  endIf(results: number): void {
    const n = this.#nesting;
    this.#keepFacts(this.#blockFacts[n] ?? 0);
    this.#forgetAssigned(this.#blockIndex[n] ?? 0);
    this.#saved.length = Math.min(this.#saved.length, this.#blockSaved[n] ?? 0);
    this.#exit(results);
  }

  /** Records a branch to the block `depth` levels out (for the function itself there is nothing to remember). */
  branch(depth: number): void {
    const n = this.#nesting - depth;
    if (n <= 0 || this.#facts.count >= (this.#blockBranchFacts[n] ?? NEVER)) return;
    this.#blockBranchFacts[n] = this.#facts.count;
    if (this.#facts.count > this.#branchFactsMax) this.#branchFactsMax = this.#facts.count;
  }

  /** Records that the code behind is unreachable: its operands may be anything. */
  endOfPath(): void {
    this.#top = this.#floor;
  }

  #enter(block: number, params: number): void {
    this.pop(params);
    const n = ++this.#nesting;
    this.#blockIndex[n] = block;
    this.#blockTop[n] = this.#top;
    this.#blockFloor[n] = this.#floor;
    this.#blockFacts[n] = this.#facts.count;
    this.#blockBranchFacts[n] = NEVER;
    this.#blockGlobals[n] = this.#globals;
    this.#blockGlobalsNext[n] = this.#globalsNext;
    this.#floor = this.#top;
  }

  #exit(results: number): void {
    const n = this.#nesting--;
    this.#top = this.#blockTop[n] ?? 0;
    this.#floor = this.#blockFloor[n] ?? 0;
    if (this.#globalsNext !== this.#blockGlobalsNext[n]) this.globalsChange();
    this.pushUnknown(results);
  }

  /** Forgets facts beyond the first `count`, including those recorded by branches. */
  #keepFacts(count: number): void {
    if (this.#facts.count > count) this.#facts.count = count;
    if (this.#branchFactsMax <= count) return;
    this.#branchFactsMax = count;
    this.#work += this.#nesting;
    for (let n = 1; n <= this.#nesting; n++) {
      const known = this.#blockBranchFacts[n] ?? NEVER;
      if (known !== NEVER && known > count) this.#blockBranchFacts[n] = count;
    }
    if (this.#work > this.#workMax) this.#giveUp();
  }

  #forgetAssigned(block: number): void {
    const { assigned, assignedFrom, assignedTo } = this.#blocks;
    const to = assignedTo.at(block);
    const from = assignedFrom.at(block);
    this.#work += to - from;
    if (this.#work > this.#workMax) return this.#giveUp();
    for (let k = from; k < to; k++) this.#localValue[assigned.at(k)] = UNKNOWN;
  }

  #saveAssigned(block: number): void {
    const { assigned, assignedFrom, assignedTo } = this.#blocks;
    const to = assignedTo.at(block);
    const from = assignedFrom.at(block);
    this.#work += to - from;
    if (this.#work > this.#workMax) return this.#giveUp();
    for (let k = from; k < to; k++) {
      const local = assigned.at(k);
      this.#saved.push(local, this.#valueOf(local), this.#localConstant[local] ?? 0);
    }
  }

  /** Drops all facts and takes no new ones until the end of the function. */
  #giveUp(): void {
    if (this.#work === Infinity) return;
    this.#work = Infinity;
    this.#facts.count = 0;
    this.#branchFactsMax = 0;
    for (let n = 1; n <= this.#nesting; n++) this.#blockBranchFacts[n] = 0;
  }

  #valueOf(local: number): number {
    const value = this.#localValue[local] ?? UNKNOWN;
    if (value !== UNKNOWN) return value;
    this.#localConstant[local] = 0;
    return (this.#localValue[local] = ++this.#values);
  }

  #push(value: number, constant: number, local: number): void {
    if (this.#top === this.#stackValue.length) {
      this.#stackValue = doubled(this.#stackValue, Int32Array);
      this.#stackConstant = doubled(this.#stackConstant, Float64Array);
      this.#stackLocal = doubled(this.#stackLocal, Int32Array);
    }
    const k = this.#top++;
    this.#stackValue[k] = value;
    this.#stackConstant[k] = constant;
    this.#stackLocal[k] = local;
  }

  /** Pops an operand and returns its place, or −1 if it is unknown. */
  #pop(): number {
    return this.#top > this.#floor ? --this.#top : -1;
  }
}
