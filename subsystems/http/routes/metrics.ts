import { setImmediate as turn } from 'node:timers/promises';
import { ServerError } from '../../../kernel/index.ts';
import { joinPages } from '../../metrics/index.ts';
import { groupPages } from '../peers/group-pages.ts';
import type { Handlers, RouteHost } from '../route.ts';

/**
 * Answers under way at once: each may keep a page in memory for as long as its client takes to read it, 2 MB with
 * 10,000 actors.
 */
const SCRAPES_MAX = 16;

/** `GET /metrics`: numbers for operators. Reading them is no job: a scraper would fill the log. */
export function metricsHandlers({ metrics, responder, cluster, clock }: RouteHost): Pick<Handlers, 'GET /metrics'> {
  let underWay = 0;
  return {
    async 'GET /metrics'(_request, response) {
      if (underWay >= SCRAPES_MAX) {
        const text = `${SCRAPES_MAX} clients are reading GET /metrics and have not taken their pages yet: try again later`;
        throw new ServerError('unavailable', 'metrics-busy', text);
      }
      underWay++;
      try {
        const own = await metrics.page();
        // A shard process has none, and answers with its own page.
        const others = cluster.processes === undefined ? [] : await groupPages({ cluster, clock });
        const page = others.length === 0 ? own : await joinPages(own, others);
        await responder.stream(response, metrics.contentType, inTurns(page), { isSoonOver: true });
      } finally {
        underWay--;
      }
    },
  };
}

/** Everything else has its turn after each piece: others may be reading as well. */
async function* inTurns(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) {
    yield piece;
    await turn();
  }
}
