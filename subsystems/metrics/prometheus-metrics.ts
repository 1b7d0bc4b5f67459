/**
 * The page of numbers. Each number is kept by the room that counts it, and read only when the page is requested:
 * counting costs a message only a few additions.
 *
 * A page is made in slices of the main thread, and one at a time: requests that come meanwhile share the next one.
 */
import { type Clock, TimeSlices } from '../../kernel/index.ts';
import type { Canisters } from '../canisters/index.ts';
import type { CanisterRunner, SharedMemory } from '../execution/index.ts';
import type { Management } from '../management/index.ts';
import type { Scheduler } from '../scheduler/index.ts';
import type { Storage, StorageFigures } from '../storage/index.ts';
import { actorPage, type MeasuredCanister } from './actor-lines.ts';
import { Collections } from './collections.ts';
import { EventLoopLag } from './event-loop-lag.ts';
import { familyText, histogramsText, histogramText } from './exposition.ts';
import { Families, type Samples } from './families.ts';
import type { Metrics, RequestTally, ShownNumber } from './index.ts';
import { showProcess } from './process-families.ts';
import { CODE_CLASSES, RequestCounts } from './request-counts.ts';
import { SingleFlight } from './single-flight.ts';

export interface PrometheusMetricsNeeds {
  readonly canisters: Pick<Canisters, 'wakeSeconds' | 'replaySeconds'> & { list(): readonly MeasuredCanister[] };
  readonly scheduler: Pick<Scheduler, 'live' | 'queuedMax' | 'idempotency'>;
  readonly execution: Pick<SharedMemory, 'memory' | 'memoryByKind'> & Pick<CanisterRunner, 'executorFigures'>;
  readonly storage: Pick<Storage, 'isKept' | 'figures' | 'newest' | 'durable'>;
  readonly management: Pick<Management, 'outcalls'>;
  readonly clock: Pick<Clock, 'nowMs' | 'every'>;
}

export class PrometheusMetrics implements Metrics {
  readonly #needs: PrometheusMetricsNeeds;
  readonly #families = new Families();
  readonly #requests = new Map<string, RequestCounts>();
  readonly #lag: EventLoopLag;
  readonly #collections = new Collections();
  readonly #lookAtProcess: () => void;
  readonly #pages = new SingleFlight(() => this.#makePage());
  /** Figures for the page that is being made. */
  #figures: StorageFigures | undefined;
  #canisterCount = 0;

