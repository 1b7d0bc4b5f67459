import { at, ServerError } from '../../kernel/index.ts';
import { CodecPool } from './codec-pool.ts';
import { parseDid } from './did-parser.ts';
import { encodeValueText } from './encode-value-text.ts';
import { type FlatInterface, restoreGraph } from './flat-interface.ts';
import type {
  AnySizeTuple,
  CandidInterface,
  Codec,
  InterfaceBounds,
  MethodInterface,
  TupleCodec,
  WebsiteCodec,
} from './index.ts';
import { OffloadingTuple } from './offloading-tuple.ts';
import { previewMessage } from './preview.ts';
import { CompiledTuple, createEncoders } from './tuple-codec.ts';
import { GraphBuilder, type TypeGraph } from './types.ts';
import { UntypedTuple } from './untyped-tuple.ts';
import { WebsiteRecords } from './website-records.ts';
import { WorkerMethod, WorkerTuple } from './worker-tuple.ts';

/**
 * Interfaces up to this length are parsed at once: whatever the text, that takes some 15 ms while the parser is cold,
 * and 5 ms afterwards. Nearly all interfaces are shorter. A hostile text of a mebibyte takes more than 100 ms, in the
 * worker.
 */
const DID_CHARACTERS_AT_ONCE = 16 * 1024;

/**
 * Creates the server's codec. `pool` converts large bodies; its creator closes it. A pool that is never used has no
 * thread.
 */
export function createCodec(pool: CodecPool = new CodecPool()): Codec {
  return new CandidCodec(pool);
}

class CandidCodec implements Codec {
  readonly #pool: CodecPool;
  readonly untyped: TupleCodec;
  readonly websites: WebsiteCodec = new WebsiteRecords();

  constructor(pool: CodecPool) {
    this.#pool = pool;
    this.untyped = new OffloadingTuple(new UntypedTuple(), { kind: 'untyped' }, this.#pool);
  }

  parseInterface(did: string, candidArgs?: string, bounds: InterfaceBounds = {}): CandidInterface<TupleCodec> {
    const parsed = parseDid(did, candidArgs, { partsMax: bounds.partsMax });
    const graph = new GraphBuilder();
    const tupleOf = this.#tuples(did, candidArgs);
    const methods = new Map<string, MethodInterface<TupleCodec>>();
    for (const { name, annotation, parameters, results } of parsed.methods) {
      methods.set(name, {
        name,
        kind: annotation ?? 'update',
        args: tupleOf(graph.add(parameters), name, 'args'),
        results: tupleOf(graph.add(results), name, 'results'),
      });
    }
    const { init } = parsed;
    const initArgs = init === undefined ? undefined : tupleOf(graph.add(init.types), undefined, 'args');
    return { text: did, methods, initArgs };
  }

  parseInterfaceAnySize(
    did: string,
    candidArgs?: string,
    bounds: InterfaceBounds = {},
  ): CandidInterface | Promise<CandidInterface> {
    if (did.length + (candidArgs?.length ?? 0) <= DID_CHARACTERS_AT_ONCE)
      return this.parseInterface(did, candidArgs, bounds);
    return this.#pool
      .parse({ did, candidArgs, partsMax: bounds.partsMax })
      .then((flat) => this.#restored(did, candidArgs, flat));
  }

  /** Rebuilds an interface from the worker's result. */
  #restored(did: string, candidArgs: string | undefined, flat: FlatInterface): CandidInterface {
    const { names, kinds, types, hasInitArgs } = flat;
    const kindAt = (index: number): MethodInterface['kind'] => at(kinds, index, 'kind of method');
    if (types === undefined) {
      const tupleOf = (method: string | undefined, part: 'args' | 'results'): AnySizeTuple =>
        new WorkerTuple({ kind: 'typed', did, candidArgs, method, part }, this.#pool);
      const methods = new Map(names.map((name, index) => [name, new WorkerMethod(name, kindAt(index), tupleOf)]));
      return { text: did, methods, initArgs: hasInitArgs ? tupleOf(undefined, 'args') : undefined };
    }
    const graphOf = restoreGraph(types);
    const tupleOf = this.#tuples(did, candidArgs);
    const methods = new Map<string, MethodInterface>();
    for (const [index, name] of names.entries()) {
      methods.set(name, {
        name,
        kind: kindAt(index),
        args: tupleOf(graphOf(at(types.args, index, 'list of arguments')), name, 'args'),
        results: tupleOf(graphOf(at(types.results, index, 'list of results')), name, 'results'),
      });
    }
    const { initArgs } = types;
    return { text: did, methods, initArgs: initArgs && tupleOf(graphOf(initArgs), undefined, 'args') };
  }

  /** Makes the tuples of one interface with one set of closures, so that types that methods share are compiled once. */
  #tuples(
    did: string,
    candidArgs: string | undefined,
  ): (graph: TypeGraph, method: string | undefined, part: 'args' | 'results') => TupleCodec {
    const encoders = createEncoders();
    return (graph, method, part) =>
      new OffloadingTuple(
        new CompiledTuple(graph, part, encoders),
        { kind: 'typed', did, candidArgs, method, part },
        this.#pool,
      );
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
