import type { ServerError } from '../../kernel/index.ts';
import type { WebsiteCallback, WebsiteChunk } from '../codec/index.ts';

/** Callbacks for one response: the body of an actor that always returns another one is cut here. */
export const STREAM_CALLBACKS_MAX = 65_536;
/** Bytes of one streamed answer: 4 GiB. */
export const STREAM_BYTES_MAX = 2 ** 32;
/** Milliseconds that an actor may take for all callbacks of one response together; the client's time is not counted. */
export const STREAM_ACTOR_MS_MAX = 600_000;

interface StreamSource {
  /** Calls the method that returns the next piece. Rejects with ServerError. */
  ask(method: string, token: Uint8Array): Promise<WebsiteChunk>;
  nowMs(): number;
  /** Returns the error for an actor whose body does not end. */
  refused(reason: string): ServerError;
}

/**
 * Yields the rest of a body, piece by piece: the actor is asked for a piece when the one before it has been taken, and
 * never ahead. A caller that wants no more ends the iteration.
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
