import type { ServerResponse } from 'node:http';

/** Returns a signal that is aborted with that reason when the client has gone away: nobody wants the work any more. */
export function goneSignal(response: ServerResponse, reason: Error): AbortSignal {
  const gone = new AbortController();
  response.once('close', () => gone.abort(reason));
  return gone.signal;
}
