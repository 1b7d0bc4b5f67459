import type { CodecDirection, CodecTarget } from './codec-job.ts';
import type { CodecPool } from './codec-pool.ts';
import { candidTextOf, encodeValueText } from './encode-value-text.ts';
import { LARGE_BODY_BYTES } from './faults.ts';
import type { EncodingOptions, TupleCodec } from './index.ts';
import type { TypeGraph } from './types.ts';

/** A tuple's conversions on the caller's own thread. */
export interface SynchronousTuple {
  /** Undefined where no interface says the types. */
  readonly graph?: TypeGraph;
  encode(json: Uint8Array, options: EncodingOptions): Uint8Array;
  decode(candid: Uint8Array, options: EncodingOptions): Uint8Array;
}

/** A tuple's conversions; bodies above LARGE_BODY_BYTES can go to the worker thread. */
export class OffloadingTuple implements TupleCodec {
  readonly #tuple: SynchronousTuple;
  readonly #target: CodecTarget;
  readonly #pool: CodecPool;

  constructor(tuple: SynchronousTuple, target: CodecTarget, pool: CodecPool) {
    this.#tuple = tuple;
    this.#target = target;
    this.#pool = pool;
  }

  encode(json: Uint8Array, options: EncodingOptions): Uint8Array {
    return this.#tuple.encode(json, options);
  }

  decode(candid: Uint8Array, options: EncodingOptions): Uint8Array {
    return this.#tuple.decode(candid, options);
  }

  encodeAnySize(json: Uint8Array, options: EncodingOptions): Uint8Array | Promise<Uint8Array> {
    return json.length > LARGE_BODY_BYTES ? this.#offload('encode', json, options) : this.#tuple.encode(json, options);
  }

  decodeAnySize(candid: Uint8Array, options: EncodingOptions): Uint8Array | Promise<Uint8Array> {
    return candid.length > LARGE_BODY_BYTES
      ? this.#offload('decode', candid, options)
      : this.#tuple.decode(candid, options);
  }

  encodeText(text: string, charactersMax?: number): Uint8Array {
    return encodeValueText(text, this.#tuple.graph, charactersMax);
  }

  encodeTextAnySize(utf8: Uint8Array): Uint8Array | Promise<Uint8Array> {
    return utf8.length > LARGE_BODY_BYTES
      ? this.#offload('encodeText', utf8, { lossless: false })
      : this.encodeText(candidTextOf(utf8));
  }

  #offload(direction: CodecDirection, bytes: Uint8Array, options: EncodingOptions): Promise<Uint8Array> {
    return this.#pool.run({ target: this.#target, direction, isLossless: options.lossless, bytes });
  }
}
