/**
 * Loops that count up to a bound: their stores need no page test inside, because the pages that they will write are
 * known before the loop.
 *
 *     block $done
 *       block $tests
 *         [test of the first address's page]
 *         distance = (bound − i) * 4                      ;; in 64 bits, exactly
 *         if (unlikely)  (first address & 4095) + distance > 4096
 *           (br_if $tests (call $touch_steps (first address, distance, 4, …)))
 *         end
 *         loop $round
 *           (if (i32.lt_s (local.get $i) (i32.const 1000))
 *             (then
 *               (i32.store (i32.add (local.get $base) (i32.shl (local.get $i) (i32.const 2))) …)       ;; no test
 *               (local.set $i (i32.add (local.get $i) (i32.const 1)))
 *               (br $round)))
 *         end
 *         br $done
 *       end
 *       [the same loop with tests of its own, see loop-strides.ts]
 *     end
 *
 * This applies only if the bound is the one way out (traps aside), at the loop's head or at its end, so that no page is
 * touched that the loop would not have written. The code before such a loop runs once; V8 unrolls a loop without a
 * call.
 *
 * Correctness. The address moves by the same multiple of the counted local's step, and exactly as often, since it is
 * computed from that local. While the local is below the bound, the address is below `first + distance`, unless it
 * wraps. An address does not wrap by steps of less than 64 KiB: the store is executed every time, and memory ends 64
 * KiB before the address space does, so the store traps first; larger steps are used only if `first + distance` is
 * within the address space. The counted local could step over the bound and wrap, if the bound is less than a step away
 * from the largest number, or miss a bound that it must hit exactly. Such loops *may wrap*: they use the second form,
 * with tests. A loop with the comparison at its end may wrap the local before the first comparison, so the distance is
 * counted from there.
 *
 * Touching is not charged, and a loop may end in a trap or run out of instructions before it reaches the pages touched
 * for it. So the number of pages touched before a loop is limited (RANGE_PAGES_MAX in touch-ranges.ts); longer ranges
 * use the second form, too, and there the pages themselves cost more than the tests.
 */
import { BLOCK_TYPE_EMPTY, type ByteWriter, type InstructionBuffer, OP } from '../../wasm/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { code, get, i32, i64, set, tee } from '../assembler.ts';

/** Largest step, for steps known only at run time. */
export const RANGE_STEP_MAX = 2 ** 40;
/** Largest index and bound of 64 bits, so that no sum or product exceeds 64 bits. */
const INDEX_MAX = 2 ** 48;

/** The bound that a loop counts up to. */
export interface LoopBound {
  /** The local that is compared; the bound has its type. */
  readonly local: number;
  /** The local that holds the constant bound, or −1: then the bound is `constant`. */
  readonly place: number;
  readonly constant: number;
  readonly is64: boolean;
  readonly relation: 'less, signed' | 'less, unsigned' | 'unequal';
  /** True if the loop also runs at the bound. */
  readonly isInclusive: boolean;
  /** True if the comparison follows the loop's code, which then runs at least once. */
  readonly isAtEnd: boolean;
}

/** Comparisons from `eq` on, in the order of their opcodes; the unsigned ones are odd. */
const RELATION = { EQ: 0, NE: 1, LT: 2, GT: 4, LE: 6, GE: 8, COUNT: 10 } as const;
const SWAPPED = [0, 1, 4, 5, 2, 3, 8, 9, 6, 7];
const NEGATED = [1, 0, 8, 9, 6, 7, 4, 5, 2, 3];

/** `?? 0` in this file: see block-pass.ts. */

/** Returns the bound of the innermost loop at instruction `at`, whose `end` is given, if there is one. */
export function loopBound(
  buffer: InstructionBuffer,
  at: number,
  end: number,
  assigned: ReadonlySet<number>,
): LoopBound | undefined {
  const { opcode, first } = buffer;
  const isAtEnd = opcode[end - 1] === OP.BR_IF && first[end - 1] === 0;
  if (isAtEnd) {
    const isNegated = opcode[end - 2] === OP.I32_EQZ;
    const from = end - (isNegated ? 5 : 4);
    return from > at && goesNowhereElse(buffer, at + 1, end - 1, 0, true)
      ? comparison(buffer, from, isNegated, true, assigned)
      : undefined;
  }
  let next = at + 4;
  let isNegated = opcode[next] === OP.I32_EQZ;
  if (isNegated) next++;
  const isIf = opcode[next] === OP.IF && first[next] === BLOCK_TYPE_EMPTY;
  const isExit = opcode[next] === OP.BR_IF && (first[next] ?? 0) > 0;
  if (!isIf && !isExit) return undefined;
  if (isExit) isNegated = !isNegated;
  const back = isIf ? end - 2 : end - 1;
  if (opcode[back] !== OP.BR || first[back] !== (isIf ? 1 : 0) || (isIf && opcode[end - 1] !== OP.END))
    return undefined;
  if (back <= next || !goesNowhereElse(buffer, next + 1, back, isIf ? 1 : 0, false)) return undefined;
  return comparison(buffer, at + 1, isNegated, false, assigned);
}

