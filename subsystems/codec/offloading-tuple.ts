import type { CodecDirection, CodecTarget } from './codec-job.ts';
import type { CodecPool } from './codec-pool.ts';
import type { EncodingOptions, TupleCodec } from './index.ts';
import { LARGE_BODY_BYTES } from './faults.ts';
import type { TypeGraph } from './types.ts';

/** A tuple's conversions on the caller's own thread. */
export interface SynchronousTuple {
  /** Undefined where no interface says the types. */
  readonly graph?: TypeGraph;
  encode(json: Uint8Array, options: EncodingOptions): Uint8Array;
  decode(candid: Uint8Array, options: EncodingOptions): Uint8Array;
}

/** Adds to a tuple's conversions those that hand large bodies to the worker. */
export class OffloadingTuple implements TupleCodec {
  readonly #tuple: SynchronousTuple;
  readonly #target: CodecTarget;
  readonly #pool: CodecPool;

  constructor(tuple: SynchronousTuple, target: CodecTarget, pool: CodecPool) {
    this.#tuple = tuple;
    this.#target = target;
    this.#pool = pool;
  }

  get graph(): TypeGraph | undefined {
    return this.#tuple.graph;
  }

  encode(json: Uint8Array, options: EncodingOptions): Uint8Array {
    return this.#tuple.encode(json, options);
  }

  decode(candid: Uint8Array, options: EncodingOptions): Uint8Array {
    return this.#tuple.decode(candid, options);
  }

  /** Converts in the worker thread. */
  offload(direction: CodecDirection, bytes: Uint8Array, options: EncodingOptions): Promise<Uint8Array> {
    return this.#pool.run({ target: this.#target, direction, isLossless: options.lossless, bytes });
  }
}

/** As `codec.encode`: at once for small input, in a worker thread for input above `LARGE_BODY_BYTES`. */
export function encodeAnySize(
  codec: TupleCodec,
  json: Uint8Array,
  options: EncodingOptions,
): Uint8Array | Promise<Uint8Array> {
  const isLarge = json.length > LARGE_BODY_BYTES && codec instanceof OffloadingTuple;
  return isLarge ? codec.offload('encode', json, options) : codec.encode(json, options);
}

/** As `codec.decode`: at once for small input, in a worker thread for input above `LARGE_BODY_BYTES`. */
export function decodeAnySize(
  codec: TupleCodec,
  candid: Uint8Array,
  options: EncodingOptions,
): Uint8Array | Promise<Uint8Array> {
  const isLarge = candid.length > LARGE_BODY_BYTES && codec instanceof OffloadingTuple;
  return isLarge ? codec.offload('decode', candid, options) : codec.decode(candid, options);
}
