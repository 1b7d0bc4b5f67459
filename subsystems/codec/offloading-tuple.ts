import type { CodecTarget } from './codec-job.ts';
import type { CodecPool } from './codec-pool.ts';
import { candidTextOf, encodeValueText } from './encode-value-text.ts';
import { LARGE_BODY_BYTES } from './faults.ts';
import type { EncodingOptions, TupleCodec } from './index.ts';
import type { TypeGraph } from './types.ts';
import { WorkerTuple } from './worker-tuple.ts';

/** A tuple's conversions on the caller's own thread. */
interface SynchronousTuple {
  /** Undefined if there is no interface that states the types. */
  readonly graph?: TypeGraph;
  encode(json: Uint8Array, options: EncodingOptions): Uint8Array;
  decode(candid: Uint8Array, options: EncodingOptions): Uint8Array;
}

/** A tuple's conversions; bodies above LARGE_BODY_BYTES can go to the worker thread. */
export class OffloadingTuple extends WorkerTuple implements TupleCodec {
  readonly #tuple: SynchronousTuple;

  constructor(tuple: SynchronousTuple, target: CodecTarget, pool: CodecPool) {
    super(target, pool);
    this.#tuple = tuple;
  }

  encode(json: Uint8Array, options: EncodingOptions): Uint8Array {
    return this.#tuple.encode(json, options);
  }

  decode(candid: Uint8Array, options: EncodingOptions): Uint8Array {
    return this.#tuple.decode(candid, options);
  }

  override encodeAnySize(json: Uint8Array, options: EncodingOptions): Uint8Array | Promise<Uint8Array> {
    return json.length > LARGE_BODY_BYTES ? super.encodeAnySize(json, options) : this.#tuple.encode(json, options);
  }

  override decodeAnySize(candid: Uint8Array, options: EncodingOptions): Uint8Array | Promise<Uint8Array> {
    return candid.length > LARGE_BODY_BYTES
      ? super.decodeAnySize(candid, options)
      : this.#tuple.decode(candid, options);
  }

  encodeText(text: string, charactersMax?: number): Uint8Array {
    return encodeValueText(text, this.#tuple.graph, charactersMax);
  }

  override encodeTextAnySize(utf8: Uint8Array): Uint8Array | Promise<Uint8Array> {
    return utf8.length > LARGE_BODY_BYTES ? super.encodeTextAnySize(utf8) : this.encodeText(candidTextOf(utf8));
  }
}
