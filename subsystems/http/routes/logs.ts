import { prefersJson } from '../accept.ts';
import type { Handlers, RouteHost } from '../route.ts';

/** `GET /logs/<ACTOR>`: takes the debug output since the last read; text, or JSON when the client prefers it. */
export function logsHandlers({ canisters, jobs, responder }: RouteHost): Pick<Handlers, 'GET /logs/:actor'> {
  return {
    'GET /logs/:actor'(request, response, { actor }) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      const lines = canisters.takeLogs(canister);
      if (prefersJson(request.headers.accept)) {
        const items = lines.map(({ seq, timeMs, text }) => ({ seq, time: new Date(timeMs).toISOString(), text }));
        responder.json(response, 200, items);
      } else responder.text(response, 200, lines.map(({ text }) => `${text}\n`).join(''));
      jobs.done('logs', canister, '', startedMs);
    },
  };
}
