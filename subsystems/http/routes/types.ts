import { ServerError } from '../../../kernel/index.ts';
import { bodyOf, bodyTooLarge } from '../request-body.ts';
import { JSON_TYPE } from '../responder.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { WATCH_BYTES_MAX } from '../route-table.ts';

interface AskedTypes {
  readonly candid: string;
  readonly init: string | undefined;
}

/** `POST /x/types`: the types of an interface that no actor has yet, for programs that draw forms. */
export function typesHandlers({ jobs, responder, typeTables }: RouteHost): Pick<Handlers, 'POST /x/types'> {
  return {
    async 'POST /x/types'(request, response) {
      const startedMs = jobs.nowMs();
      const body = await bodyOf(request, WATCH_BYTES_MAX);
      if (body.length > WATCH_BYTES_MAX) throw bodyTooLarge(WATCH_BYTES_MAX);
      try {
        const { candid, init } = askedIn(body);
        responder.bytes(response, 200, JSON_TYPE, await typeTables.tableOf(candid, init));
        jobs.done('types', undefined, '', startedMs);
      } catch (error) {
        responder.error(response, error);
        jobs.failed('types', undefined, '', startedMs, error);
      }
    },
  };
}

/** Returns the texts of a body. Throws ServerError `bad-interface`. */
function askedIn(body: Uint8Array): AskedTypes {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    value = undefined;
  }
  const { candid, init } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof candid !== 'string' || (init !== undefined && typeof init !== 'string')) {
    throw new ServerError(
      'invalid',
      'bad-interface',
      'the body names no interface: send {"candid":"service : { … }","init":"(nat)"}; init may be left out',
    );
  }
  return { candid, init };
}
