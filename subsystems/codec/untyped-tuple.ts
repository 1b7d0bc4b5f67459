import { ByteWriter } from './byte-writer.ts';
import { CandidReader } from './candid-reader.ts';
import { DecodePlans } from './decode-plans.ts';
import { inferArguments } from './infer-json.ts';
import { JsonReader } from './json-reader.ts';
import { CompiledTuple } from './tuple-codec.ts';

const reader = new JsonReader();
const candidReader = new CandidReader();
const output = new ByteWriter();

/** The lossless encoding without an interface: types come from the markers, or from the message itself. */
export class UntypedTuple {
  readonly #plans = new DecodePlans(undefined, true);

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
      this.#plans.run(candid, candidReader, output);
      return output.finish();
    } finally {
      candidReader.release();
    }
  }
}
