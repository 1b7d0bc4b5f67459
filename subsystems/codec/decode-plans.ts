import { type ByteWriter, copyBytes } from './byte-writer.ts';
import type { CandidReader } from './candid-reader.ts';
import { DecodePlan } from './decode-json.ts';
import { startsWith } from './key-table.ts';
import { decodeHeader } from './type-table.ts';
import type { TypeGraph } from './types.ts';

/** Heads longer than this are not kept for the next message. */
const HEAD_BYTES_MAX = 16_384;
/** Plans with more fields are not kept either: more than in an interface that is converted on the main thread. */
const KEPT_FIELDS_MAX = 10_000;

/** Plans for decoding messages. The last one is kept, since most messages have the same head as the one before. */
export class DecodePlans {
  readonly #expected: TypeGraph | undefined;
  readonly #isLossless: boolean;
  #kept: { readonly head: Uint8Array; readonly plan: DecodePlan } | undefined;

  /** `expected` are the types of the result; undefined: the types that the message itself names. */
  constructor(expected: TypeGraph | undefined, isLossless: boolean) {
    this.#expected = expected;
    this.#isLossless = isLossless;
  }

  /** Decodes a message that the reader has been started with. */
  run(candid: Uint8Array, reader: CandidReader, writer: ByteWriter): void {
    const plan = this.#of(candid, reader);
    try {
      plan.run(reader, writer);
    } finally {
      // The actor may choose types whose plan takes megabytes, and different ones for each method.
      if (plan.compiledFields > KEPT_FIELDS_MAX) this.#kept = undefined;
    }
  }

  /** Returns the plan for a message; the reader is then after the message's head. */
  #of(candid: Uint8Array, reader: CandidReader): DecodePlan {
    const kept = this.#kept;
    if (kept !== undefined && candid.length >= kept.head.length && startsWith(candid, 0, kept.head)) {
      reader.position = kept.head.length;
      return kept.plan;
    }
    const graph = decodeHeader(reader);
    const plan = new DecodePlan(graph, this.#expected ?? graph, this.#isLossless);
    const { position } = reader;
    if (position <= HEAD_BYTES_MAX) {
      const head = new Uint8Array(position);
      copyBytes(candid, 0, position, head, 0);
      this.#kept = { head, plan };
    }
    return plan;
  }
}