/**
 * Returns true if the code, `nesting` levels inside a loop, stays inside the loop and these levels until `to`; it may
 * start another iteration.
 */
function goesNowhereElse(
  { opcode, first, second, labels }: InstructionBuffer,
  from: number,
  to: number,
  nesting: number,
  isAtEnd: boolean,
): boolean {
  let level = nesting;
  const stays = (depth: number): boolean => level - depth > nesting || (!isAtEnd && level === depth);
  for (let i = from; i < to; i++) {
    switch (opcode[i]) {
      case OP.BLOCK:
      case OP.IF:
        level++;
        break;
      case OP.ELSE:
        if (level === nesting) return false;
        break;
      case OP.END:
        if (--level < nesting) return false;
        break;
      case OP.BR:
      case OP.BR_IF:
        if (!stays(first[i] ?? 0)) return false;
        break;
      case OP.BR_TABLE:
        for (let k = 0; k <= (second[i] ?? 0); k++) if (!stays(labels[(first[i] ?? 0) + k] ?? 0)) return false;
        break;
      case OP.RETURN:
        return false;
      default:
    }
  }
  return level === nesting;
}

/**
 * Returns the bound in the comparison at instruction `k`, which compares a local that counts with an unchanging
 * operand.
 */
function comparison(
  { opcode, first }: InstructionBuffer,
  k: number,
  isNegated: boolean,
  isAtEnd: boolean,
  assigned: ReadonlySet<number>,
): LoopBound | undefined {
  const compare = opcode[k + 2] ?? 0;
  const is64 = compare > OP.I64_EQZ;
  let relation = compare - (is64 ? OP.I64_EQZ + 1 : OP.I32_EQ);
  if (relation < 0 || relation >= RELATION.COUNT) return undefined;
  if (isNegated) relation = NEGATED[relation] ?? 0;
  const isCounted = (i: number): boolean =>
    (opcode[i] === OP.LOCAL_GET || (isAtEnd && opcode[i] === OP.LOCAL_TEE)) && assigned.has(first[i] ?? 0);
  let counted = k;
  let bound = k + 1;
  if (!isCounted(k)) {
    [counted, bound] = [bound, counted];
    if (!isCounted(counted)) return undefined;
    relation = SWAPPED[relation] ?? 0;
  }
  const isConstant = opcode[bound] === OP.I32_CONST || opcode[bound] === OP.I64_CONST;
  if (!isConstant && (opcode[bound] !== OP.LOCAL_GET || assigned.has(first[bound] ?? 0))) return undefined;
  const kind = relation & ~1;
  if (relation !== RELATION.NE && kind !== RELATION.LT && kind !== RELATION.LE) return undefined;
  const isUnsigned = relation % 2 === 1;
  const constant = isConstant ? (first[bound] ?? 0) : 0;
  return {
    local: first[counted] ?? 0,
    place: isConstant ? -1 : (first[bound] ?? 0),
    constant: isUnsigned && !is64 ? constant >>> 0 : constant,
    is64,
    relation: relation === RELATION.NE ? 'unequal' : isUnsigned ? 'less, unsigned' : 'less, signed',
    isInclusive: kind === RELATION.LE,
    isAtEnd,
  };
}

/**
 * Returns true if the bound can be used for a local that moves by the constant `stride`, or, if that is 0, by a step
 * known at run time.
 */
export function isUsable(bound: LoopBound, step: number): boolean {
  if (step < 0 || step > RANGE_STEP_MAX || Math.abs(bound.constant) >= INDEX_MAX) return false;
  if (bound.relation === 'unequal') return step !== 0 && (step & (step - 1)) === 0;
  if (bound.place !== -1) return true;
  if (step === 0 && !bound.is64) return true;
  return bound.constant <= lastBound(bound, step) && (bound.relation === 'less, signed' || bound.constant >= 0);
}

/**
 * Returns the largest bound that the local cannot step over and wrap; without the step if that is known only at run
 * time.
 */
function lastBound({ is64, relation }: LoopBound, step: number): number {
  if (is64) return INDEX_MAX - 1;
  const largest = relation === 'less, signed' ? 0x7fffffff : 0xffffffff;
  return largest - step;
}

