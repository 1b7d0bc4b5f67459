/**
 * Adapters of imports. A canister's call of `ic0.x` becomes a call of an adapter of the widened type; tables and
 * references hold the adapter, too:
 *
 *     (func $x (param $a i64 … $stack i32 $fuel i64) (result … i64)
 *       fuel − overhead of x  →  FUEL in the control memory      ;; the host sees and charges exact numbers
 *       call $ic0.x (f64.convert_i64_u $a …)                     ;; no BigInt, see wasm/ic0-signatures.ts
 *       FUEL in the control memory                               ;; the fuel that the host left
 *
 * A call that has copied only a piece, or has no room yet, leaves the rest to the adapter, since a message cannot be
 * suspended below a function of the host:
 *
 *       if REST in the control memory:  loop  svc.yield, if svc.room(REST) is LATER: again  end
 *
 * A growth of stable memory that has no answer yet is called again: loop  call, if GROW_AGAIN: svc.yield, again  end
 */
import { numberAt } from '../../kernel/index.ts';
import { type HostType, ic0Signature, OP, type ValueType, VALUE_TYPE, type WasmModule } from '../wasm/index.ts';
import { systemCallOverhead } from './metering/cost-table.ts';
import type { AddedFunctions } from './added-functions.ts';
import { br, brIf, call, type Code, code, f64, get, i32, i64, ifThen, loop, readI32, set } from './assembler.ts';
import { CONTROL, GROW_AGAIN, ROOM } from './abi/index.ts';
import type { HostFunctions } from './journal/growth.ts';
import type { FuelGlobals } from './metering/fuel.ts';
import { THREADED_PARAMS, THREADED_RESULTS } from './function-types.ts';

const { i32: I32, i64: I64, f64: F64 } = VALUE_TYPE;

interface Crossing {
  /** Type in the instrumented module's import. */
  readonly type: ValueType;
  readonly outward: Code;
  readonly inward: Code;
}

function crossing(hostType: HostType, pointerWidth: 32 | 64): Crossing {
  const is64 = pointerWidth === 64;
  switch (hostType) {
    case 'I':
      return is64
        ? { type: F64, outward: [OP.F64_CONVERT_I64_U], inward: code(OP.I64_TRUNC_SAT_F64_U) }
        : { type: F64, outward: [OP.F64_CONVERT_I32_U], inward: code(OP.I32_TRUNC_SAT_F64_U) };
    case 'u64':
      return { type: F64, outward: [OP.F64_CONVERT_I64_U], inward: code(OP.I64_TRUNC_SAT_F64_S) };
    case 'bits':
      return { type: is64 ? I64 : I32, outward: [], inward: [] };
    case 'i64':
      return { type: I64, outward: [], inward: [] };
    case 'i32':
      return { type: I32, outward: [], inward: [] };
  }
}

/** Form of an import in the instrumented module. */
export interface AdaptedImport {
  readonly name: string;
  readonly typeIndex: number;
}

/** System calls that may leave work. */
const COPYING: ReadonlySet<string> = new Set([
  'msg_arg_data_copy',
  'stable_read',
  'stable_write',
  'stable64_read',
  'stable64_write',
]);

/** Returns code that does the rest, a piece at a time. */
function rest(name: string, host: HostFunctions): Code {
  if (!COPYING.has(name)) return [];
  const isLater = code(i32(ROOM.REST), f64(0), call(host.room), i32(ROOM.LATER), OP.I32_EQ);
  return code(readI32(CONTROL.REST), ifThen(loop(call(host.yield), isLater, brIf(0))));
}

/** System calls that may answer GROW_AGAIN, and code that compares the answer in local `result`. */
const GROWING: ReadonlyMap<string, (result: number) => Code> = new Map([
  ['stable_grow', (result) => code(get(result), i32(GROW_AGAIN), OP.I32_EQ)],
  ['stable64_grow', (result) => code(get(result), i64(GROW_AGAIN), OP.I64_EQ)],
]);

/** Returns code that makes the call of a growth until it has an answer, which is left in local `result`. */
function untilAnswered(name: string, calling: Code, result: number, host: HostFunctions): Code {
  const isAgain = GROWING.get(name);
  if (isAgain === undefined) return calling;
  return code(loop(calling, set(result), isAgain(result), ifThen(call(host.yield), br(1))), get(result));
}

/** Adds an adapter for each import, in order: the adapter of import `k` is the `k`th function added. */
export function addSystemCalls(
  added: AddedFunctions,
  module: WasmModule,
  globals: FuelGlobals,
  host: HostFunctions,
): AdaptedImport[] {
  return module.imports.map(({ name }, importIndex) => {
    const signature = ic0Signature(name);
    if (signature === undefined) throw new Error(`ic0.${name} passed validation but has no signature`);
    const params = signature.params.map((type) => crossing(type, module.pointerWidth));
    const result = signature.result === undefined ? undefined : crossing(signature.result, module.pointerWidth);
    const typeIndex = added.types.index(
      params.map(({ type }) => type),
      result === undefined ? [] : [result.type],
    );
    const original = module.types[numberAt(module.functionTypes, importIndex, 'type of function')];
    if (original === undefined) throw new Error(`ic0.${name} has no type`);
    const fuel = original.params.length + 1;
    const answer = original.params.length + THREADED_PARAMS.length;
    const outward = params.map((param, k) => code(get(k), param.outward));
    const calling = code(...outward, call(importIndex), result?.inward ?? []);
    added.add(
      [...original.params, ...THREADED_PARAMS],
      [...original.results, ...THREADED_RESULTS],
      GROWING.has(name) ? original.results : [],
      code(
        get(fuel),
        i64(systemCallOverhead(name)),
        OP.I64_SUB,
        set(fuel),
        globals.store(fuel),
        untilAnswered(name, calling, answer, host),
        rest(name, host),
        globals.reload(),
      ),
    );
    return { name, typeIndex };
  });
}
