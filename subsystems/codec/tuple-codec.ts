import { NO_BYTES } from '../bytes/index.ts';
import { ByteWriter } from './byte-writer.ts';
import { CandidReader } from './candid-reader.ts';
import { DecodePlans } from './decode-plans.ts';
import { defaultEncoder, sequenceEncoder, type EncodeSlot } from './encode-json.ts';
import { losslessEncoder } from './encode-lossless.ts';
import type { Encode } from './encode-values.ts';
import type { EncodingOptions } from './index.ts';
import { JsonReader } from './json-reader.ts';
import { encodeHeader } from './type-table.ts';
import { isNullable, Op, type CandidType, type TypeGraph } from './types.ts';

// A conversion is synchronous and never starts another one, so all of them share one reader and one writer.
const jsonReader = new JsonReader();
const candidReader = new CandidReader();
const output = new ByteWriter();

/** An `opt` without a value; `null` and `reserved` take no bytes. */
const NO_VALUE = new Uint8Array(1);

/** The compiled closures of a graph's types, shared by all tuples of an interface. */
interface Encoders {
  readonly default: (type: CandidType) => EncodeSlot;
  readonly lossless: (type: CandidType) => EncodeSlot;
}

export function createEncoders(): Encoders {
  return { default: defaultEncoder(), lossless: losslessEncoder() };
}

/** Both directions in one of the two encodings, for values of the types `graph.roots`. */
class EncodingPair {
  readonly #graph: TypeGraph;
  readonly #root: string;
  readonly #slotOf: (type: CandidType) => EncodeSlot;
  #encode: Encode | undefined;
  #head: Uint8Array | undefined;
  readonly #plans: DecodePlans;

  constructor(graph: TypeGraph, isLossless: boolean, root: string, encoders: Encoders) {
    this.#graph = graph;
    this.#slotOf = isLossless ? encoders.lossless : encoders.default;
    this.#plans = new DecodePlans(graph, isLossless);
    this.#root = root;
  }

  encode(json: Uint8Array): Uint8Array {
    this.#head ??= encodeHeader(this.#graph);
    this.#encode ??= this.#compileEncode();
    try {
      jsonReader.start(json, this.#root);
      output.start(json.length);
      output.writeAll(this.#head);
      this.#encode(jsonReader, output);
      jsonReader.expectEnd();
      return output.finish();
    } finally {
      jsonReader.release();
    }
  }

  #compileEncode(): Encode {
    const { roots } = this.#graph;
    const slots = roots.map((type) => this.#slotOf(type));
    if (this.#root !== 'args') return sequenceEncoder(slots, 'value');
    // As in Candid, where a method that has got a further `opt` parameter takes the arguments of its older clients.
    const required = roots.findLastIndex((type) => !isNullable(type)) + 1;
    const absent = roots.slice(required).map(({ op }) => (op === Op.OPT ? NO_VALUE : NO_BYTES));
    return sequenceEncoder(slots, 'argument', absent);
  }

  decode(candid: Uint8Array): Uint8Array {
    try {
      candidReader.start(candid, this.#root);
      output.start(candid.length);
      this.#plans.run(candid, candidReader, output);
      return output.finish();
    } finally {
      candidReader.release();
    }
  }
}

/** Converts values of fixed types between JSON and Candid; compiled on first use. */
export class CompiledTuple {
  readonly graph: TypeGraph;
  readonly #root: string;
  readonly #encoders: Encoders;
  #default: EncodingPair | undefined;
  #lossless: EncodingPair | undefined;

  /** `root` is the name of the values in errors: `args` or `results`. */
  constructor(graph: TypeGraph, root: string, encoders: Encoders = createEncoders()) {
    this.graph = graph;
    this.#root = root;
    this.#encoders = encoders;
  }

  encode(json: Uint8Array, options: EncodingOptions): Uint8Array {
    return this.#pair(options).encode(json);
  }

  decode(candid: Uint8Array, options: EncodingOptions): Uint8Array {
    return this.#pair(options).decode(candid);
  }

  #pair({ lossless }: EncodingOptions): EncodingPair {
    if (lossless) return (this.#lossless ??= new EncodingPair(this.graph, true, this.#root, this.#encoders));
    return (this.#default ??= new EncodingPair(this.graph, false, this.#root, this.#encoders));
  }
}
