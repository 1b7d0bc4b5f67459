import { principalToText } from '../../ic/index.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { ServedResponse } from '../served-response.ts';

/** `GET /x/me`: the rights of whoever asks. Where no token is needed, and with the one that may do everything: `*`. */
export function meHandlers({ callers, jobs, responder }: RouteHost): Pick<Handlers, 'GET /x/me'> {
  return {
    'GET /x/me'(_request, response) {
      const startedMs = jobs.nowMs();
      const grant = response instanceof ServedResponse ? response.grant : undefined;
      const caller = grant?.caller === undefined ? null : principalToText(grant.caller);
      const may = grant?.scopes.texts ?? ['*'];
      const claims = may.includes('*') && !callers.areRefused;
      responder.json(response, 200, { name: grant?.name ?? null, may, caller, claims });
      jobs.done('me', undefined, '', startedMs);
    },
  };
}