/** Comparisons of 32 and of 64 bits. */
const COMPARISON = {
  'less, signed': [OP.I32_LT_S, OP.I64_LT_S],
  'less, unsigned': [OP.I32_LT_U, OP.I64_LT_U],
  unequal: [OP.I32_NE, OP.I64_NE],
} as const;
/** Distance from `lt` to `le` in the order of opcodes. */
const LE_FROM_LT = RELATION.LE - RELATION.LT;

/** A range to be touched before a loop. Places are locals of the new body. */
export interface Range {
  readonly bound: LoopBound;
  /** Step of the counted local; 0: the step is in local `stepPlace`. */
  readonly step: number;
  readonly stepPlace: number;
  /** Factor from that step to the address's step. */
  readonly scale: number;
}

/**
 * Emits code that touches the range from the address in `first`, whose own page has been tested, or leaves the
 * enclosing block. `distance` and `mayWrap` are temporaries of type i64 and i32. Returns the place of the unlikely
 * branch in `out`.
 */
export function emitRange(
  out: ByteWriter,
  { bound, step, stepPlace, scale }: Range,
  place: (local: number) => number,
  first: number,
  distance: number,
  mayWrap: number,
  touchSteps: number,
): number {
  const { is64, relation, isAtEnd } = bound;
  const extended = is64 ? [] : [relation === 'less, signed' ? OP.I64_EXTEND_I32_S : OP.I64_EXTEND_I32_U];
  const first64 = code(get(first), is64 ? [] : [OP.I64_EXTEND_I32_U]);
  const own = is64 ? i64 : (value: number): number[] => i32(value | 0);
  const by = step === 0 ? get(place(stepPlace)) : own(step);
  const step64 = step === 0 ? code(by, is64 ? [] : [OP.I64_EXTEND_I32_S]) : i64(step);
  const limit = bound.place === -1 ? own(bound.constant) : get(place(bound.place));
  const index = get(place(bound.local));
  /** The first operand that is compared: after the loop's code the local has moved, and may have wrapped. */
  const compared = isAtEnd ? code(index, by, is64 ? OP.I64_ADD : OP.I32_ADD) : index;
  const conditions: number[][] = [];
  if (relation === 'unequal') {
    // Computed in the local's own width, since the local wraps until it hits the bound. It never hits one whose
    // distance is not a multiple of the step.
    out.put(code(limit, compared, is64 ? OP.I64_SUB : OP.I32_SUB, extended, set(distance)));
    const never = step - 1 - (is64 ? INDEX_MAX : 0);
    if (never !== 0) conditions.push(code(get(distance), i64(never), OP.I64_AND, OP.I64_EQZ, OP.I32_EQZ));
  } else {
    const limit64 = code(limit, extended);
    const last = i64(lastBound(bound, step));
    const isSigned = relation === 'less, signed';
    if (step === 0 && !is64) conditions.push(code(limit64, step64, OP.I64_ADD, last, OP.I64_GT_S));
    else if (bound.place !== -1) conditions.push(code(limit64, last, is64 && !isSigned ? OP.I64_GT_U : OP.I64_GT_S));
    if (is64 && isSigned) conditions.push(code(compared, i64(-INDEX_MAX), OP.I64_LT_S));
    out.put(code(limit64, compared, extended, OP.I64_SUB));
    if (bound.isInclusive) out.put(code(i64(1), OP.I64_ADD));
    out.put(set(distance));
  }
  conditions.forEach((condition, k) => out.put(k === 0 ? condition : code(condition, OP.I32_OR)));
  if (conditions.length === 0) out.put(i32(0));
  out.put(tee(mayWrap));
  if (isAtEnd) out.put(code(get(distance), step64, OP.I64_ADD, set(distance)));
  if (scale !== 1) out.put(code(get(distance), i64(scale), OP.I64_MUL, set(distance)));
  out.put(code(first64, i64(PAGE_BYTES - 1), OP.I64_AND, get(distance), OP.I64_ADD, i64(PAGE_BYTES), OP.I64_GT_S));
  out.put(code(OP.I32_OR));
  // A step known only at run time may have any value.
  if (step === 0) out.put(code(step64, i64(RANGE_STEP_MAX), OP.I64_GT_U, OP.I32_OR));
  // If the local is at the bound already, the first address is the only one, or there is none.
  out.put(code(compared, limit, COMPARISON[relation][is64 ? 1 : 0] + (bound.isInclusive ? LE_FROM_LT : 0), OP.I32_AND));
  const moves = step === 0 ? step64 : i64(step * scale);
  const hint = out.length;
  out.put(code([OP.IF, 0x40], first64, get(distance), moves, get(mayWrap), [OP.CALL]));
  out.unsigned(touchSteps);
  out.put([OP.BR_IF, 1, OP.END]);
  return hint;
}
