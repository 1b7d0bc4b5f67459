/**
 * Adapters of imports. A canister's call of `ic0.x` becomes a call of an adapter of the widened type, which is also what
 * a table or a reference holds:
 *
 *     (func $x (param $a i64 … $stack i32 $fuel i64) (result … i64)
 *       fuel − overhead of x  →  FUEL in the control memory      ;; the host sees and charges exact numbers
 *       call $ic0.x (f64.convert_i64_u $a …)                     ;; no BigInt, see wasm/ic0-signatures.ts
 *       FUEL in the control memory                               ;; what the host left
 */
import { numberAt } from '../../kernel/index.ts';
import { type HostType, ic0Signature, OP, type ValueType, VALUE_TYPE, type WasmModule } from '../wasm/index.ts';
import { systemCallOverhead } from './metering/cost-table.ts';
import type { AddedFunctions } from './added-functions.ts';
import { call, type Code, code, get, i64, set } from './assembler.ts';
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

/** What an import is in the instrumented module. */
export interface AdaptedImport {
  readonly name: string;
  readonly typeIndex: number;
}

/** Adds an adapter for each import, in order, so that the adapter of import `k` is the `k`th function added. */
export function addSystemCalls(added: AddedFunctions, module: WasmModule, globals: FuelGlobals): AdaptedImport[] {
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
        globals.reload(),
      ),
    );
    return { name, typeIndex };
  });
}
