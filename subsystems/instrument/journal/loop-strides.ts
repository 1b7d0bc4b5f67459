/**
 * Stores in innermost loops whose address moves by the same step in each iteration.
 *
 *     local.get $p  i32.const 12  i32.shr_u …          ;; the page test, once, before the loop
 *     loop
 *       local.get $p  i32.const 4095  i32.and          ;; before the store: has $p come to a new page?
 *       i32.const 4  i32.lt_u
 *       if (unlikely)  …page of $p…  call $prepare  end
 *       (i32.store (local.get $p) …)
 *       (br_if 0 (… (local.tee $p (i32.add (local.get $p) (i32.const 4))) …))
 *     end
 *
 * The test in the loop needs no memory and no state: an address that has moved up by `stride` since the last store is
 * on a new page only if its offset in the page is less than `stride` (mirrored for strides down; unsigned, so that one
 * known only at run time may have any value). A stride of 0 needs no test in the loop at all.
 *
 * Correctness. Every iteration that is followed by another one executes the store: no branch to the loop's head comes
 * before the store, or after a place that can be reached without it. Each moving local is set at one place in the loop,
 * so at most once between two executions of the store, and only one of them is part of the address. So if the offset
 * says "same page", it is the page of the previous execution; the first page was tested before the loop. That test may
 * be for a store that is never executed, hence `prepare`, which ignores pages beyond the memory: a store there traps by
 * itself. Loops that call or grow memory are left out, because such a page may exist by the time of the store.
 */
import { type ByteWriter, type InstructionBuffer, OP, STORE_BYTES } from '../../wasm/index.ts';
import { isUsable, loopBound, type LoopBound, type Range } from './loop-ranges.ts';

/** Largest step. Larger ones reach a new page so often that the ordinary test is as good. */
const STEP_MAX = 1024;
const LOOP_INSTRUCTIONS_MAX = 2000;
const NESTING_MAX = 32;
/** Limits on the parts of an address that are computed before the loop, and on the tests there. */
const PARTS_MAX = 8;
const HOISTED_MAX = 8;

/** Step of an address in each iteration: a constant or, if `local` is not −1, the value of that local. */
export interface Stride {
  readonly constant: number;
  readonly local: number;
}

/**
 * A loop without inner loops, calls and growth of memory: the locals that it sets, and the steps of those that move.
 */
export interface StridingLoop {
  readonly assigned: ReadonlySet<number>;
  readonly steps: ReadonlyMap<number, Stride>;
  /** Indices of stores that every iteration followed by another one executes. */
  readonly stores: ReadonlySet<number>;
  /** The bound that the loop counts up to, if that is the one way out. */
  readonly bound: LoopBound | undefined;
}

/** Computation of a value from the locals and globals at the beginning of the loop. */
interface Recipe {
  readonly opcode: number;
  readonly left: number;
  readonly right: number;
  readonly stride: Stride;
  /** The local that moves, if one does. */
  readonly inductionVariable: number;
}

const STAYS: Stride = { constant: 0, local: -1 };

/** A block or arm inside the loop that is being scanned. */
interface Region {
  /**
   * True if reaching the region's end does not mean that its code was executed: an `if`, or a block with a branch to
   * its end.
   */
  isPassable: boolean;
  /** Stores found so far that are executed only on paths through this region. */
  readonly stores: number[];
}

/** `?? 0` in this file: see block-pass.ts. */

