/** Clients of a host of 200 actors: each does one thing again and again, and goes on when the server is another. */
import { EventClient } from '../support/event-client.ts';
import { wat } from '../support/wat.ts';

export const COUNTERS = 145;
export const WEBSITES = 30;
export const NOTES = 15;
export const FETCHERS = 5;
export const WRITERS = 5;
const WATCHERS = 12;
/** Small: Motoko's collector lets a heap grow by hundreds of megabytes before it takes garbage back. */
const ATTACHMENT = Buffer.alloc(1500, 'soak').toString('base64');

/**
 * Changes the same 192 KiB in each message: enough that the tables take the step log over every minute and caches are
 * full soon, and the heap stays as large as it is.
 */
export const WRITER = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 4)
  (global $round (mut i32) (i32.const 0))
  (func (export "canister_update write")
    (global.set $round (i32.add (global.get $round) (i32.const 1)))
    (memory.fill (i32.const 0) (global.get $round) (i32.const 196608))
    (call $reply)))`);

export interface Host {
  /** Origin of the server; undefined while there is none. */
  readonly origin: string | undefined;
  readonly isOver: boolean;
}

/** Counts what clients were told. */
export class Tally {
  /** Calls of `inc` that were answered, by the number of their counter. */
  readonly answered: number[] = Array.from({ length: COUNTERS }, () => 0);
  /** Calls of `inc` whose answer was lost. */
  readonly lost: number[] = Array.from({ length: COUNTERS }, () => 0);
  /** Milliseconds of calls since the last look. */
  latencies: number[] = [];
  /** Requests by what they were for. */
  readonly done = new Map<string, number>();
  readonly wrong: string[] = [];

  count(kind: string): void {
    this.done.set(kind, (this.done.get(kind) ?? 0) + 1);
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Draws in the same way in each run. */
function drawer(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Runs all clients until the host is over. `outside`: origin of a server that actors ask. */
export async function runClients(host: Host, tally: Tally, outside: string): Promise<void> {
  const draw = drawer(4711);
  const works: Promise<void>[] = [];
  const often = (count: number, pauseMs: number, work: (origin: string) => Promise<void>): void => {
    for (let client = 0; client < count; client++) works.push(repeated(host, tally, pauseMs, work));
  };
  often(6, 15, (origin) => increase(origin, tally, draw(COUNTERS)));
  often(1, 60, (origin) => trap(origin, tally, draw(COUNTERS)));
  often(1, 400, (origin) => upgrade(origin, tally, draw(COUNTERS)));
  often(2, 40, (origin) => visit(origin, tally, draw(WEBSITES)));
  often(1, 100, (origin) => note(origin, tally, draw(NOTES)));
  often(1, 100, (origin) => write(origin, tally, draw(WRITERS)));
  often(1, 600, (origin) => outcall(origin, tally, draw(FETCHERS), outside));
  for (let watcher = 0; watcher < WATCHERS; watcher++)
    works.push(
      repeated(host, tally, 200, (origin) => watch(origin, tally, `/watch/counter-${draw(COUNTERS)}/get`, host)),
    );
  works.push(repeated(host, tally, 200, (origin) => watch(origin, tally, '/inspect?limit=50', host)));
  await Promise.all(works);
}

async function repeated(
  host: Host,
  tally: Tally,
  pauseMs: number,
  work: (origin: string) => Promise<void>,
): Promise<void> {
  while (!host.isOver) {
    const { origin } = host;
    try {
      if (origin !== undefined) await work(origin);
    } catch (error) {
      // A connection that breaks with its server is no fault of that server.
      if (origin === host.origin && origin !== undefined)
        tally.wrong.push(String(error instanceof Error ? (error.cause ?? error) : error));
    }
    await pause(pauseMs);
  }
}

/** Reads an answer, which has to have this status; 503 is what a server that starts or stops says. */
async function expect(
  tally: Tally,
  kind: string,
  asked: Promise<Response>,
  status: number,
): Promise<string | undefined> {
  const answer = await asked;
  const text = await answer.text();
  if (answer.status === 503) return undefined;
  tally.count(kind);
  if (answer.status !== status) tally.wrong.push(`${kind} was answered ${answer.status}: ${text.slice(0, 200)}`);
  return text;
}

/** Notes are nobody's who is anonymous. */
const CALLER = { 'x-caller': 'rrkah-fqaaa-aaaaa-aaaaq-cai' };
const post = (url: string, body = '[]'): Promise<Response> => fetch(url, { method: 'POST', body, headers: CALLER });

async function increase(origin: string, tally: Tally, at: number): Promise<void> {
  const startMs = performance.now();
  tally.lost[at] = (tally.lost[at] ?? 0) + 1;
  const answer = await expect(tally, 'call', post(`${origin}/call-json/counter-${at}/inc`), 200);
  tally.lost[at] = (tally.lost[at] ?? 0) - 1;
  if (answer === undefined) return;
  tally.answered[at] = (tally.answered[at] ?? 0) + 1;
  tally.latencies.push(performance.now() - startMs);
}

async function visit(origin: string, tally: Tally, at: number): Promise<void> {
  await expect(tally, 'website', fetch(`${origin}/site/website-${at}/`), 200);
}

async function trap(origin: string, tally: Tally, at: number): Promise<void> {
  await expect(tally, 'trap', post(`${origin}/call-json/counter-${at}/boom`), 400);
}

async function upgrade(origin: string, tally: Tally, at: number): Promise<void> {
  await expect(tally, 'upgrade', post(`${origin}/upgrade/counter-${at}`, ''), 200);
}

async function note(origin: string, tally: Tally, at: number): Promise<void> {
  const draft = { title: 'soak', body: 'x'.repeat(500), tags: ['a'], attachment: ATTACHMENT };
  const made = await expect(
    tally,
    'note',
    post(`${origin}/call-json/notes-${at}/create`, JSON.stringify([draft])),
    200,
  );
  if (made === undefined) return;
  const [result] = JSON.parse(made) as readonly [{ readonly ok?: { readonly id: number } }];
  if (result.ok === undefined) tally.wrong.push(`a note was refused: ${made.slice(0, 200)}`);
  else await expect(tally, 'note', post(`${origin}/call-json/notes-${at}/delete`, JSON.stringify([result.ok.id])), 200);
}

async function write(origin: string, tally: Tally, at: number): Promise<void> {
  await expect(tally, 'write', post(`${origin}/call/writer-${at}/write`, ''), 200);
}

async function outcall(origin: string, tally: Tally, at: number, outside: string): Promise<void> {
  await expect(tally, 'outcall', post(`${origin}/call-json/fetcher-${at}/fetch`, JSON.stringify([outside])), 200);
}

/** Watches for a few seconds. */
async function watch(origin: string, tally: Tally, target: string, host: Host): Promise<void> {
  await using client = await EventClient.open(origin, target, { accept: 'text/event-stream' });
  for (let second = 0; second < 5 && !client.isClosed && !host.isOver; second++) await pause(1000);
  while (client.unread.length > 0) {
    await client.next();
    tally.count('event');
  }
}
