import { assert } from '../../kernel/index.ts';
import { CALLBACK_BYTES, type Callbacks } from './step.ts';

/**
 * The functions and environments that a call leaves for its response, as CALLBACK_BYTES bytes. The scheduler keeps them
 * and reads only the slot:
 *
 *   0   f64 reply function   · 8  u64 its environment
 *   16  f64 reject function  · 24 u64 its environment
 *   32  f64 cleanup function · 40 u64 its environment
 *   48  u32 1 when there is a cleanup · 52 u32 slot in the canister's count of open calls, 0: not counted
 *
 * Functions are f64 because indices cross to and from wasm in this form: an index beyond every table stays one. An
 * environment comes back with exactly its bits, even if an upgrade has changed the pointer width in between.
 *
 * `?? 0` in this file: used for every call, at constant places of CALLBACK_BYTES bytes.
 */
export class CallbackBuffer {
  readonly #bytes = new Uint8Array(CALLBACK_BYTES);
  readonly #floats = new Float64Array(this.#bytes.buffer);
  readonly #words = new Int32Array(this.#bytes.buffer);
  readonly #longs = new BigInt64Array(this.#bytes.buffer);

  set(which: Which, fun: number, env: number | bigint): void {
    this.#floats[which] = fun;
    if (typeof env === 'bigint') {
      this.#longs[which + 1] = env;
    } else {
      this.#words[2 * (which + 1)] = env;
      this.#words[2 * (which + 1) + 1] = 0;
    }
    if (which === CLEANUP) this.#words[HAS_CLEANUP] = 1;
  }

  /** Resets the buffer for a new call: no cleanup, not counted. Equal calls have equal bytes. */
  clear(): void {
    this.#floats[CLEANUP] = 0;
    this.#floats[CLEANUP + 1] = 0;
    this.#words[HAS_CLEANUP] = 0;
    this.#words[SLOT] = 0;
  }

  fun(which: Which): number {
    return this.#floats[which] ?? 0;
  }

  env(which: Which, pointerWidth: 32 | 64): number | bigint {
    return pointerWidth === 64 ? (this.#longs[which + 1] ?? 0n) : (this.#words[2 * (which + 1)] ?? 0);
  }

  get hasCleanup(): boolean {
    return this.#words[HAS_CLEANUP] === 1;
  }

  get slot(): number {
    return this.#words[SLOT] ?? 0;
  }

  set slot(slot: number) {
    this.#words[SLOT] = slot;
  }

  /** Returns a copy to send away. */
  write(): Callbacks {
    return this.#bytes.slice();
  }

  /** Reads bytes from `write`. Bytes of another length are a bug of the host. */
  read(callbacks: Callbacks): void {
    if (callbacks.length !== CALLBACK_BYTES)
      throw new RangeError(`callbacks take ${CALLBACK_BYTES} bytes, and these have ${callbacks.length}`);
    for (let k = 0; k < CALLBACK_BYTES; k++) this.#bytes[k] = callbacks[k] ?? 0;
  }
}

/** Places of the functions, in units of 8 bytes. */
export const REPLY = 0;
export const REJECT = 2;
export const CLEANUP = 4;
export type Which = typeof REPLY | typeof REJECT | typeof CLEANUP;

const HAS_CLEANUP = 12;
const SLOT = 13;

/** Returns the slot in which the call is counted as open. */
export function slotOf(callbacks: Callbacks): number {
  assert(callbacks.length === CALLBACK_BYTES, 'callbacks have another length');
  const at = SLOT * 4;
  return (
    (callbacks[at] ?? 0) |
    ((callbacks[at + 1] ?? 0) << 8) |
    ((callbacks[at + 2] ?? 0) << 16) |
    ((callbacks[at + 3] ?? 0) << 24)
  );
}