/** Scans the loop at instruction `at`. Each instruction is scanned only for its innermost loop. */
export function steppingLoop(buffer: InstructionBuffer, at: number): StridingLoop | undefined {
  const { opcode, first, second, labels, count } = buffer;
  const assigned = new Set<number>();
  const steps = new Map<number, Stride>();
  const regions: Region[] = [{ isPassable: false, stores: [] }];
  /** Stores whose region has ended: they remain if no later branch starts another iteration. */
  const passed: number[] = [];
  let goesRound = false;
  const branch = (depth: number): void => {
    const target = regions.length - 1 - depth;
    const region = regions[target];
    if (region === undefined) return;
    if (target > 0) {
      region.isPassable = true;
      return;
    }
    goesRound = true;
    passed.length = 0;
  };
  const end = Math.min(count, at + LOOP_INSTRUCTIONS_MAX);
  for (let i = at + 1; i < end; i++) {
    switch (opcode[i]) {
      case OP.BLOCK:
      case OP.IF:
        if (regions.length > NESTING_MAX) return undefined;
        regions.push({ isPassable: opcode[i] === OP.IF, stores: [] });
        break;
      case OP.ELSE:
      case OP.END: {
        const region = regions.at(-1);
        for (const store of region?.stores ?? []) passed.push(store);
        if (opcode[i] === OP.ELSE) {
          if (region !== undefined) region.stores.length = 0;
          break;
        }
        regions.pop();
        if (regions.length > 0) break;
        for (const [local, stride] of steps) if (assigned.has(stride.local)) steps.delete(local);
        return { assigned, steps, stores: new Set(passed), bound: loopBound(buffer, at, i, assigned) };
      }
      case OP.BR:
      case OP.BR_IF:
        branch(first[i] ?? 0);
        break;
      case OP.BR_TABLE:
        for (let k = 0; k <= (second[i] ?? 0); k++) branch(labels[(first[i] ?? 0) + k] ?? 0);
        break;
      case OP.LOOP:
      case OP.CALL:
      case OP.CALL_INDIRECT:
      case OP.RETURN_CALL:
      case OP.RETURN_CALL_INDIRECT:
      case OP.MEMORY_GROW:
        return undefined;
      case OP.LOCAL_SET:
      case OP.LOCAL_TEE: {
        const local = first[i] ?? 0;
        const stride = assigned.has(local) ? undefined : stepOf(opcode, first, i, at);
        assigned.add(local);
        if (stride === undefined) steps.delete(local);
        else steps.set(local, stride);
        break;
      }
      default:
        if (!goesRound && STORE_BYTES[opcode[i] ?? 0] !== 0)
          (regions.findLast(({ isPassable }) => isPassable) ?? regions[0])?.stores.push(i);
    }
  }
  return undefined;
}

/** Returns the step if the instructions before `i`, which sets a local, add a step to that local. */
function stepOf(
  opcode: InstructionBuffer['opcode'],
  first: InstructionBuffer['first'],
  i: number,
  at: number,
): Stride | undefined {
  if (i - 3 <= at) return undefined;
  const local = first[i] ?? 0;
  const isConstant = (k: number): boolean => opcode[k] === OP.I32_CONST || opcode[k] === OP.I64_CONST;
  const isLocal = (k: number): boolean => opcode[k] === OP.LOCAL_GET;
  const isMoved = (k: number): boolean => isLocal(k) && first[k] === local;
  const sum = opcode[i - 1];
  const isSum = sum === OP.I32_ADD || sum === OP.I64_ADD;
  const isDifference = sum === OP.I32_SUB || sum === OP.I64_SUB;
  if (!isSum && !isDifference) return undefined;
  if (isMoved(i - 3) && isConstant(i - 2)) {
    const constant = first[i - 2] ?? 0;
    return { constant: isSum ? constant : -constant, local: -1 };
  }
  if (!isSum) return undefined;
  if (isConstant(i - 3) && isMoved(i - 2)) return { constant: first[i - 3] ?? 0, local: -1 };
  if (isMoved(i - 3) && isLocal(i - 2)) return { constant: 0, local: first[i - 2] ?? 0 };
  if (isLocal(i - 3) && isMoved(i - 2)) return { constant: 0, local: first[i - 3] ?? 0 };
  return undefined;
}

/** Facts about the values in the loop that is being rewritten. */
export class LoopStrides {
  #loop: StridingLoop | undefined;
  readonly #recipes = new Map<number, Recipe>();
  #hoisted = 0;
  #hasRanges = false;

  get isActive(): boolean {
    return this.#loop !== undefined;
  }

  /** Returns true if the instruction is a store that is executed in each iteration. */
  isEachTime(instruction: number): boolean {
    return this.#loop?.stores.has(instruction) === true;
  }

  begin(loop: StridingLoop, hasRanges: boolean): void {
    this.#loop = loop;
    this.#hasRanges = hasRanges;
    this.#recipes.clear();
    this.#hoisted = 0;
  }

  end(): void {
    this.#loop = undefined;
  }

  /** Records that `local` holds `value` at the loop's head and moves by `stride`. */
  moves(value: number, local: number, stride: Stride): void {
    this.#recipes.set(value, { opcode: OP.LOCAL_GET, left: local, right: 0, stride, inductionVariable: local });
  }

