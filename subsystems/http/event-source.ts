/**
 * Support for a browser's `EventSource`, beyond a stream. An answer with another status than 200 ends an
 * `EventSource` for good, so a server that was asked half a second too early would lose its watchers until somebody
 * reloads the page. Where a later request may succeed, the answer is therefore a stream that tells when to come back,
 * and ends.
 */
import type { IncomingMessage } from 'node:http';

/** Milliseconds until an `EventSource` comes back: browsers wait as long by themselves. */
export const RETRY_MS = 3000;

const WATCHES = /^\/watch[/?]/;

/** Returns true if a request for a live query comes from an `EventSource`, or from a client that asks as one does. */
export function isEventSource({ url, headers }: IncomingMessage): boolean {
  if (url === undefined || !WATCHES.test(url) || headers.accept?.includes('text/event-stream') !== true) return false;
  return headers['content-length'] === undefined && headers['transfer-encoding'] === undefined;
}

/** The body that such a client gets in place of a 503: why, and when to ask again. */
export function comeBackLater(code: number, message: string): Buffer {
  const data = JSON.stringify({ code, message });
  return Buffer.from(`retry: ${RETRY_MS}\nevent: unavailable\ndata: ${data}\n\n`, 'utf8');
}
