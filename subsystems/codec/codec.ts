import { ServerError } from '../../kernel/index.ts';
import { CodecPool, type CodecPoolOptions } from './codec-pool.ts';
import type { CodecTarget } from './codec-job.ts';
import { parseDid, type ParsedMethod } from './did-parser.ts';
import { encodeValueText } from './encode-value-text.ts';
import type { CandidInterface, Codec, MethodInterface, TupleCodec } from './index.ts';
import { OffloadingTuple, type SynchronousTuple } from './offloading-tuple.ts';
import { previewMessage } from './preview.ts';
import { CompiledTuple } from './tuple-codec.ts';
import { graphOfTypes } from './types.ts';
import { UntypedTuple } from './untyped-tuple.ts';

/** The server's codec. */
export function createCodec(options: CodecPoolOptions = {}): Codec {
  return new CandidCodec(options);
}

export class CandidCodec implements Codec {
  readonly #pool: CodecPool;
  readonly untyped: TupleCodec;

  constructor(options: CodecPoolOptions = {}) {
    this.#pool = new CodecPool(options);
    this.untyped = this.#tuple(new UntypedTuple(), { kind: 'untyped' });
  }

  #tuple(tuple: SynchronousTuple, target: CodecTarget): OffloadingTuple {
    return new OffloadingTuple(tuple, target, this.#pool);
  }

  parseInterface(did: string, candidArgs?: string): CandidInterface {
    const parsed = parseDid(did, candidArgs);
    const target = { kind: 'typed', did, candidArgs } as const;
    const methods = new Map<string, MethodInterface>();
    for (const method of parsed.methods) {
      const { name } = method;
      methods.set(name, {
        name,
        kind: method.annotation ?? 'update',
        args: this.#tuple(argumentsOf(method), { ...target, method: name, part: 'args' }),
        results: this.#tuple(resultsOf(method), { ...target, method: name, part: 'results' }),
      });
    }
    const init = parsed.initParameters;
    const initArgs =
      init === undefined
        ? undefined
        : this.#tuple(new CompiledTuple(graphOfTypes(init), 'args'), { ...target, method: undefined, part: 'args' });
    return { text: did, methods, initArgs };
  }

  encodeText(text: string, codec?: TupleCodec): Uint8Array {
    return encodeValueText(text, codec instanceof OffloadingTuple ? codec.graph : undefined);
  }

  previewText(candid: Uint8Array, charactersMax: number): string | undefined {
    try {
      return previewMessage(candid, charactersMax);
    } catch (error) {
      if (error instanceof ServerError) return undefined;
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#pool.close();
  }
}

function argumentsOf(method: ParsedMethod): CompiledTuple {
  return new CompiledTuple(graphOfTypes(method.parameters), 'args');
}

function resultsOf(method: ParsedMethod): CompiledTuple {
  return new CompiledTuple(graphOfTypes(method.results), 'results');
}
