/**
 * Measures the time that waking an actor adds. Ten times as many actors are hosted as may be live; one connection asks
 * an actor that sleeps, and at once asks the same actor again. Waking adds the difference of the medians. The p99 is
 * that of the first answers less the median of the second ones, so the figure includes what the machine and HTTP add.
 * Beside both stands the server's own measurement (svc_wake_seconds), interpolated within its buckets.
 */
import type { Goal } from '../../figures.ts';
import { Client, NO_ARGUMENTS } from '../client.ts';
import { median, quantile } from '../quantile.ts';
import { printFigure } from '../sitting.ts';
import { metricsOf } from '../svc-process.ts';

export const WAKE_RATIO = 10;

interface WakeOptions {
  readonly origin: string;
  readonly token: string | undefined;
  /** Message to each actor: a path, and a body unless the body is Candid's empty tuple. */
  readonly messages: readonly { readonly path: string; readonly body?: string }[];
  readonly wakes: number;
  /** Label in front of the figures: `64-bit`. */
  readonly label: string;
  readonly goals: { readonly median: Goal; readonly p99: Goal } | undefined;
}

export async function measureWaking({ origin, token, messages, wakes, label, goals }: WakeOptions): Promise<void> {
  using client = new Client(origin, 1, token);
  const ask = async (at: number): Promise<number> => {
    const { path = '/', body } = messages[at % messages.length] ?? {};
    const { ms } = await client.send(path, body === undefined ? NO_ARGUMENTS : Buffer.from(body));
    return ms;
  };
  // The first run of code is slow for other reasons.
  for (let at = 0; at < messages.length; at++) await ask(at);
  const before = await metricsOf(origin, token);
  const asleep: number[] = [];
  const awake: number[] = [];
  for (let at = 0; at < wakes; at++) {
    asleep.push(await ask(at));
    awake.push(await ask(at));
  }
  const after = await metricsOf(origin, token);
  const more = (name: string): number => (after.get(name) ?? Number.NaN) - (before.get(name) ?? Number.NaN);
  const woken = more('svc_wakeups_total');
  // Actors with timers or heartbeats wake in addition, and may be awake already.
  if (goals !== undefined && woken !== wakes) throw new Error(`${wakes} actors were to be woken, and ${woken} were`);
  const usual = median(awake);
  printFigure(
    `wake, ${label}: first answer − second, p50`,
    median(asleep) - usual,
    'ms',
    `second answer ${usual.toFixed(3)} ms`,
    goals?.median,
  );
  printFigure(
    `wake, ${label}: p99 of the first − p50 of the second`,
    quantile(asleep, 0.99) - usual,
    'ms',
    `p99 of the second − its p50: ${(quantile(awake, 0.99) - usual).toFixed(2)} ms`,
    goals?.p99,
  );
  const buckets = [...after.keys()]
    .flatMap((name) => /^svc_wake_seconds_bucket\{le="(.*)"\}$/.exec(name)?.[1] ?? [])
    .map((bound) => ({ boundMs: Number(bound) * 1000, count: more(`svc_wake_seconds_bucket{le="${bound}"}`) }));
  const own = [0.5, 0.99].map((share) => interpolated(buckets, share).toFixed(2)).join(' / ');
  const mean = (more('svc_wake_seconds_sum') / more('svc_wake_seconds_count')) * 1000;
  console.log(
    `  the server's own: p50 / p99 ${own} ms, mean ${mean.toFixed(3)} ms; ${more('svc_evictions_total')} evictions\n`,
  );
}

/** Returns a quantile of cumulative buckets, as if values lay evenly within each. `+Inf` has the bound NaN. */
function interpolated(buckets: readonly { readonly boundMs: number; readonly count: number }[], share: number): number {
  const wanted = share * (buckets.at(-1)?.count ?? 0);
  let below = { boundMs: 0, count: 0 };
  for (const bucket of buckets) {
    if (bucket.count >= wanted) {
      const part = (wanted - below.count) / (bucket.count - below.count);
      return below.boundMs + (bucket.boundMs - below.boundMs) * part;
    }
    below = bucket;
  }
  return Number.NaN;
}
