import { ByteWriter, copyBytes } from './byte-writer.ts';
import { CandidReader } from './candid-reader.ts';
import { DecodePlan } from './decode-json.ts';
import { inferArguments } from './infer-json.ts';
import { JsonReader } from './json-reader.ts';
import { startsWith } from './key-table.ts';
import { CompiledTuple } from './tuple-codec.ts';
import { decodeHeader } from './type-table.ts';

const reader = new JsonReader();
const candidReader = new CandidReader();
const output = new ByteWriter();

/** Heads longer than this are not kept for the next message. */
const KEPT_HEAD_BYTES_MAX = 16_384;

/** The lossless encoding without an interface: types come from the markers, or from the message itself. */
export class UntypedTuple {
  #kept: { readonly head: Uint8Array; readonly plan: DecodePlan } | undefined;

  encode(json: Uint8Array): Uint8Array {
    try {
      reader.start(json, 'args');
      return new CompiledTuple(inferArguments(reader), 'args').encode(json, { lossless: true });
    } finally {
      reader.release();
    }
  }

  decode(candid: Uint8Array): Uint8Array {
    try {
      candidReader.start(candid, 'results');
      output.start(candid.length);
      this.#planFor(candid).run(candidReader, output);
      return output.finish();
    } finally {
      candidReader.release();
    }
  }

  #planFor(candid: Uint8Array): DecodePlan {
    const kept = this.#kept;
    if (kept !== undefined && candid.length >= kept.head.length && startsWith(candid, 0, kept.head)) {
      candidReader.position = kept.head.length;
      return kept.plan;
    }
    const graph = decodeHeader(candidReader);
    const plan = new DecodePlan(graph, graph, true);
    if (candidReader.position <= KEPT_HEAD_BYTES_MAX) {
      const head = new Uint8Array(candidReader.position);
      copyBytes(candid, 0, head.length, head, 0);
      this.#kept = { head, plan };
    }
    return plan;
  }
}
