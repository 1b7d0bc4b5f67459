/**
 * Adapters of imports. A canister's call of `ic0.x` becomes a call of an adapter of the widened type; tables and
 * references hold the adapter, too:
 *
 *     (func $x (param $a i64 … $stack i32 $fuel i64) (result … i64)
 *       fuel − overhead of x  →  FUEL in the control memory      ;; the host sees and charges exact numbers
 *       call $ic0.x (f64.convert_i64_u $a …)                     ;; no BigInt, see wasm/ic0-signatures.ts
 *       FUEL in the control memory                               ;; the fuel that the host left
 *
 * A call that has copied only the first piece leaves the rest to the adapter, since a message cannot be suspended below
 * a function of the host:
 *
 *       if $size > BULK_PIECE_BYTES:  loop  svc.yield, if svc.room(REST) is LATER: again  end
 */
import { numberAt } from '../../kernel/index.ts';
import { type HostType, ic0Signature, OP, type ValueType, VALUE_TYPE, type WasmModule } from '../wasm/index.ts';
import { systemCallOverhead } from './metering/cost-table.ts';
import type { AddedFunctions } from './added-functions.ts';
import { brIf, call, type Code, code, f64, get, i32, i64, ifThen, loop, set } from './assembler.ts';
import { BULK_PIECE_BYTES, ROOM } from './abi/index.ts';
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

/** System calls that may copy more than a piece: to or from, an offset, a size. */
const COPYING: ReadonlySet<string> = new Set([
  'msg_arg_data_copy',
  'stable_read',
  'stable_write',
  'stable64_read',
  'stable64_write',
]);
const SIZE = 2;

/** Returns code that copies the rest, a piece at a time. */
function rest(name: string, type: ValueType | undefined, host: HostFunctions): Code {
  if (!COPYING.has(name)) return [];
  const isMuch = type === I64 ? code(i64(BULK_PIECE_BYTES), OP.I64_GT_U) : code(i32(BULK_PIECE_BYTES), OP.I32_GT_U);
  const isLater = code(i32(ROOM.REST), f64(0), call(host.room), i32(ROOM.LATER), OP.I32_EQ);
  return code(get(SIZE), isMuch, ifThen(loop(call(host.yield), isLater, brIf(0))));
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
    added.add(
      [...original.params, ...THREADED_PARAMS],
      [...original.results, ...THREADED_RESULTS],
      [],
      code(
        get(fuel),
        i64(systemCallOverhead(name)),
        OP.I64_SUB,
        set(fuel),
        globals.store(fuel),
        ...params.map(({ outward }, k) => code(get(k), outward)),
        call(importIndex),
        result?.inward ?? [],
        rest(name, original.params[SIZE], host),
        globals.reload(),
      ),
    );
    return { name, typeIndex };
  });
}
