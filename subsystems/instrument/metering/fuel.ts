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
 * Fuel is handed out in slices of FUEL_SLICE; the rest is the reserve, a global of the instance that is a multiple of
 * the slice. `refill` takes the missing fuel from the reserve or stops the message. So the limit is exact although
 * tests look only at the sign, and a trap in the middle of a loop leaves less than a slice uncounted.
 *
 * An innermost loop without calls, in which control flow splits once, becomes two, so that the test adds no call to it:
 * a call in a tiny loop, even one that never happens, keeps V8 from unrolling it (measured: a matrix product 1.45 times
 * raw, 1.1 without). The refill is behind the inner loop, so that a loop of a few rounds is entered with one test and
 * not two (ten kernels, metering alone 1.085 → 1.054 of raw together with charge-paths.ts; sieve 1.27 → 1.09). Loops
 * with stores gain, too, although page tests leave calls in them (ten kernels, metering alone 1.039 → 1.031, everything
 * on 1.157 → 1.147). If control flow splits more than once, V8 unrolls nothing, and the ordinary test is better (text
 * 1.15 → 1.02, sort 1.14 → 1.10, metering alone).
 *
 *     block $out
 *       loop $again
 *         block $empty
 *           loop $loop    br_if $empty (fuel < 0) (unlikely)   fuel -= cost   … br $loop …   end
 *           br $out
 *         end
 *         fuel = refill(fuel)
 *         br $again
 *       end
 *       unreachable
 *     end
 *
 * A loop whose every iteration passes the head of an inner loop needs no test of its own: the inner loop has one
 * (bodies 1.19 → 1.17, interpreter 1.34 → 1.30, everything on).
 *
 * The reason for a stop is in a global, too, so that the cold paths stay short; `settle` tells the host after a fault.
 */
import { type ByteWriter, OP, VALUE_TYPE } from '../../wasm/index.ts';
import { CONTROL, FUEL_SLICE, STOP } from '../abi/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import type { AddedFunctions } from '../added-functions.ts';
import {
  type AddressCode,
  call,
  type Code,
  code,
  get,
  HEAP,
  i32,
  i64,
  ifThen,
  memorySize,
  readF64,
  set,
  tee,
  unsigned,
  writeF64,
  writeI32,
} from '../assembler.ts';

const { i64: I64, f64: F64 } = VALUE_TYPE;

/** Instance globals added by us: never exported, never saved, set anew by each entry. */
export class FuelGlobals {
  readonly reserve: number;
  readonly stop: number;

  /** `first` is the index after the module's own globals. */
  constructor(first: number) {
    this.reserve = first;
    this.stop = first + 1;
  }

  get getReserve(): Code {
    return [OP.GLOBAL_GET, ...unsigned(this.reserve)];
  }
  get setReserve(): Code {
    return [OP.GLOBAL_SET, ...unsigned(this.reserve)];
  }

  /** Returns code that records the reason and traps. */
  stopBecause(reason: number): number[] {
    return code(i32(reason), [OP.GLOBAL_SET], unsigned(this.stop), OP.UNREACHABLE);
  }

  /** Returns the globals' items of the global section. */
  encode(): number[][] {
    return [
      [VALUE_TYPE.i64, 1, OP.I64_CONST, 0, OP.END],
      [VALUE_TYPE.i32, 1, OP.I32_CONST, 0, OP.END],
    ];
  }

  /**
   * Returns code that loads the fuel from the control memory at an entry: at most one slice into `fuel`, the rest into
   * the reserve.
   */
  load(fuel: number): number[] {
    return code(
      readF64(CONTROL.FUEL),
      OP.I64_TRUNC_SAT_F64_S,
      tee(fuel),
      i64(-FUEL_SLICE),
      OP.I64_AND,
      this.setReserve,
      get(fuel),
      i64(FUEL_SLICE - 1),
      OP.I64_AND,
      set(fuel),
      i32(STOP.NONE),
      [OP.GLOBAL_SET],
      unsigned(this.stop),
    );
  }

  /** Returns code that stores the fuel in the control memory. */
  store(fuel: number): number[] {
    return writeF64(CONTROL.FUEL, code(get(fuel), this.getReserve, OP.I64_ADD, OP.F64_CONVERT_I64_S));
  }