  /** Records a read of a local, which holds `value + constant`. */
  localGet(local: number, value: number, constant: number): void {
    if (this.#loop?.assigned.has(local) !== false || this.#recipes.has(value)) return;
    this.#recipes.set(value, {
      opcode: OP.LOCAL_GET,
      left: local,
      right: constant,
      stride: STAYS,
      inductionVariable: -1,
    });
  }

  /** Records a read of a global that nothing in the loop sets. */
  globalGet(global: number, value: number): void {
    if (this.#recipes.has(value)) return;
    this.#recipes.set(value, { opcode: OP.GLOBAL_GET, left: global, right: 0, stride: STAYS, inductionVariable: -1 });
  }

  /** Records the computation of `value`; the right operand of `shl` and `mul` is a constant, all others are values. */
  computed(opcode: number, left: number, right: number, value: number): void {
    if (this.#recipes.has(value)) return;
    const first = this.#recipes.get(left);
    if (first === undefined) return;
    const a = first.stride;
    const second = isByConstant(opcode) ? undefined : this.#recipes.get(right);
    const b = second?.stride;
    const inductionVariable =
      second === undefined || stays(second.stride) ? first.inductionVariable : second.inductionVariable;
    let stride: Stride | undefined;
    switch (opcode) {
      case OP.I32_SHL:
      case OP.I32_MUL:
      case OP.I64_SHL:
      case OP.I64_MUL: {
        const isShift = opcode === OP.I32_SHL || opcode === OP.I64_SHL;
        const factor = isShift ? 2 ** (right & (opcode === OP.I32_SHL ? 31 : 63)) : right;
        if (a.local === -1) stride = { constant: a.constant * factor, local: -1 };
        break;
      }
      case OP.I32_ADD:
      case OP.I64_ADD: {
        if (b !== undefined) stride = stays(b) ? a : stays(a) ? b : undefined;
        break;
      }
      case OP.I32_SUB:
      case OP.I64_SUB: {
        if (b !== undefined && stays(b)) stride = a;
        else if (b !== undefined && stays(a) && b.local === -1) stride = { constant: -b.constant, local: -1 };
      }
    }
    if (stride !== undefined) this.#recipes.set(value, { opcode, left, right, stride, inductionVariable });
  }

  /**
   * Returns the step of the address `value`, if it can be computed before the loop and one more test is allowed there.
   */
  hoist(value: number): Stride | undefined {
    const recipe = this.#recipes.get(value);
    if (recipe === undefined || this.#hoisted === HOISTED_MAX) return undefined;
    if (Math.abs(recipe.stride.constant) > STEP_MAX || this.#parts(value, PARTS_MAX) > PARTS_MAX) return undefined;
    this.#hoisted++;
    return recipe.stride;
  }

  /**
   * Returns the range that `value`, which moves by `stride`, covers in the whole loop, if it is known before the loop.
   */
  range(value: number, stride: Stride): Range | undefined {
    const bound = this.#loop?.bound;
    const inductionVariable = this.#recipes.get(value)?.inductionVariable ?? -1;
    if (!this.#hasRanges || bound === undefined || stays(stride) || bound.local !== inductionVariable) return undefined;
    const counted = this.#loop?.steps.get(inductionVariable);
    if (counted === undefined || !isUsable(bound, counted.constant)) return undefined;
    if (counted.local !== -1) return { bound, step: 0, stepPlace: counted.local, scale: 1 };
    const scale = stride.constant / counted.constant;
    return scale >= 1 && Number.isInteger(scale) ? { bound, step: counted.constant, stepPlace: -1, scale } : undefined;
  }

  #parts(value: number, max: number): number {
    const recipe = this.#recipes.get(value);
    if (recipe === undefined || max <= 0) return PARTS_MAX + 1;
    if (recipe.opcode === OP.LOCAL_GET || recipe.opcode === OP.GLOBAL_GET) return 1;
    const left = 1 + this.#parts(recipe.left, max - 1);
    return isByConstant(recipe.opcode) ? left : left + this.#parts(recipe.right, max - left);
  }

  /** Emits the computation of `value` at the beginning of the loop. `place` maps the module's locals. */
  emit(out: ByteWriter, value: number, is64: boolean, place: (local: number) => number): void {
    const recipe = this.#recipes.get(value);
    if (recipe === undefined) throw new Error(`value ${value} has no recipe`);
    const { opcode, left, right } = recipe;
    if (opcode === OP.GLOBAL_GET) {
      out.byte(opcode);
      out.unsigned(left);
      return;
    }
    if (opcode === OP.LOCAL_GET) {
      out.byte(opcode);
      out.unsigned(place(left));
      if (right === 0) return;
      emitConstant(out, is64, right);
      out.byte(is64 ? OP.I64_SUB : OP.I32_SUB);
      return;
    }
    this.emit(out, left, is64, place);
    if (isByConstant(opcode)) emitConstant(out, is64, right);
    else this.emit(out, right, is64, place);
    out.byte(opcode);
  }
}

function stays(stride: Stride): boolean {
  return stride.constant === 0 && stride.local === -1;
}

function isByConstant(opcode: number): boolean {
  return opcode === OP.I32_SHL || opcode === OP.I32_MUL || opcode === OP.I64_SHL || opcode === OP.I64_MUL;
}

function emitConstant(out: ByteWriter, is64: boolean, value: number): void {
  out.byte(is64 ? OP.I64_CONST : OP.I32_CONST);
  out.signed(is64 ? value : value | 0);
}