  constructor(needs: PrometheusMetricsNeeds) {
    this.#needs = needs;
    this.#lag = new EventLoopLag(needs.clock);
    const { clock } = needs;
    const startedMs = clock.nowMs();
    this.#families.gauge(
      'svc_uptime_seconds',
      'Seconds since the server started.',
      () => (clock.nowMs() - startedMs) / 1000,
    );
    this.#showRequests();
    this.#showActors();
    this.#showExecutors();
    this.#showMemory();
    this.#showKeys();
    this.#showOutcalls();
    if (needs.storage.isKept) this.#showState();
    this.#lookAtProcess = showProcess(this.#families);
  }

  /** Starts measuring the event loop and V8's collections. */
  start(): void {
    this.#lag.start();
    this.#collections.start();
  }

  stop(): void {
    this.#lag.stop();
    this.#collections.stop();
  }

  get contentType(): string {
    return this.#families.contentType;
  }

  requestsOf(endpoint: string): RequestTally {
    const counts = this.#requests.get(endpoint) ?? new RequestCounts();
    this.#requests.set(endpoint, counts);
    return counts;
  }

  show({ name, type, help, read }: ShownNumber): void {
    this.#families[type](name, help, read);
  }

  page(): Promise<readonly Uint8Array[]> {
    return this.#pages.ask();
  }

  async #makePage(): Promise<readonly Uint8Array[]> {
    const { canisters, scheduler, storage } = this.#needs;
    const figures = storage.isKept ? await storage.figures() : undefined;
    const list = canisters.list();
    const slices = new TimeSlices();
    // Listing all canisters takes a while.
    await slices.next();
    this.#figures = figures;
    this.#canisterCount = list.length;
    this.#lookAtProcess();
    let text = await this.#families.text();
    text += histogramsText(
      'svc_http_request_duration_seconds',
      'From the first look at a request until its answer was handed over, by class of endpoint.',
      'endpoint',
      this.#answered().map(([endpoint, { seconds }]) => [endpoint, seconds.figures]),
    );
    text += histogramText('svc_event_loop_lag_seconds', 'How late timers of the main thread are.', this.#lag.seconds);
    text += histogramsText(
      'nodejs_gc_duration_seconds',
      'How long collections of garbage stop the main thread, by their kind.',
      'kind',
      this.#collections.seconds,
    );
    text += histogramText('svc_wake_seconds', 'Time to wake an actor.', canisters.wakeSeconds);
    text += histogramText(
      'svc_outcall_seconds',
      'From an outcall to its end.',
      this.#needs.management.outcalls.seconds,
    );
    if (figures !== undefined) {
      text += histogramText('svc_commit_seconds', 'Time to make a commit durable.', figures.commitSeconds);
      text += histogramText('svc_commit_units', 'Units that one commit made durable.', figures.commitUnits);
    }
    await slices.next();
    const { pieces, queued, queuedDeepest } = await actorPage(list, slices);
    const queues =
      gaugeText('svc_queued_messages', 'Messages that wait for actors.', queued) +
      gaugeText('svc_queued_messages_deepest', 'Messages that wait for the actor with most of them.', queuedDeepest) +
      gaugeText(
        'svc_queued_messages_max',
        'Messages that may wait for one actor before clients are refused.',
        scheduler.queuedMax,
      );
    return [Buffer.from(text + queues, 'utf8'), ...pieces];
  }

  // ---- families

  /** Returns the classes of endpoints that have answered a request: unused ones would be most of a small page. */
  #answered(): readonly (readonly [string, RequestCounts])[] {
    return [...this.#requests].filter(([, { answers }]) => answers.some((count) => count > 0));
  }

  #showRequests(): void {
    const requests = this.#requests;
    this.#families.counters('svc_http_requests_total', 'Requests, by class of endpoint.', ['endpoint'], () =>
      [...requests].map(([endpoint, { value }]) => [{ endpoint }, value]),
    );
    this.#families.counters(
      'svc_http_responses_total',
      'Answers, by class of endpoint and of status.',
      ['endpoint', 'code'],
      () =>
        this.#answered().flatMap(([endpoint, { answers }]) =>
          CODE_CLASSES.map((code, at) => [{ endpoint, code }, answers[at] ?? 0] as const),
        ),
    );
  }

  #showActors(): void {
    const { scheduler } = this.#needs;
    const families = this.#families;
    families.gauge('svc_live_actors', 'Actors that have an instance.', () => scheduler.live.liveCount);
    families.gauge('svc_sleeping_actors', 'Actors that are woken by their next message.', () =>
      // A canister that was found damaged is not listed, but may still be live.
      Math.max(0, this.#canisterCount - scheduler.live.liveCount),
    );
    families.counter('svc_evictions_total', 'Actors put to sleep.', () => scheduler.live.evictions);
    families.counter('svc_wakeups_total', 'Actors woken.', () => scheduler.live.wakeUps);
  }

  #showExecutors(): void {
    const { execution } = this.#needs;
    const families = this.#families;
    type Figures = ReturnType<typeof execution.executorFigures>['executors'][number];
    const ofEach = (read: (figures: Figures) => number) => (): Samples =>
      execution.executorFigures().executors.map((figures, at) => [{ executor: String(at) }, read(figures)]);
    families.counters(
      'svc_executor_busy_seconds_total',
      'Time in which an executor had something to do.',
      ['executor'],
      ofEach(({ busySeconds }) => busySeconds),
    );
    families.counters(
      'svc_executor_steps_total',
      'Executions that have ended: messages, callbacks, hooks.',
      ['executor'],
      ofEach(({ steps }) => steps),
    );
    families.counters(
      'svc_executor_instructions_total',
      'Instructions executed.',
      ['executor'],
      ofEach(({ instructions }) => instructions),
    );
    families.gauges(
      'svc_executor_tasks',
      'What an executor has been given and has not ended.',
      ['executor'],
      ofEach(({ underWay }) => underWay),
    );
    families.counter(
      'svc_executor_replacements_total',
      'Executors that have died and were replaced.',
      () => execution.executorFigures().replaced,
    );
    families.gauge(
      'svc_executor_ring_bytes',
      'Rings between the main thread and executors.',
      () => execution.executorFigures().ringBytes,
    );
  }

  #showKeys(): void {
    const { scheduler } = this.#needs;
    const families = this.#families;
    families.gauge('svc_idempotency_keys', 'Idempotency keys that are known.', () => scheduler.idempotency.keys);
    families.gauge('svc_idempotency_bytes', 'Bytes of the answers kept under them.', () => scheduler.idempotency.bytes);
    families.counter(
      'svc_idempotency_repeats_total',
      'Calls that were answered without being executed.',
      () => scheduler.idempotency.repeats,
    );
  }

  #showOutcalls(): void {
    const { management } = this.#needs;
    const families = this.#families;
    families.counters('svc_outcalls_total', 'Outcalls, by how they ended.', ['end'], () =>
      Object.entries(management.outcalls.ends).map(([end, count]: [string, number]) => [{ end }, count]),
    );
    families.gauge(
      'svc_outcalls_active',
      'Outcalls that have been sent and not ended.',
      () => management.outcalls.active,
    );
    families.gauge('svc_outcalls_waiting', 'Outcalls that wait for a place.', () => management.outcalls.waiting);
    families.counter(
      'svc_outcall_request_bytes_total',
      'Bytes of headers and bodies sent by outcalls.',
      () => management.outcalls.requestBytes,
    );
    families.counter(
      'svc_outcall_response_bytes_total',
      'Bytes of headers and bodies that outcalls have brought.',
      () => management.outcalls.responseBytes,
    );
  }

  #showMemory(): void {
    const { execution } = this.#needs;
    const families = this.#families;
    families.gauge('svc_memory_bytes', 'Memory that actors use together.', () => execution.memory.bytesUsed);
    families.gauges('svc_memory_kind_bytes', 'The same memory by what it is for.', ['kind'], () =>
      Object.entries(execution.memoryByKind()).map(([kind, bytes]: [string, number]) => [{ kind }, bytes]),
    );
    families.gauge(
      'svc_memory_bytes_max',
      'Memory that actors may have together: --memory-bytes.',
      () => execution.memory.bytesMax,
    );
    families.counter(
      'svc_memory_refusals_total',
      'How often an actor was refused memory.',
      () => execution.memory.refusals,
    );
  }

  #showState(): void {
    const { canisters, storage } = this.#needs;
    const families = this.#families;
    families.gauge('svc_state_bytes', 'About what the state takes on disk.', () => this.#figures?.stateBytes);
    families.gauge(
      'svc_log_bytes',
      'Bytes of the step log that the tables do not have yet.',
      () => this.#figures?.logBytes,
    );
    families.gauge(
      'svc_replay_seconds',
      'About how long running all logs again would take.',
      () => canisters.replaySeconds,
    );
    families.gauge('svc_pending_units', 'Units that are not durable yet.', () => storage.newest - storage.durable);
    families.counter('svc_units_total', 'Units made durable.', () => this.#figures?.unitsCommitted);
    families.counter('svc_commit_bytes_total', 'Bytes of the units made durable.', () => this.#figures?.commitBytes);
  }
}

function gaugeText(name: string, help: string, value: number): string {
  return `${familyText(name, 'gauge', help)}${name} ${value}\n`;
}