  /**
   * Returns code for the value of `fuel` from the control memory, after the host may have charged; the reserve stays.
   */
  reload(): number[] {
    return code(readF64(CONTROL.FUEL), OP.I64_TRUNC_SAT_F64_S, this.getReserve, OP.I64_SUB);
  }
}

export interface FuelFunctions {
  readonly globals: FuelGlobals;
  /** (fuel) -> fuel: takes the next slice when one is used up, or stops. */
  readonly refill: number;
  /** (size i64, fuel) -> fuel: charges one instruction for each byte or element of a bulk operation. */
  readonly chargeSize: number;
  /** (): for the host after a fault. */
  readonly settle: number;
}

export function addFuelFunctions(
  added: AddedFunctions,
  address: AddressCode,
  globals: FuelGlobals,
  yieldIndex: number,
): FuelFunctions {
  const refill = addRefill(added, globals, yieldIndex);
  return { globals, refill, chargeSize: addChargeSize(added, address, refill), settle: addSettle(added, globals) };
}

function addRefill(added: AddedFunctions, globals: FuelGlobals, yieldIndex: number): number {
  const fuel = 0;
  const taken = 1;
  return added.add(
    [I64],
    [I64],
    [I64],
    code(
      // taken = the missing fuel, rounded up to slices
      i64(FUEL_SLICE - 1),
      get(fuel),
      OP.I64_SUB,
      i64(-FUEL_SLICE),
      OP.I64_AND,
      tee(taken),
      globals.getReserve,
      OP.I64_GT_S,
      ifThen(globals.stopBecause(STOP.OUT_OF_INSTRUCTIONS)),
      globals.getReserve,
      get(taken),
      OP.I64_SUB,
      globals.setReserve,
      // Called about once a millisecond: the host may do other work here.
      call(yieldIndex),
      get(fuel),
      get(taken),
      OP.I64_ADD,
    ),
  );
}

/** Adds `chargeSize`. A size larger than the heap costs nothing: the operation is out of bounds, and traps itself. */
function addChargeSize(added: AddedFunctions, address: AddressCode, refill: number): number {
  const size = 0;
  const fuel = 1;
  return added.add(
    [I64, I64],
    [I64],
    [],
    code(
      get(size),
      memorySize(HEAP),
      address.toI64,
      i64(Math.log2(WASM_PAGE_BYTES)),
      OP.I64_SHL,
      OP.I64_GT_U,
      ifThen(get(fuel), OP.RETURN),
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

/**
 * Adds `settle`, which sets STOP and FUEL after a fault. The register is lost, so FUEL becomes the smaller of its last
 * value and the reserve plus one slice: the same on every run, and too large by less than a slice.
 */
function addSettle(added: AddedFunctions, globals: FuelGlobals): number {
  const most = 0;
  return added.add(
    [],
    [],
    [F64],
    code(
      writeI32(CONTROL.STOP, code([OP.GLOBAL_GET], unsigned(globals.stop))),
      globals.getReserve,
      i64(FUEL_SLICE),
      OP.I64_ADD,
      OP.F64_CONVERT_I64_S,
      tee(most),
      readF64(CONTROL.FUEL),
      OP.F64_LT,
      ifThen(writeF64(CONTROL.FUEL, get(most))),
    ),
  );
}

/** Emits `fuel -= cost`. */
export function emitCharge(out: ByteWriter, fuel: number, cost: number): void {
  out.byte(OP.LOCAL_GET);
  out.unsigned(fuel);
  out.byte(OP.I64_CONST);
  out.signed(cost);
  out.byte(OP.I64_SUB);
  out.byte(OP.LOCAL_SET);
  out.unsigned(fuel);
}

/** Emits the condition of a test; an unlikely `if` follows. */
export function emitIsUsedUp(out: ByteWriter, fuel: number): void {
  out.byte(OP.LOCAL_GET);
  out.unsigned(fuel);
  out.byte(OP.I64_CONST);
  out.byte(0);
  out.byte(OP.I64_LT_S);
}

/** Emits `fuel = refill(fuel)`, a place where the host may also do other work (`svc.yield`). */
export function emitRefillCall(out: ByteWriter, fuel: number, refill: number): void {
  out.byte(OP.LOCAL_GET);
  out.unsigned(fuel);
  out.byte(OP.CALL);
  out.unsigned(refill);
  out.byte(OP.LOCAL_SET);
  out.unsigned(fuel);
}
