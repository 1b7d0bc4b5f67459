/**
 * Fuel: the instructions a message may still use.
 *
 * It is the last parameter and the last result of every function, so that V8 keeps it in a register:
 *
 *     (func $f (param … $stack i32 $fuel i64) (result … i64)
 *       local.get $fuel  i64.const 17  i64.sub  local.set $fuel        ;; a charge point
 *       local.get $fuel  i64.const 0  i64.lt_s                         ;; a test: at entry and in loops
 *       if (unlikely)  local.get $fuel  call $refill  local.set $fuel  end
 *       …
 *       local.get $fuel)
 *
 * It is handed out in slices of FUEL_SLICE; what is not handed out yet is the reserve, in the control memory, a multiple
 * of the slice. `refill` takes what is missing from the reserve or stops the message. So the limit is exact although no
 * test looks further than the sign, and what a trap in the middle of a loop leaves uncounted is less than a slice.
 *
 * In an innermost loop without calls and stores the refill is written inline: a call left in a tiny loop, even one that
 * never happens, keeps V8 from unrolling it (measured in the lab: matrix product 2.17 times raw instead of 1.28).
 */
import { type ByteWriter, OP, VALUE_TYPE } from '../../wasm/index.ts';
import { CONTROL, FUEL_SLICE, STOP } from './abi.ts';
import type { AddedFunctions } from './added-functions.ts';
import {
  call,
  code,
  f64,
  get,
  i32,
  i64,
  ifThen,
  readF64,
  set,
  signed,
  storeFuel,
  tee,
  unsigned,
  writeF64,
  writeI32,
} from './assembler.ts';

const { i64: I64, f64: F64 } = VALUE_TYPE;

/** A charge as large as this is out of any limit; it stands for all larger ones, so that sums do not overflow. */
const HOPELESS = 2 ** 62;

export interface FuelFunctions {
  /** (fuel) -> fuel: the slice is used up; the next one, or stop. */
  readonly refill: number;
  /** (size i64, fuel) -> fuel: charges one instruction for each byte or element of a bulk operation. */
  readonly chargeSize: number;
  /** (fuel): the stack budget is used up; stops. */
  readonly stackOverflow: number;
}

export function addFuelFunctions(added: AddedFunctions): FuelFunctions {
  const refill = addRefill(added);
  return { refill, chargeSize: addChargeSize(added, refill), stackOverflow: addStackOverflow(added) };
}

function addRefill(added: AddedFunctions): number {
  const fuel = 0;
  const taken = 1;
  const outOfInstructions = code(writeI32(CONTROL.STOP, i32(STOP.OUT_OF_INSTRUCTIONS)), OP.UNREACHABLE);
  return added.add(
    [I64],
    [I64],
    [F64],
    code(
      // taken = what is missing, rounded up to slices
      i64(FUEL_SLICE - 1),
      get(fuel),
      OP.I64_SUB,
      i64(-FUEL_SLICE),
      OP.I64_AND,
      OP.F64_CONVERT_I64_S,
      tee(taken),
      readF64(CONTROL.RESERVE),
      OP.F64_GT,
      ifThen(storeFuel(CONTROL.FUEL, fuel), outOfInstructions),
      writeF64(CONTROL.RESERVE, code(readF64(CONTROL.RESERVE), get(taken), OP.F64_SUB)),
      get(fuel),
      get(taken),
      OP.I64_TRUNC_SAT_F64_S,
      OP.I64_ADD,
      set(fuel),
      storeFuel(CONTROL.FUEL, fuel),
      get(fuel),
    ),
  );
}

function addChargeSize(added: AddedFunctions, refill: number): number {
  const size = 0;
  const fuel = 1;
  return added.add(
    [I64, I64],
    [I64],
    [],
    code(
      get(size),
      i64(HOPELESS),
      OP.I64_GT_U,
      ifThen(i64(HOPELESS), set(size)),
      get(fuel),
      get(size),
      OP.I64_SUB,
      tee(fuel),
      i64(0),
      OP.I64_LT_S,
      ifThen(get(fuel), call(refill), set(fuel)),
      get(fuel),
    ),
  );
}

function addStackOverflow(added: AddedFunctions): number {
  return added.add(
    [I64],
    [],
    [],
    code(storeFuel(CONTROL.FUEL, 0), writeI32(CONTROL.STOP, i32(STOP.STACK_OVERFLOW)), OP.UNREACHABLE),
  );
}

/** `fuel -= cost` */
export function emitCharge(out: ByteWriter, fuel: number, cost: number): void {
  out.byte(OP.LOCAL_GET);
  out.unsigned(fuel);
  out.byte(OP.I64_CONST);
  out.signed(cost);
  out.byte(OP.I64_SUB);
  out.byte(OP.LOCAL_SET);
  out.unsigned(fuel);
}

/** The condition of a test; an unlikely `if` follows. */
export function emitIsUsedUp(out: ByteWriter, fuel: number): void {
  out.byte(OP.LOCAL_GET);
  out.unsigned(fuel);
  out.byte(OP.I64_CONST);
  out.byte(0);
  out.byte(OP.I64_LT_S);
}

/** `fuel = refill(fuel)` */
export function emitRefillCall(out: ByteWriter, fuel: number, refill: number): void {
  out.byte(OP.LOCAL_GET);
  out.unsigned(fuel);
  out.byte(OP.CALL);
  out.unsigned(refill);
  out.byte(OP.LOCAL_SET);
  out.unsigned(fuel);
}

/** The same without a call: one slice is taken; a charge of more than that is refilled the next time round. */
export function emitRefillInline(out: ByteWriter, fuel: number): void {
  const afterSlice = code(readF64(CONTROL.RESERVE), f64(FUEL_SLICE), OP.F64_SUB);
  out.put(
    code(
      writeF64(CONTROL.RESERVE, afterSlice),
      [OP.LOCAL_GET, ...unsigned(fuel), OP.I64_CONST, ...signed(FUEL_SLICE), OP.I64_ADD],
      set(fuel),
      storeFuel(CONTROL.FUEL, fuel),
      readF64(CONTROL.RESERVE),
      f64(0),
      OP.F64_LT,
      ifThen(writeI32(CONTROL.STOP, i32(STOP.OUT_OF_INSTRUCTIONS)), OP.UNREACHABLE),
    ),
  );
}

