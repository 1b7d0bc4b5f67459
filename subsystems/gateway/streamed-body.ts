import type { ServerError } from '../../kernel/index.ts';
import type { WebsiteCallback, WebsiteChunk } from '../codec/index.ts';

/** Callbacks for one answer: an actor that always has one more is cut here. */
export const STREAM_CALLBACKS_MAX = 65_536;
/** Bytes of one streamed answer: 4 GiB. */
export const STREAM_BYTES_MAX = 2 ** 32;
/** Time that an actor may take for all callbacks of one answer together; what the client takes is not counted. */
export const STREAM_ACTOR_MS_MAX = 600_000;

export interface StreamSource {
  /** Calls the method that has the next piece. Rejects with ServerError. */
  ask(method: string, token: Uint8Array): Promise<WebsiteChunk>;
  nowMs(): number;
  /** The error for an actor that does not end. */
  refused(reason: string): ServerError;
}

/**
 * The rest of a body, piece by piece: the actor is asked for one when the one before it has been taken, and never ahead.
 * Whoever does not want more ends the iteration.
 */
export async function* streamedBody(
  bytesBefore: number,
  { method, token: first }: WebsiteCallback,
  source: StreamSource,
): AsyncGenerator<Uint8Array> {
  let bytes = bytesBefore;
  let actorMs = 0;
  let token: Uint8Array | undefined = first;
  for (let callbacks = 0; token !== undefined; callbacks++) {
    if (callbacks === STREAM_CALLBACKS_MAX) throw source.refused(`it streams more than ${callbacks} pieces`);
    if (actorMs > STREAM_ACTOR_MS_MAX)
      throw source.refused(`its streaming has taken more than ${STREAM_ACTOR_MS_MAX} ms`);
    const startedMs = source.nowMs();
    const chunk: WebsiteChunk = await source.ask(method, token);
    actorMs += source.nowMs() - startedMs;
    bytes += chunk.body.length;
    if (bytes > STREAM_BYTES_MAX) throw source.refused(`it streams more than ${STREAM_BYTES_MAX} bytes`);
    ({ token } = chunk);
    yield chunk.body;
  }
}
