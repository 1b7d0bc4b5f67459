import { type FunctionType, type ValueType, VALUE_TYPE, type WasmModule } from '../wasm/index.ts';
import { unsigned } from './assembler.ts';

/** Parameters added to every function, after its own: bytes of stack left, fuel. Fuel is also the last result. */
export const THREADED_PARAMS: readonly ValueType[] = [VALUE_TYPE.i32, VALUE_TYPE.i64];
export const THREADED_RESULTS: readonly ValueType[] = [VALUE_TYPE.i64];

/**
 * The type section of the instrumented module: the module's own types at their old indices (blocks use them), then a
 * widened form of each, then the types of our own functions. All types are widened by the same suffix, so two types are
 * equal after widening if and only if they were before: `call_indirect` checks the same as before.
 */
export class FunctionTypes {
  readonly #own: readonly FunctionType[];
  readonly #added: FunctionType[] = [];
  readonly #indices = new Map<string, number>();

  constructor(module: WasmModule) {
    this.#own = module.types;
    for (const type of module.types) this.#added.push(widen(type));
  }

  /** Returns the index of the widened form of the module's type `index`. */
  widened(index: number): number {
    return this.#own.length + index;
  }

  /** Returns the index of a type, and adds a new one. */
  index(params: readonly ValueType[], results: readonly ValueType[]): number {
    const key = `${params.join()}>${results.join()}`;
    const known = this.#indices.get(key);
    if (known !== undefined) return known;
    const index = this.#own.length + this.#added.length;
    this.#added.push({ params, results });
    this.#indices.set(key, index);
    return index;
  }

  /** Returns the immediate of a block that leaves `results`. */
  blockType(results: readonly ValueType[]): number[] {
    const [only] = results;
    if (only === undefined) return [0x40];
    return results.length === 1 ? [only] : signedIndex(this.index([], results));
  }

  /** Returns all types as items of the type section. */
  encode(): number[][] {
    return [...this.#own, ...this.#added].map(({ params, results }) => [
      0x60,
      ...unsigned(params.length),
      ...params,
      ...unsigned(results.length),
      ...results,
    ]);
  }
}

function widen({ params, results }: FunctionType): FunctionType {
  return { params: [...params, ...THREADED_PARAMS], results: [...results, ...THREADED_RESULTS] };
}

/** Encodes a type index as a block type, which is a signed number: its last byte must not look negative. */
function signedIndex(index: number): number[] {
  const bytes = unsigned(index);
  const last = bytes.at(-1) ?? 0;
  return last < 0x40 ? bytes : [...bytes.slice(0, -1), last | 0x80, 0];
}
