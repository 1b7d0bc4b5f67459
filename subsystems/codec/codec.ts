import { encodeValueText } from './encode-value-text.ts';
import { parseDid, type ParsedMethod } from './did-parser.ts';
import type { CandidInterface, Codec, MethodInterface, TupleCodec } from './index.ts';
import { previewMessage } from './preview.ts';
import { CompiledTuple } from './tuple-codec.ts';
import { graphOfTypes } from './types.ts';
import { UntypedTuple } from './untyped-tuple.ts';
import { ServerError } from '../../kernel/index.ts';

/** The server's codec. */
export function createCodec(): Codec {
  return new CandidCodec();
}

class CandidCodec implements Codec {
  readonly untyped: TupleCodec = new UntypedTuple();

  parseInterface(did: string, candidArgs?: string): CandidInterface {
    const parsed = parseDid(did, candidArgs);
    const methods = new Map(parsed.methods.map((method) => [method.name, methodInterface(method)]));
    const initArgs =
      parsed.initParameters === undefined ? undefined : new CompiledTuple(graphOfTypes(parsed.initParameters), 'args');
    return { text: did, methods, initArgs };
  }

  encodeText(text: string, codec?: TupleCodec): Uint8Array {
    return encodeValueText(text, codec instanceof CompiledTuple ? codec.graph : undefined);
  }

  previewText(candid: Uint8Array, charactersMax: number): string | undefined {
    try {
      return previewMessage(candid, charactersMax);
    } catch (error) {
      if (error instanceof ServerError) return undefined;
      throw error;
    }
  }
}

function methodInterface(method: ParsedMethod): MethodInterface {
  return {
    name: method.name,
    kind: method.annotation ?? 'update',
    args: new CompiledTuple(graphOfTypes(method.parameters), 'args'),
    results: new CompiledTuple(graphOfTypes(method.results), 'results'),
  };
}
