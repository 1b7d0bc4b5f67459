import type { IDL } from '@dfinity/candid';
import { ServerError } from '../../kernel/index.ts';
import { CodecPool } from './codec-pool.ts';
import { parseDid } from './did-parser.ts';
import { encodeValueText } from './encode-value-text.ts';
import type { CandidInterface, Codec, InterfaceBounds, MethodInterface, TupleCodec, WebsiteCodec } from './index.ts';
import { OffloadingTuple } from './offloading-tuple.ts';
import { previewMessage } from './preview.ts';
import { CompiledTuple, createEncoders } from './tuple-codec.ts';
import { GraphBuilder } from './types.ts';
import { UntypedTuple } from './untyped-tuple.ts';
import { WebsiteRecords } from './website-records.ts';

/** The server's codec. `pool` converts large bodies; whoever made it closes it, and one that nobody uses has no thread. */
export function createCodec(pool: CodecPool = new CodecPool()): Codec {
  return new CandidCodec(pool);
}

export class CandidCodec implements Codec {
  readonly #pool: CodecPool;
  readonly untyped: TupleCodec;
  readonly websites: WebsiteCodec = new WebsiteRecords();

  constructor(pool: CodecPool) {
    this.#pool = pool;
    this.untyped = new OffloadingTuple(new UntypedTuple(), { kind: 'untyped' }, this.#pool);
  }

  parseInterface(did: string, candidArgs?: string, bounds: InterfaceBounds = {}): CandidInterface {
    const parsed = parseDid(did, candidArgs, { partsMax: bounds.partsMax });
    // One graph and one set of closures for all methods: types that they share are compiled once.
    const graph = new GraphBuilder();
    const encoders = createEncoders();
    const tupleOf = (types: readonly IDL.Type[], method: string | undefined, part: 'args' | 'results'): TupleCodec =>
      new OffloadingTuple(
        new CompiledTuple(graph.add(types), part, encoders),
        { kind: 'typed', did, candidArgs, method, part },
        this.#pool,
      );
    const methods = new Map<string, MethodInterface>();
    for (const { name, annotation, parameters, results } of parsed.methods) {
      methods.set(name, {
        name,
        kind: annotation ?? 'update',
        args: tupleOf(parameters, name, 'args'),
        results: tupleOf(results, name, 'results'),
      });
    }
    const { initParameters } = parsed;
    const initArgs = initParameters === undefined ? undefined : tupleOf(initParameters, undefined, 'args');
    return { text: did, methods, initArgs };
  }

  encodeText(text: string): Uint8Array {
    return encodeValueText(text, undefined);
  }

  previewText(candid: Uint8Array, charactersMax: number, isCut = false): string | undefined {
    try {
      return previewMessage(candid, charactersMax, isCut);
    } catch (error) {
      if (error instanceof ServerError) return undefined;
      throw error;
    }
  }
}
