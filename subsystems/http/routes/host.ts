import { ServerError, TimeSlices } from '../../../kernel/index.ts';
import { preferredType } from '../accept.ts';
import { eventFrame } from '../event-streams.ts';
import { ACTOR_STATES, type ActorChoice, type HostFacts, SORTS, type Sort, surveyText } from '../host-survey.ts';
import { OpenActor } from '../open-actor.ts';
import { JSON_TYPE } from '../responder.ts';
import { RoundStream } from '../round-stream.ts';
import type { Handlers, RouteHost } from '../route.ts';

/** Actors in front of a page: so many are sorted at most, which takes some 20 ms. */
const OFFSET_MAX = 10_000;
const LIMIT_MAX = 200;
const LIMIT_DEFAULT = 50;

/**
 * `GET /x/host`: the host in figures, a page of its actors in any order, the latest failures of all of them. A client
 * that prefers events gets that every two seconds, and what happened to the actor that it has open (`actor`): one
 * stream is one job.
 */
export function hostHandlers(host: RouteHost): Pick<Handlers, 'GET /x/host'> {
  const { clock, jobs, responder } = host;
  const disk = new DiskFigure(host);
  const startedMs = clock.nowMs();
  const facts = (): HostFacts => ({
    uptimeMs: Math.max(0, Math.round(clock.nowMs() - startedMs)),
    processBytes: process.memoryUsage.rss(),
    stateBytes: disk.bytes,
  });
  return {
    async 'GET /x/host'(request, response, _parameters, query) {
      const jobStartedMs = jobs.nowMs();
      const choice = choiceOf(query);
      const open = query.get('actor');
      const type = preferredType(request.headers.accept, ['application/json', 'text/event-stream']);
      if (type !== 'text/event-stream' && open !== undefined) {
        throw badParameter('actor', 'it beside Accept: text/event-stream alone');
      }
      await disk.ask();
      if (type === 'text/event-stream') {
        const opened = open === undefined ? undefined : new OpenActor(host, open);
        const stream = new RoundStream(host, 'host', function* frames(): Generator<Uint8Array | undefined, undefined> {
          void disk.ask();
          if (opened !== undefined) yield* opened.frames();
          yield eventFrame({ data: yield* surveyText(host, choice, facts()) });
        });
        stream.answer(request, response);
        return;
      }
      responder.bytes(response, 200, JSON_TYPE, Buffer.from(await inSlices(surveyText(host, choice, facts())), 'utf8'));
      jobs.done('host', undefined, '', jobStartedMs);
    },
  };
}

/** Bytes that the state takes on disk, as far as the storage has told. */
class DiskFigure {
  readonly #storage: RouteHost['storage'];
  #asked: Promise<void> | undefined;
  bytes: number | null = null;

  constructor({ storage }: Pick<RouteHost, 'storage'>) {
    this.#storage = storage;
  }

  /** Asks the storage, once for all who wait. Never rejects: a storage that cannot tell has told the log. */
  ask(): Promise<void> {
    this.#asked ??= this.#ask().finally(() => (this.#asked = undefined));
    return this.#asked;
  }

  async #ask(): Promise<void> {
    try {
      this.bytes = (await this.#storage.figures()).stateBytes;
    } catch {
      this.bytes = null;
    }
  }
}

async function inSlices(steps: Generator<undefined, string>): Promise<string> {
  const slices = new TimeSlices();
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (slices.isOver) await slices.next();
  }
}

function choiceOf(query: ReadonlyMap<string, string>): ActorChoice {
  const state = query.get('state');
  const known = ACTOR_STATES.find((name) => name === state);
  if (state !== undefined && known === undefined) throw badParameter('state', `one of ${ACTOR_STATES.join(', ')}`);
  const sort = query.get('sort') ?? 'id';
  if (!isSort(sort)) throw badParameter('sort', `one of ${Object.keys(SORTS).join(', ')}`);
  const order = query.get('order') ?? 'asc';
  if (order !== 'asc' && order !== 'desc') throw badParameter('order', 'asc or desc');
  return {
    find: (query.get('find') ?? '').toLowerCase(),
    state: known,
    sort,
    isDescending: order === 'desc',
    offset: numberOf(query, 'offset', { min: 0, max: OFFSET_MAX, otherwise: 0 }),
    limit: numberOf(query, 'limit', { min: 1, max: LIMIT_MAX, otherwise: LIMIT_DEFAULT }),
  };
}

function isSort(name: string): name is Sort {
  return Object.hasOwn(SORTS, name);
}

function numberOf(
  query: ReadonlyMap<string, string>,
  name: string,
  { min, max, otherwise }: { readonly min: number; readonly max: number; readonly otherwise: number },
): number {
  const text = query.get(name);
  if (text === undefined) return otherwise;
  const number = /^(?:0|[1-9][0-9]{0,5})$/.test(text) ? Number(text) : Number.NaN;
  if (!(number >= min && number <= max)) throw badParameter(name, `a number from ${min} to ${max}`);
  return number;
}

function badParameter(name: string, expected: string): ServerError {
  return new ServerError('invalid', 'bad-parameter', `query parameter ${name}: expected ${expected}`);
}
