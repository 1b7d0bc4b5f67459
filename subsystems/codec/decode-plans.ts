import { copyBytes } from './byte-writer.ts';
import type { CandidReader } from './candid-reader.ts';
import { DecodePlan } from './decode-json.ts';
import { startsWith } from './key-table.ts';
import { decodeHeader } from './type-table.ts';
import type { TypeGraph } from './types.ts';

/** Heads longer than this are not kept for the next message. */
const HEAD_BYTES_MAX = 16_384;

/** Plans for decoding messages; the last one is kept, since most messages have the head of the one before. */
export class DecodePlans {
  readonly #expected: TypeGraph | undefined;
  readonly #isLossless: boolean;
  #kept: { readonly head: Uint8Array; readonly plan: DecodePlan } | undefined;

  /** `expected`: the types that come out; undefined: those that the message itself names. */
  constructor(expected: TypeGraph | undefined, isLossless: boolean) {
    this.#expected = expected;
    this.#isLossless = isLossless;
  }

  /** The plan for a message; the reader, which has been started with it, is left behind its head. */
  of(candid: Uint8Array, reader: CandidReader): DecodePlan {
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
