import type { ServerResponse } from 'node:http';
import { ServerError } from '../../kernel/index.ts';
import type { Canister, Canisters } from '../canisters/index.ts';

const DELETED = new ServerError('missing', 'actor-missing', 'the actor was deleted meanwhile');

/**
 * Returns a signal that is aborted when nobody wants work on an actor any more: its client has gone away, with the
 * given reason, or the actor was deleted.
 */
export function unwantedSignal(
  response: ServerResponse,
  canisters: Pick<Canisters, 'watch'>,
  canister: Canister,
  gone: Error,
): AbortSignal {
  const unwanted = new AbortController();
  const removed = (): void => unwanted.abort(DELETED);
  const watching = canisters.watch(canister, { changed: () => undefined, codeChanged: () => undefined, removed });
  response.once('close', () => {
    watching[Symbol.dispose]();
    unwanted.abort(gone);
  });
  return unwanted.signal;
}
