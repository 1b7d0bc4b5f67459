/**
 * The timeline of a running server: notes messages in the units that they belong to, and moves durable units from the
 * storage to the timeline thread. No commit waits for that; a question first has everything moved that is durable.
 *
 * Main thread.
 */
import { type Clock, type Logger, messageOf, ServerError } from '../../kernel/index.ts';
import { NO_BYTES } from '../bytes/index.ts';
import type { ShownNumber } from '../metrics/index.ts';
import type { ScheduledExecution } from '../scheduler/index.ts';
import type { ActorUnits, CommitPort } from '../storage/index.ts';
import { JobThread } from '../threads/index.ts';
import type { Note, NotedActor, PageAsked, PastMessage, PastState, Place, Timeline, TimelinePage } from './index.ts';
import { encodeNote, NOTE_KEY } from './note.ts';
import type { ServerFacts } from './known-servers.ts';
import { NotingExecution } from './noting-execution.ts';
import type { TimePoint } from './time-point.ts';
import type { TimelineRequest, TimelineRequestKind, TimelineRequests } from './timeline-request.ts';
import type { TimelineBounds, TimelineFigures } from './timeline-store.ts';

interface TimelineNeeds {
  readonly storage: Pick<CommitPort, 'unit' | 'markDirty' | 'onSeal' | 'settled'>;
  readonly units: ActorUnits;
  readonly clock: Pick<Clock, 'nowMs' | 'every'>;
  readonly log: Pick<Logger, 'warn' | 'info'>;
}

const LOOK_MS = 1_000;
/** Looks after which what was written is made durable: until then the step log keeps it. */
const LOOKS_PER_SYNC = 10;
/** A base of many megabytes is deflated, or a state is put together. */
const JOB_MS_MAX = 120_000;
const JOBS_WAITING_MAX = 64;
const HEAP_MB = 1_024;
const STACK_MB = 4;

export class KeptTimeline implements Timeline {
  readonly isOn = true;
  readonly #needs: TimelineNeeds;
  readonly #bounds: TimelineBounds;
  readonly #facts: ServerFacts;
  readonly #thread: JobThread<TimelineRequest, unknown>;
  #hasNoted = false;
  #moving: Promise<void> = Promise.resolve();
  #isMoveDue = false;
  #synced = 0;
  #looks = 0;
  #notes = 0;
  #failures = 0;
  #isFailing = false;
  #figures: TimelineFigures = { bytes: 0, actors: 0, gaps: 0, oldestMs: Infinity };
  #timer: Disposable | undefined;

