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
  /** False if the server takes no `x-caller` (`--no-claims`). The same for all actors. */
  readonly takesCaller?: boolean;
}

/** Descriptions of actors' JSON endpoints for programs. */
export interface OpenApi {
  /**
   * Resolves with an OpenAPI 3.1 document, UTF-8 JSON. Documents are made in a separate thread, and the latest are
   * kept. Rejects with
   * ServerError: `openapi-too-large` or `bad-interface` (invalid), `openapi-busy`, `openapi-failed`, `openapi-closed`
   * (unavailable), `openapi-off` (missing) if documents are turned off.
   */
  documentOf(actor: DescribedActor): Promise<Uint8Array>;
  /** Resolves with TypeScript declarations (UTF-8) of the same methods. Made, kept and refused as documents are. */
  typesOf(actor: DescribedActor): Promise<Uint8Array>;
}
export const OpenApi = defineCapability<OpenApi>('openapi');
