import type { CodecDirection, CodecTarget } from './codec-job.ts';
import type { CodecPool } from './codec-pool.ts';
import type { AnySizeTuple, EncodingOptions, MethodInterface, MethodKind } from './index.ts';

/** A tuple's conversions, all in the worker thread. */
export class WorkerTuple implements AnySizeTuple {
  readonly #target: CodecTarget;
  readonly #pool: CodecPool;

  constructor(target: CodecTarget, pool: CodecPool) {
    this.#target = target;
    this.#pool = pool;
  }

  encodeAnySize(json: Uint8Array, options: EncodingOptions): Uint8Array | Promise<Uint8Array> {
    return this.#offload('encode', json, options);
  }

  decodeAnySize(candid: Uint8Array, options: EncodingOptions): Uint8Array | Promise<Uint8Array> {
    return this.#offload('decode', candid, options);
  }

  encodeTextAnySize(utf8: Uint8Array): Uint8Array | Promise<Uint8Array> {
    return this.#offload('encodeText', utf8, { lossless: false });
  }

  #offload(direction: CodecDirection, bytes: Uint8Array, options: EncodingOptions): Promise<Uint8Array> {
    return this.#pool.run({ target: this.#target, direction, isLossless: options.lossless, bytes });
  }
}

/**
 * A method of an interface whose types only the worker knows. There may be very many methods, so tuples are made when
 * they are used.
 */
export class WorkerMethod implements MethodInterface {
  readonly name: string;
  readonly kind: MethodKind;
  readonly #tupleOf: (method: string, part: 'args' | 'results') => AnySizeTuple;

  constructor(name: string, kind: MethodKind, tupleOf: (method: string, part: 'args' | 'results') => AnySizeTuple) {
    this.name = name;
    this.kind = kind;
    this.#tupleOf = tupleOf;
  }

  get args(): AnySizeTuple {
    return this.#tupleOf(this.name, 'args');
  }

  get results(): AnySizeTuple {
    return this.#tupleOf(this.name, 'results');
  }
}
