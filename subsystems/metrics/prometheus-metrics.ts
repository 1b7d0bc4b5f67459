/**
 * The page of numbers. Whoever has a number keeps it; it is asked for when the page is read, and never before: work on a
 * message costs an addition here and there.
 */
import Counter from 'prom-client/lib/counter.js';
import Gauge from 'prom-client/lib/gauge.js';
import Registry from 'prom-client/lib/registry.js';
import type { Clock } from '../../kernel/index.ts';
import type { Canisters } from '../canisters/index.ts';
import type { SharedMemory } from '../execution/index.ts';
import type { Scheduler } from '../scheduler/index.ts';
import type { Storage, StorageFigures } from '../storage/index.ts';
import { actorText, type MeasuredCanister } from './actor-lines.ts';
import { histogramText } from './exposition.ts';
import type { Metrics, Tally } from './index.ts';

export interface PrometheusMetricsNeeds {
  readonly canisters: Pick<Canisters, 'wakeSeconds' | 'replaySeconds'> & { list(): readonly MeasuredCanister[] };
  readonly scheduler: Pick<Scheduler, 'live'>;
  readonly execution: Pick<SharedMemory, 'memory'>;
  readonly storage: Pick<Storage, 'isKept' | 'figures'>;
  readonly clock: Pick<Clock, 'nowMs'>;
}

export class PrometheusMetrics implements Metrics {
  readonly #with: PrometheusMetricsNeeds;
  readonly #registry = new Registry();
  readonly #requests = new Map<string, Tally>();
  /** For the page that is being made. */
  #figures: StorageFigures | undefined;
  #canisters: readonly MeasuredCanister[] = [];

  constructor(needs: PrometheusMetricsNeeds) {
    this.#with = needs;
    const { clock, scheduler, storage, execution } = needs;
    const startedMs = clock.nowMs();
    this.#gauge('svc_uptime_seconds', 'Seconds since the server started.', () => (clock.nowMs() - startedMs) / 1000);
    this.#countRequests();
    this.#gauge('svc_live_actors', 'Actors that have an instance.', () => scheduler.live.liveCount);
    this.#gauge('svc_sleeping_actors', 'Actors that are woken by their next message.', () =>
      // One that was found damaged is not listed, and may be live still.
      Math.max(0, this.#canisters.length - scheduler.live.liveCount),
    );
    this.#counter('svc_evictions_total', 'Actors put to sleep.', () => scheduler.live.evictions);
    this.#counter('svc_wakeups_total', 'Actors woken.', () => scheduler.live.wakeUps);
    this.#gauge('svc_memory_bytes', 'Memory that actors use together.', () => execution.memory.bytesUsed);
    this.#gauge(
      'svc_memory_bytes_max',
      'Memory that actors may have together: --memory-bytes.',
      () => execution.memory.bytesMax,
    );
    this.#counter(
      'svc_memory_refusals_total',
      'How often an actor was refused memory.',
      () => execution.memory.refusals,
    );
    if (storage.isKept) this.#showState();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  requestsOf(endpoint: string): Tally {
    const tally = this.#requests.get(endpoint) ?? { value: 0 };
    this.#requests.set(endpoint, tally);
    return tally;
  }

  async page(): Promise<string> {
    const { canisters, storage } = this.#with;
    const figures = storage.isKept ? await storage.figures() : undefined;
    const list = canisters.list();
    this.#figures = figures;
    this.#canisters = list;
    // All numbers are read within this call: another page cannot come between.
    const numbers = this.#registry.metrics();
    this.#canisters = [];
    let text = (await numbers) + histogramText('svc_wake_seconds', 'Time to wake an actor.', canisters.wakeSeconds);
    if (figures !== undefined) {
      text += histogramText('svc_commit_seconds', 'Time to make a commit durable.', figures.commitSeconds);
      text += histogramText('svc_commit_units', 'Units that one commit made durable.', figures.commitUnits);
    }
    return text + (await actorText(list));
  }

  #countRequests(): void {
    const requests = this.#requests;
    this.#registry.registerMetric(
      new Counter({
        name: 'svc_http_requests_total',
        help: 'Requests, by class of endpoint.',
        labelNames: ['endpoint'],
        registers: [],
        collect() {
          this.reset();
          for (const [endpoint, { value }] of requests) this.inc({ endpoint }, value);
        },
      }),
    );
  }

  #showState(): void {
    this.#gauge('svc_state_bytes', 'Bytes of the state directory.', () => this.#figures?.stateBytes);
    this.#gauge(
      'svc_log_bytes',
      'Bytes of the step log that the tables do not have yet.',
      () => this.#figures?.logBytes,
    );
    this.#gauge(
      'svc_replay_seconds',
      'About how long running all logs again would take.',
      () => this.#with.canisters.replaySeconds,
    );
    this.#counter('svc_units_total', 'Units made durable.', () => this.#figures?.unitsCommitted);
    this.#counter('svc_commit_bytes_total', 'Bytes of the units made durable.', () => this.#figures?.commitBytes);
  }

  #gauge(name: string, help: string, read: () => number | undefined): void {
    const gauge: Gauge = new Gauge({ name, help, registers: [], collect: () => gauge.set(read() ?? 0) });
    this.#registry.registerMetric(gauge);
  }

  /** Of a number that is kept elsewhere: `read` gives its whole value. */
  #counter(name: string, help: string, read: () => number | undefined): void {
    const counter: Counter = new Counter({
      name,
      help,
      registers: [],
      collect: () => {
        counter.reset();
        counter.inc(read() ?? 0);
      },
    });
    this.#registry.registerMetric(counter);
  }
}
