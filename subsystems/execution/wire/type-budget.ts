/**
 * Bound on the different function types that this process may still show to V8.
 *
 * V8 keeps every type of every module for as long as the process lives, to compare types across modules by number, and
 * ends the process at 2,000,000. Type sections are cheap to make up, so a user who may install code could reach that
 * with some hundred modules. Counted are the types of all modules that were given to V8, each once: the same module
 * compiled again, or another from the same compiler, brings few or no new ones.
 *
 * Main thread for the count, module worker for the fingerprints; plain numbers.
 */
import type { FunctionType } from '../../wasm/index.ts';

/** An instrumented module has each of its types twice: unchanged and with fuel. */
const TYPES_OF_A_TYPE = 2;
/** Bound of the decoder, with room for types that the instrumenter adds. */
const MODULE_TYPES_MAX = 5_100 * TYPES_OF_A_TYPE;
const TYPES_MAX = 1_500_000;

export class TypeBudget {
  readonly #typesMax: number;
  readonly #seen = new Set<number>();
  /** Most types of modules whose check ended without telling what it had shown to V8. */
  #unknown = 0;

  constructor(typesMax: number = TYPES_MAX) {
    this.#typesMax = typesMax;
  }

  /** An upper bound of V8's own count. */
  get used(): number {
    return this.#seen.size * TYPES_OF_A_TYPE + this.#unknown;
  }

  /** True if one more module fits, whatever it contains. */
  get hasRoom(): boolean {
    return this.used + MODULE_TYPES_MAX <= this.#typesMax;
  }

  add(fingerprints: Float64Array): void {
    for (const fingerprint of fingerprints) this.#seen.add(fingerprint);
  }

  addUnknown(): void {
    this.#unknown += MODULE_TYPES_MAX;
  }
}

/** Returns a number of 53 bits for each type: the same number for the same type. */
export function fingerprintsOf(types: readonly FunctionType[]): Float64Array {
  return Float64Array.from(types, fingerprintOf);
}

const FNV_PRIME = 16_777_619;
const LOW_BITS = 2 ** 21;

function fingerprintOf({ params, results }: FunctionType): number {
  let high = 0x811c9dc5;
  let low = 0x9dc5811c;
  const mix = (byte: number): void => {
    high = Math.imul(high ^ byte, FNV_PRIME);
    low = Math.imul(low ^ (byte + (high >>> 24)), FNV_PRIME);
  };
  for (const type of params) mix(type);
  mix(0);
  for (const type of results) mix(type);
  return (high >>> 0) * LOW_BITS + (low >>> 11);
}
