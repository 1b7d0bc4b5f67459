import { defineCapability } from '../../kernel/index.ts';
import type { CandidInterface } from '../codec/index.ts';
import type { MethodKind } from '../ic/index.ts';

/** An actor whose interface is known. */
export interface DescribedActor {
  readonly name: string;
  /** The same object as long as the actor has the same code and interface. */
  readonly candid: Pick<CandidInterface, 'text'>;
  /** Methods that the module exports to everyone. */
  readonly methods: ReadonlyMap<string, MethodKind>;
}

/** OpenAPI 3.1 documents of actors' JSON endpoints. */
export interface OpenApi {
  /**
   * Resolves with UTF-8 JSON. Documents are made in a separate thread, and the latest are kept. Rejects with
   * ServerError: `openapi-too-large` or `bad-interface` (invalid), `openapi-busy`, `openapi-failed`, `openapi-closed`
   * (unavailable), `openapi-off` (missing) if documents are turned off.
   */
  documentOf(actor: DescribedActor): Promise<Uint8Array>;
}
export const OpenApi = defineCapability<OpenApi>('openapi');
