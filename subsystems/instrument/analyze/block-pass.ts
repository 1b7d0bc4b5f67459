/** Finds facts about blocks before the rewriter reaches them: branches past their ends, and contents. */
import { hex, type InstructionBuffer, NESTING_MAX, OP, refusal } from '../../wasm/index.ts';
import { Uint32List } from './number-list.ts';

/** Facts about a block, as bits of `flags`. */
export const BLOCK = {
  /** A branch inside jumps past its end. */
  LEFT: 1,
  /** An innermost loop without calls, in which control flow splits once: V8 may unroll it. */
  TIGHT_LOOP: 2,
  HAS_ELSE: 4,
  /** A global is set inside, or a function is called that may set one. */
  CHANGES_GLOBALS: 8,
  /** A loop whose every iteration passes the head of an inner loop, which tests the fuel. */
  TESTED_INSIDE: 16,
  /** A loop without calls, bulk operations and inner loops. */
  PLAIN_LOOP: 32,
} as const;

/** All blocks (`block`, `loop`, `if`) of a module in order of appearance, and the locals that they assign. */
export class ModuleBlocks {
  /** The blocks of body `f` are `start[f] … start[f + 1] − 1`. */
  readonly start: Uint32Array;
  readonly flags = new Uint32List();
  /** Locals set inside block `b`, nested ones included: `assigned[assignedFrom[b] … assignedTo[b] − 1]`. */
  readonly assigned = new Uint32List();
  readonly assignedFrom = new Uint32List();
  readonly assignedTo = new Uint32List();

  constructor(bodies: number) {
    this.start = new Uint32Array(bodies + 1);
  }
}

/** Limit on the blocks around a loop in which the effect of its test is traced: compiled code needs few. */
const LEVELS_SEARCHED_MAX = 64;

/**
 * Finds the blocks of each body. These passes use `?? 0`: they look at every instruction, and every element exists by
 * the buffer's layout. With `numberAt` instead, which sees arrays of every kind, processing a module takes 1.7 times as
 * long.
 */
export class BlockPass {
  readonly #blocks: ModuleBlocks;
  // Open blocks by nesting; index 0 is the function itself.
  readonly #block = new Uint32Array(NESTING_MAX + 1);
  /** The outermost nesting that is the target of a branch from inside. */
  readonly #target = new Int32Array(NESTING_MAX + 1);
  readonly #isLoop = new Uint8Array(NESTING_MAX + 1);
  readonly #isIf = new Uint8Array(NESTING_MAX + 1);
  /** Nesting of the innermost loop at this level; 0: there is none. */
  readonly #innermostLoop = new Uint32Array(NESTING_MAX + 1);
  /** 1 if there are calls, bulk operations or loops inside. */
  readonly #isBusy = new Uint8Array(NESTING_MAX + 1);
  readonly #changesGlobals = new Uint8Array(NESTING_MAX + 1);
  // State of open blocks inside a loop (see #testsFuel).
  readonly #isPassable = new Uint8Array(NESTING_MAX + 1);
  readonly #tests = new Uint8Array(NESTING_MAX + 1);
  readonly #hasPassedTest = new Uint8Array(NESTING_MAX + 1);
  readonly #goesRound = new Uint8Array(NESTING_MAX + 1);
  /** Number of conditional branches inside; a branch table counts as 2. */
  readonly #splits = new Uint32Array(NESTING_MAX + 1);
  #nesting = 0;

  constructor(blocks: ModuleBlocks) {
    this.#blocks = blocks;
  }

