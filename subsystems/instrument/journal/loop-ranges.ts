/**
 * Loops that count up to a bound: their stores need no page test inside, because it can be said in front of the loop which
 * pages will be written.
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
 * Only where the bound is the one way out (traps aside), at the loop's head or at its end, so that no page is touched that
 * the loop would not have written. What stands in front of such a loop runs once; without a call inside, V8 unrolls it.
 *
 * Why this is right. The address moves by the same multiple of what the counted local moves by, and exactly as often, since
 * it is computed from it. While the local is below the bound, it is below `first + distance`, unless it wraps. An address
 * does not wrap by steps of less than 64 KiB: the store is executed every time, and memory ends 64 KiB before the address
 * space does, so it traps first; larger steps are used only if `first + distance` is within the address space. The counted
 * local could step over the bound and wrap, if that is less than a step away from the largest number, or go past a bound
 * that it must hit exactly. Such loops *may wrap*: they go where the second form has to look. A loop that is tested at its
 * end may wrap the local before it is compared for the first time, so the distance is counted from there.
 *
 * No instruction pays for touching, and a loop may end in a trap or without instructions before it comes to what was
 * touched for it. So only so many pages are touched in front of one (RANGE_PAGES_MAX in touch-ranges.ts); longer ranges take the
 * second form, too, where the pages themselves cost more than the tests.
 */
import { BLOCK_TYPE_EMPTY, type ByteWriter, type InstructionBuffer, OP } from '../../wasm/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { code, get, i32, i64, set, tee } from '../assembler.ts';

/** Steps known only at run time are used up to here. */
export const RANGE_STEP_MAX = 2 ** 40;
/** Indices and bounds of 64 bits are used up to here, so that no sum or product leaves 64 bits. */
const INDEX_MAX = 2 ** 48;

/** What a loop counts up to. */
export interface LoopBound {
  /** The local that is compared; what follows is of its type. */
  readonly local: number;
  /** The local that holds the bound and stays, or −1: then it is `constant`. */
  readonly place: number;
  readonly constant: number;
  readonly is64: boolean;
  readonly relation: 'less, signed' | 'less, unsigned' | 'unequal';
  /** Goes round at the bound, too. */
  readonly isInclusive: boolean;
  /** Asked behind the loop's code, which runs once at least. */
  readonly isAtEnd: boolean;
}

/** Comparisons from `eq` on, in the order of their opcodes; the unsigned ones are odd. */
const RELATION = { EQ: 0, NE: 1, LT: 2, GT: 4, LE: 6, GE: 8, COUNT: 10 } as const;
const SWAPPED = [0, 1, 4, 5, 2, 3, 8, 9, 6, 7];
const NEGATED = [1, 0, 8, 9, 6, 7, 4, 5, 2, 3];

/** `?? 0` as in the block pass. */

/** The bound of the innermost loop at instruction `at`, whose `end` is given, if there is one. */
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

/** Whether code `nesting` levels inside of a loop stays inside of it, and of these levels, until `to`; it may go round. */
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

/** Two operands and a comparison from instruction `k` on: a local that counts, and a bound that stays. */
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

/** Whether a bound can be used if the local moves by the constant `step`, or, if that is 0, by one known at run time. */
export function isUsable(bound: LoopBound, step: number): boolean {
  if (step < 0 || step > RANGE_STEP_MAX || Math.abs(bound.constant) >= INDEX_MAX) return false;
  if (bound.relation === 'unequal') return step !== 0 && (step & (step - 1)) === 0;
  if (bound.place !== -1) return true;
  if (step === 0 && !bound.is64) return true;
  return bound.constant <= lastBound(bound, step) && (bound.relation === 'less, signed' || bound.constant >= 0);
}

/** The largest bound that the local cannot step over and wrap, less the step if that is known only at run time. */
function lastBound({ is64, relation }: LoopBound, step: number): number {
  if (is64) return INDEX_MAX - 1;
  const largest = relation === 'less, signed' ? 0x7fffffff : 0xffffffff;
  return largest - step;
}

/** Of 32 and of 64 bits. */
const COMPARISON = {
  'less, signed': [OP.I32_LT_S, OP.I64_LT_S],
  'less, unsigned': [OP.I32_LT_U, OP.I64_LT_U],
  unequal: [OP.I32_NE, OP.I64_NE],
} as const;
/** How far `le` is from `lt` in the order of opcodes. */
const LE_FROM_LT = RELATION.LE - RELATION.LT;

/** A range that is to be touched in front of a loop. Places are locals of the new body. */
export interface Range {
  readonly bound: LoopBound;
  /** How far the counted local moves, 0: by what local `stepPlace` holds. */
  readonly step: number;
  readonly stepPlace: number;
  /** The address moves by so many times that. */
  readonly scale: number;
}

/**
 * Touches the range from the address in `first`, whose own page has been tested, or leaves the block around the code.
 * `distance` and `mayWrap` are temporaries of type i64 and i32; returns where the unlikely branch stands in `out`.
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
  /** What is compared first: behind the loop's code the local has moved, and that may have wrapped it. */
  const compared = isAtEnd ? code(index, by, is64 ? OP.I64_ADD : OP.I32_ADD) : index;
  const conditions: number[][] = [];
  if (relation === 'unequal') {
    // In the local's own width: it wraps until it hits. What is not a multiple of the step away is never hit.
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
  // A step known only at run time may be anything.
  if (step === 0) out.put(code(step64, i64(RANGE_STEP_MAX), OP.I64_GT_U, OP.I32_OR));
  // If the local is at the bound already, there is no address but the first, or none.
  out.put(code(compared, limit, COMPARISON[relation][is64 ? 1 : 0] + (bound.isInclusive ? LE_FROM_LT : 0), OP.I32_AND));
  const moves = step === 0 ? step64 : i64(step * scale);
  const hint = out.length;
  out.put(code([OP.IF, 0x40], first64, get(distance), moves, get(mayWrap), [OP.CALL]));
  out.unsigned(touchSteps);
  out.put([OP.BR_IF, 1, OP.END]);
  return hint;
}