  /** `facts`: those of this server. */
  constructor(needs: TimelineNeeds, bounds: TimelineBounds, facts: ServerFacts) {
    this.#needs = needs;
    this.#bounds = bounds;
    this.#facts = facts;
    this.#thread = new JobThread({
      name: 'timeline',
      script: new URL('./timeline-thread.ts', import.meta.url),
      jobDeadlineMs: JOB_MS_MAX,
      waitingJobsMax: JOBS_WAITING_MAX,
      heapMb: HEAP_MB,
      stackMb: STACK_MB,
      refusals: {
        busy: () =>
          new ServerError(
            'unavailable',
            'timeline-busy',
            `${JOBS_WAITING_MAX} questions wait for timelines: try again`,
          ),
        late: () =>
          new ServerError('unavailable', 'timeline-late', `the timeline took longer than ${JOB_MS_MAX / 1000} s`),
        failed: (what, cause) =>
          new ServerError('unavailable', 'timeline-failed', `the timeline thread ${what}: ${messageOf(cause)}`),
        closed: () => new ServerError('unavailable', 'timeline-failed', 'the server is stopping'),
      },
    });
    needs.storage.onSeal((unit) => {
      if (this.#hasNoted) unit.delete('meta', NOTE_KEY);
      this.#hasNoted = false;
    });
  }

  get numbers(): readonly ShownNumber[] {
    const figures = (): TimelineFigures => this.#figures;
    return [
      gauge('bytes', 'Bytes of all timelines on the disk.', () => figures().bytes),
      gauge('actors', 'Actors that have a timeline.', () => figures().actors),
      gauge('reach_seconds', 'Age of the oldest message that a timeline has.', () => this.#reachSeconds),
      counter('messages_total', 'Messages that were noted.', () => this.#notes),
      counter('gaps_total', 'Gaps: units that no timeline has.', () => figures().gaps),
      counter('failures_total', 'Writes of timelines that failed.', () => this.#failures),
    ];
  }

  get #reachSeconds(): number {
    const { oldestMs } = this.#figures;
    return oldestMs === Infinity ? 0 : Math.max(0, (this.#needs.clock.nowMs() - oldestMs) / 1000);
  }

  /** Begins, when the state is open. */
  start(): void {
    const { units, clock } = this.#needs;
    const begin = { unit: units.durable, facts: this.#facts };
    this.#moving = this.#guarded(() => this.#ask('begin', begin));
    units.onWaiting(() => void this.#move());
    units.onClosing(() => this.#close());
    this.#timer = clock.every(LOOK_MS, () => this.#look());
  }

  async #close(): Promise<void> {
    this.#timer?.[Symbol.dispose]();
    await this.#move();
    await this.#sync();
    await this.#thread.close();
  }

  #look(): void {
    if (++this.#looks % LOOKS_PER_SYNC === 0) void this.#move().then(() => this.#sync());
    else void this.#move();
  }

  async #sync(): Promise<void> {
    await this.#guarded(async () => {
      this.#synced = await this.#ask('sync', {});
      this.#figures = await this.#ask('figures', {});
    });
  }

  // ---- notes

  noting(execution: ScheduledExecution, actorOf: (handle: number) => NotedActor | undefined): ScheduledExecution {
    return new NotingExecution(execution, actorOf, (id, note) => this.#note(id, note));
  }

  #note(id: Uint8Array, note: Note): void {
    const { storage } = this.#needs;
    storage.unit.put('meta', NOTE_KEY, encodeNote(id, note));
    storage.markDirty();
    this.#hasNoted = true;
    this.#notes++;
  }

  restored(
    kind: 'restore' | 'fork',
    id: Uint8Array,
    { heapBytes, stableBytes, seq }: PastState,
    { version, balance }: { readonly version: number; readonly balance: bigint },
  ): void {
    const none = { instructions: 0, charge: 0, openCalls: 0, timerNs: undefined, caller: NO_BYTES, call: undefined };
    const instantMs = this.#needs.clock.nowMs();
    const sizes = { heapBytes, stableBytes, version, balance, instantMs };
    const argument = Buffer.from(`seq:${seq}`);
    this.#note(id, { kind, outcome: 'done', method: '', argument, ...none, ...sizes });
  }

  // ---- units

  /** Moves everything that is durable when that begins, and what bases have beyond that: units may never end. */
  #move(): Promise<void> {
    if (!this.#isMoveDue) {
      this.#isMoveDue = true;
      this.#moving = this.#moving.then(() => {
        this.#isMoveDue = false;
        return this.#guarded(() => this.#moveAll());
      });
    }
    return this.#moving;
  }

  async #moveAll(): Promise<void> {
    const { units } = this.#needs;
    const { durable } = units;
    let wanted = durable;
    for (let moved = 0; moved < wanted;) {
      const taken = await units.take(this.#synced);
      if (taken.isBehindGap) continue;
      if (taken.units === undefined) break;
      const { frames, last } = taken.units;
      moved = last;
      const { bases } = await this.#ask('take', { frames }, buffersOf(frames));
      // Before the next units are taken: a base is not older than what the timeline has.
      for (const id of bases) wanted = Math.max(wanted, await this.#moveBase(id));
    }
    if ((await this.#ask('last', {})) < durable) await this.#ask('gap', { unit: durable });
  }

  /** Returns the newest unit that the base may have. */
  async #moveBase(id: Uint8Array): Promise<number> {
    const { units } = this.#needs;
    const image = await units.image(id).catch((error: unknown) => {
      // A canister that is damaged has no base.
      if (error instanceof ServerError && error.code === 'state-corrupt') return undefined;
      throw error;
    });
    const hash = await this.#ask('base', { id, image });
    const bytes = hash === undefined ? undefined : await units.module(Buffer.from(hash, 'hex'));
    if (hash !== undefined && bytes !== undefined) await this.#ask('module', { hash, bytes });
    return image?.until ?? 0;
  }

  /** Does what may fail for want of disk, once; the operator is told when that begins, and when it ends. */
  async #guarded(work: () => Promise<void>): Promise<void> {
    const { log } = this.#needs;
    try {
      await work();
      if (this.#isFailing) log.info('timelines are written again; they begin anew behind a gap');
      this.#isFailing = false;
    } catch (error) {
      this.#failures++;
      if (!this.#isFailing) log.warn(`timelines cannot be written, and messages go on without: ${messageOf(error)}`);
      this.#isFailing = true;
    }
  }

  // ---- questions

  async entries(id: Uint8Array, page: PageAsked): Promise<TimelinePage> {
    await this.#caughtUp();
    return await this.#ask('page', { id, page });
  }

  async placeOf(id: Uint8Array, point: TimePoint): Promise<Place> {
    await this.#caughtUp();
    return await this.#ask('placeOf', { id, point });
  }

  async stateAt(id: Uint8Array, point: TimePoint): Promise<PastState> {
    await this.#caughtUp();
    return await this.#ask('stateAt', { id, point });
  }

  async messageAt(id: Uint8Array, seq: number): Promise<PastMessage> {
    await this.#caughtUp();
    return await this.#ask('messageAt', { id, seq });
  }

  async label(id: Uint8Array, label: string, point: TimePoint): Promise<Place> {
    await this.#caughtUp();
    return await this.#ask('label', { id, label, point });
  }

  async unlabel(id: Uint8Array, label: string): Promise<void> {
    await this.#ask('unlabel', { id, label });
  }

  async #caughtUp(): Promise<void> {
    await this.#needs.storage.settled();
    await this.#move();
  }

  async #ask<K extends TimelineRequestKind>(
    kind: K,
    asked: TimelineRequests[K]['asked'],
    transfer: readonly ArrayBuffer[] = [],
  ): Promise<TimelineRequests[K]['answer']> {
    const { directory } = this.#needs.units;
    const host = { directory, bounds: this.#bounds, nowMs: this.#needs.clock.nowMs() };
    const request = { kind, host, ...asked } as unknown as TimelineRequest;
    return (await this.#thread.run(request, transfer)) as TimelineRequests[K]['answer'];
  }
}

function buffersOf(pieces: readonly Uint8Array[]): ArrayBuffer[] {
  return [...new Set(pieces.map(({ buffer }) => buffer as ArrayBuffer))];
}

function gauge(name: string, help: string, read: () => number): ShownNumber {
  return { name: `svc_timeline_${name}`, type: 'gauge', help, read };
}

function counter(name: string, help: string, read: () => number): ShownNumber {
  return { name: `svc_timeline_${name}`, type: 'counter', help, read };
}