  /** Analyzes one body. Throws a ServerError `wasm-limit` for blocks that are nested too deeply. */
  run(body: number, buffer: InstructionBuffer): void {
    const { flags, assigned, start } = this.#blocks;
    const { opcode: opcodes, first, at, count } = buffer;
    this.#nesting = 0;
    this.#isLoop[0] = 0;
    this.#isIf[0] = 0;
    this.#innermostLoop[0] = 0;
    for (let i = 0; i < count; i++) {
      const opcode = opcodes[i] ?? 0;
      switch (opcode) {
        case OP.BLOCK:
        case OP.LOOP:
        case OP.IF:
          if (opcode === OP.IF) this.#split(1);
          this.#enter(opcode, at[i] ?? 0);
          break;
        case OP.ELSE: {
          if (this.#isIf[this.#nesting] === 0) throw misread(at[i] ?? 0);
          const block = this.#block[this.#nesting] ?? 0;
          flags.values[block] = flags.at(block) | BLOCK.HAS_ELSE;
          this.#passes(this.#nesting);
          break;
        }
        case OP.END:
          if (this.#nesting > 0) this.#leave();
          else if (i !== count - 1) throw misread(at[i] ?? 0);
          break;
        case OP.BR_IF:
          this.#split(1);
          this.#branch(first[i] ?? 0, at[i] ?? 0);
          break;
        case OP.BR:
          this.#branch(first[i] ?? 0, at[i] ?? 0);
          break;
        case OP.BR_TABLE:
          this.#split(2);
          this.#branchTable(buffer, i);
          break;
        case OP.RETURN:
          this.#branch(this.#nesting, 0);
          break;
        case OP.CALL:
        case OP.CALL_INDIRECT:
          this.#calls();
          break;
        case OP.RETURN_CALL:
        case OP.RETURN_CALL_INDIRECT:
          this.#calls();
          this.#branch(this.#nesting, 0);
          break;
        case OP.LOCAL_SET:
        case OP.LOCAL_TEE:
          if (this.#nesting > 0) assigned.push(first[i] ?? 0);
          break;
        case OP.GLOBAL_SET:
          this.#changesGlobals[this.#nesting] = 1;
          break;
        case OP.MEMORY_GROW:
        case OP.MEMORY_INIT:
        case OP.MEMORY_COPY:
        case OP.MEMORY_FILL:
          this.#isBusy[this.#nesting] = 1;
          break;
        default:
      }
    }
    if (this.#nesting !== 0) throw misread(at[count] ?? 0);
    start[body + 1] = flags.length;
  }

  #calls(): void {
    this.#isBusy[this.#nesting] = 1;
    this.#changesGlobals[this.#nesting] = 1;
  }

  #enter(opcode: number, at: number): void {
    if (this.#nesting === NESTING_MAX)
      throw refusal('wasm-limit', `blocks are nested more than ${NESTING_MAX} deep at offset ${hex(at)}`);
    const { flags, assignedFrom, assignedTo, assigned } = this.#blocks;
    const n = ++this.#nesting;
    this.#block[n] = flags.length;
    this.#target[n] = n;
    this.#isLoop[n] = opcode === OP.LOOP ? 1 : 0;
    this.#isIf[n] = opcode === OP.IF ? 1 : 0;
    this.#innermostLoop[n] = opcode === OP.LOOP ? n : (this.#innermostLoop[n - 1] ?? 0);
    this.#isBusy[n] = 0;
    this.#changesGlobals[n] = 0;
    this.#splits[n] = 0;
    this.#isPassable[n] = opcode === OP.IF ? 1 : 0;
    this.#tests[n] = 0;
    this.#hasPassedTest[n] = 0;
    this.#goesRound[n] = 0;
    flags.push(0);
    assignedFrom.push(assigned.length);
    assignedTo.push(0);
  }

  /** Closes the innermost block. */
  #leave(): void {
    const { flags, assignedTo, assigned } = this.#blocks;
    const n = this.#nesting--;
    const block = this.#block[n] ?? 0;
    const target = this.#target[n] ?? n;
    let found = flags.at(block);
    if (target < n) {
      found |= BLOCK.LEFT;
      if (target < (this.#target[n - 1] ?? 0)) this.#target[n - 1] = target;
    }
    const isLoop = this.#isLoop[n] === 1;
    if (this.#changesGlobals[n] === 1) {
      found |= BLOCK.CHANGES_GLOBALS;
      this.#changesGlobals[n - 1] = 1;
    }
    const splits = this.#splits[n] ?? 0;
    if (isLoop && this.#isBusy[n] === 0) found |= splits <= 1 ? BLOCK.PLAIN_LOOP | BLOCK.TIGHT_LOOP : BLOCK.PLAIN_LOOP;
    this.#splits[n - 1] = (this.#splits[n - 1] ?? 0) + splits;
    if (!isLoop) this.#passes(n);
    else if (this.#tests[n] === 1 || this.#hasPassedTest[n] === 1) found |= BLOCK.TESTED_INSIDE;
    else this.#testsFuel(n - 1);
    if (isLoop || this.#isBusy[n] === 1) this.#isBusy[n - 1] = 1;
    flags.values[block] = found;
    assignedTo.values[block] = assigned.length;
  }

  /**
   * Records that a loop that tests the fuel has ended inside block `n`. The test counts for the innermost loop around
   * it if no iteration of that one can avoid it: the same rule as for stores in loop-strides.ts. If that loop is too
   * far out, it keeps its own test.
   */
  #testsFuel(n: number): void {
    const around = this.#innermostLoop[n] ?? 0;
    if (around === 0 || this.#goesRound[around] === 1) return;
    let region = n;
    for (let left = LEVELS_SEARCHED_MAX; left > 0; left--, region--) {
      if (region !== around && this.#isPassable[region] === 0) continue;
      this.#tests[region] = 1;
      return;
    }
  }

  /**
   * Records that block or arm `n`, which is no loop, has ended: the code behind it may or may not have passed its
   * tests.
   */
  #passes(n: number): void {
    if (this.#tests[n] === 0) return;
    this.#tests[n] = 0;
    this.#hasPassedTest[this.#innermostLoop[n - 1] ?? 0] = 1;
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

  /** Records a branch to the block `depth` levels out. */
  #branch(depth: number, at: number): void {
    const target = this.#nesting - depth;
    if (target < 0) throw misread(at);
    this.#reaches(target);
    if (target < (this.#target[this.#nesting] ?? 0)) this.#target[this.#nesting] = target;
  }

  #branchTable({ labels, first, second, at }: InstructionBuffer, i: number): void {
    const start = first[i] ?? 0;
    let outermost = 0;
    for (let k = start; k <= start + (second[i] ?? 0); k++) {
      outermost = Math.max(outermost, labels[k] ?? 0);
      this.#reaches(this.#nesting - (labels[k] ?? 0));
    }
    this.#branch(outermost, at[i] ?? 0);
  }
}

/** Returns the error for code that V8 has validated but that was decoded differently here. */
function misread(at: number): Error {
  return refusal('wasm-unsupported', `blocks do not nest at offset ${hex(at)}`);
}
