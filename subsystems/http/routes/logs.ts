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

/**
 * Returns true if `Accept` names JSON with a higher weight than plain text; of equal weights, the one named first
 * counts.
 */
export function prefersJson(accept: string | undefined): boolean {
  if (accept === undefined) return false;
  let best = { isJson: false, weight: 0 };
  for (const range of accept.split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    if (type !== 'application/json' && type !== 'text/plain') continue;
    const quality = parameters.find((parameter) => parameter.startsWith('q='));
    const weight = quality === undefined ? 1 : Number(quality.slice(2)) || 0;
    if (weight > best.weight) best = { isJson: type === 'application/json', weight };
  }
  return best.isJson;
}
