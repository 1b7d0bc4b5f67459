/**
 * A node as a group of processes (ADR 129): the process that an operator starts, and shard processes that it starts
 * itself. Looks again and again who owns what and who waits, and does what `planGroup` says: starts spares, hands
 * shards over, and at the end gives all of them away.
 *
 * Main thread; a timer, and children.
 */
import { type Clock, type Logger, messageOf, sleep } from '../../../kernel/index.ts';
import type { ServiceStore } from '../index.ts';
import { planGroup, shardsByGroup, sparesWanted, type GroupView } from './plan-group.ts';
import { type ServerCommand, ShardProcess } from './shard-process.ts';

export interface ProcessGroupOptions {
  /** Processes that the node may have, with this one. */
  readonly processesMax: number;
  readonly sparesMax: number;
  readonly command: ServerCommand;
}

interface ProcessGroupNeeds {
  readonly store: Pick<ServiceStore, 'node' | 'shards' | 'owners' | 'waiting' | 'dismiss'>;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** For tests. */
  readonly start?: typeof startShardProcess;
}

const LOOK_MS = 250;
/** Milliseconds for which nothing may have changed before a shard is handed over. */
const SETTLED_MS = 1_000;
/** Milliseconds for which a spare may be one too many. */
const SURPLUS_MS = 10_000;
/** Milliseconds until the next start after one that failed: twice as long each time. */
const AGAIN_MS_MIN = 500;
const AGAIN_MS_MAX = 60_000;
/** Milliseconds after which a process that ends is no reason for a later start. */
const HEALTHY_MS = 30_000;
/** Milliseconds that a stop waits for a shard's next owner before it hands the next one over. */
const NEXT_OWNER_MS = 4_000;
/** Milliseconds for which shards have no owner before that is told. */
const OWNERLESS_MS = 10_000;

interface Seen {
  readonly owners: readonly (string | undefined)[];
  readonly waiting: ReadonlyMap<string, number>;
}

export class ProcessGroup {
  readonly #needs: ProcessGroupNeeds;
  readonly #options: ProcessGroupOptions;
  readonly #processes = new Set<ShardProcess>();
  readonly #startedMs = new Map<ShardProcess, number>();
  #timer: Disposable | undefined;
  #looking: Promise<void> | undefined;
  #seen: Seen = { owners: [], waiting: new Map() };
  #seenText = '';
  /** Ids of the owners' processes. */
  #ownerIds: ReadonlySet<string> = new Set();
  #changedMs: number;
  #surplusSinceMs: number | undefined;
  #ownerlessSinceMs: number | undefined;
  #isToldOwnerless = false;
  #againMs = AGAIN_MS_MIN;
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  #stopping: Promise<void> | undefined;
  /** Shard processes that have ended without being told to. */
  failures = 0;
  /** Shards that were handed over to another node. */
  handedOver = 0;

  constructor(needs: ProcessGroupNeeds, options: ProcessGroupOptions) {
    this.#needs = needs;
    this.#options = options;
    this.#changedMs = needs.clock.nowMs();
  }

  /** Begins. To be called when this process serves a shard. */
  start(): void {
    const { store, clock, log } = this.#needs;
    const { processesMax } = this.#options;
    if (processesMax < 2) return;
    if (store.shards > processesMax)
      log.warn(
        `the service has ${store.shards} shards, and this node runs ${processesMax} processes at most: other nodes have to ` +
          'own the rest, or raise --cluster-processes',
      );
    this.#timer = clock.every(LOOK_MS, () => void this.look());
  }

  get processesMax(): number {
    return this.#options.processesMax;
  }

  /** Numbers of shard processes: those that wait, and those that serve a shard. */
  get counts(): { readonly spares: number; readonly owning: number } {
    const { spares, owning } = this.#countsNow();
    return { spares, owning };
  }

  /** Looks, and takes the next step. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  /** Has the shard processes read their files again. */
  reread(): void {
    for (const process of this.#processes) process.reread();
  }

  /**
   * Ends all shard processes: the spares first, so that they take nothing any more, then the others, as many at once as
   * other nodes have processes that wait. Resolves when they are gone.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #look(): Promise<void> {
    if (this.#stopping !== undefined) return;
    try {
      await this.#see();
    } catch {
      // The owner table tells that the store does not answer; nothing is decided meanwhile.
      this.#changedMs = this.#needs.clock.nowMs();
      return;
    }
    const view = this.#view();
    this.#tellOwnerless(view);
    const step = planGroup(view);
    const nowMs = this.#needs.clock.nowMs();
    if (step !== 'endSpare') this.#surplusSinceMs = undefined;
    if (step === 'startSpare' && !this.#isTakingOver(view)) this.#startSpares(sparesWanted(view) - view.spares);
    else if (step === 'handOver') this.#handOver();
    else if (step === 'endSpare') {
      this.#surplusSinceMs ??= nowMs;
      if (nowMs - this.#surplusSinceMs >= SURPLUS_MS) this.#spares().at(-1)?.end();
    }
  }

  async #see(): Promise<void> {
    const { store, clock } = this.#needs;
    const found = await store.owners();
    const owners = found.map((owner) => owner?.group);
    this.#ownerIds = new Set(found.flatMap((owner) => owner?.node ?? []));
    const waiting = new Map<string, number>();
    for (const { group } of store.waiting) waiting.set(group, (waiting.get(group) ?? 0) + 1);
    this.#seen = { owners, waiting };
    const text = JSON.stringify([owners, [...waiting]]);
    if (text !== this.#seenText) this.#changedMs = clock.nowMs();
    this.#seenText = text;
  }

  #view(): GroupView {
    const { store, clock } = this.#needs;
    const { processesMax, sparesMax } = this.#options;
    const isSettled = clock.nowMs() - this.#changedMs >= SETTLED_MS;
    return { own: store.node, ...this.#seen, ...this.#countsNow(), processesMax, sparesMax, isSettled };
  }

  #countsNow(): Pick<GroupView, 'spares' | 'owning' | 'ending'> {
    const all = [...this.#processes];
    const ending = all.filter(({ isEnding }) => isEnding).length;
    const owning = this.#owning().length;
    return { ending, owning, spares: all.length - ending - owning };
  }

  #owning(): readonly ShardProcess[] {
    return [...this.#processes].filter((process) => !process.isEnding && this.#ownsShard(process));
  }

  #spares(): readonly ShardProcess[] {
    return [...this.#processes].filter((process) => !process.isEnding && !this.#ownsShard(process));
  }

  /** Returns true from when a process has taken a shard: it serves that some moments later. */
  #ownsShard({ note }: ShardProcess): boolean {
    return note !== undefined && (note.shard !== undefined || this.#ownerIds.has(note.process));
  }

  /**
   * Returns true while a process begins to serve the last shard that had no owner: the start of the next spare would
   * take the processor from it, and clients wait.
   */
  #isTakingOver({ owners }: GroupView): boolean {
    return !owners.includes(undefined) && this.#owning().some(({ note }) => note?.shard === undefined);
  }

  #startSpares(count: number): void {
    const { clock, store, start = startShardProcess } = this.#needs;
    if (clock.nowMs() < this.#notBeforeMs) return;
    for (let left = count; left > 0; left--) {
      const process = start(this.#options.command, store.node, {
        owns: (owner) => this.#needs.log.info(`shard process ${owner.pid} serves shard ${owner.note?.shard}`),
        ended: (gone, reason) => this.#ended(gone, reason),
      });
      this.#processes.add(process);
      this.#startedMs.set(process, clock.nowMs());
    }
  }

  #ended(process: ShardProcess, reason: string): void {
    const { clock, log, store } = this.#needs;
    this.#processes.delete(process);
    const livedMs = clock.nowMs() - (this.#startedMs.get(process) ?? 0);
    this.#startedMs.delete(process);
    const { note, isEnding, pid } = process;
    const what = note?.shard === undefined ? 'a spare' : `of shard ${note.shard}`;
    if (isEnding) log.info(`shard process ${pid}, ${what}, has ended: ${reason}`);
    if (isEnding || this.#stopping !== undefined) return;
    this.failures++;
    this.#againMs = livedMs > HEALTHY_MS ? AGAIN_MS_MIN : Math.min(AGAIN_MS_MAX, 2 * this.#againMs);
    this.#notBeforeMs = clock.nowMs() + this.#againMs;
    log.warn(`shard process ${pid}, ${what}, has ended (${reason}); another one is started in ${this.#againMs} ms`);
    if (note === undefined) return;
    // The process is gone for certain, and nobody has to wait until its lease is over.
    store.dismiss(note.process, note.shard).catch((error: unknown) => {
      log.warn(`shard process ${pid} is gone, and the others learn it when its lease is over: ${messageOf(error)}`);
    });
  }

  #handOver(): void {
    const process = this.#owning().at(-1);
    if (process === undefined) return;
    this.handedOver++;
    this.#needs.log.info(
      `shard ${process.note?.shard} goes to another node: this one has ${this.#ownCount()} of ${this.#needs.store.shards}`,
    );
    process.end();
  }

  #ownCount(): number {
    return shardsByGroup(this.#seen).get(this.#needs.store.node) ?? 0;
  }

  /** Tells that shards have no owner, where this node can do nothing about it. */
  #tellOwnerless({ owners, spares }: GroupView): void {
    const { clock, log } = this.#needs;
    const ownerless = [...owners.keys()].filter((shard) => owners[shard] === undefined);
    if (ownerless.length === 0 || spares > 0) {
      this.#ownerlessSinceMs = undefined;
      this.#isToldOwnerless = false;
      return;
    }
    this.#ownerlessSinceMs ??= clock.nowMs();
    if (this.#isToldOwnerless || clock.nowMs() - this.#ownerlessSinceMs < OWNERLESS_MS) return;
    this.#isToldOwnerless = true;
    log.warn(
      `shards without an owner: ${ownerless.join(', ')}; this node runs as many processes as it may ` +
        `(${this.#options.processesMax}): raise --cluster-processes, or start another node`,
    );
  }

  async #stop(): Promise<void> {
    this.#timer?.[Symbol.dispose]();
    await this.#looking;
    const spares = this.#spares();
    for (const spare of spares) spare.end();
    await Promise.all(spares.map(({ ended }) => ended));
    for (;;) {
      const owning = this.#owning();
      if (owning.length === 0) break;
      await this.#see().catch(() => undefined);
      const next = owning.slice(0, this.#takers() ?? owning.length);
      for (const process of next) process.end();
      await Promise.all(next.map(({ ended }) => ended));
      const shards = next.flatMap(({ note }) => note?.shard ?? []);
      if (next.length < owning.length) await this.#untilOwned(shards);
    }
    await Promise.all([...this.#processes].map(({ ended }) => ended));
  }

  /** Returns how many processes of other nodes wait, at least one; undefined: there is no other node. */
  #takers(): number | undefined {
    const { node } = this.#needs.store;
    const groups = [...shardsByGroup(this.#seen).keys()];
    if (!groups.some((group) => group !== node)) return undefined;
    let takers = 0;
    for (const [group, count] of this.#seen.waiting) if (group !== node) takers += count;
    return Math.max(1, takers);
  }

  async #untilOwned(shards: readonly number[]): Promise<void> {
    const { store, clock } = this.#needs;
    const untilMs = clock.nowMs() + NEXT_OWNER_MS;
    while (clock.nowMs() < untilMs) {
      const owners = await store.owners().catch(() => []);
      if (shards.every((shard) => owners[shard]?.address !== undefined)) return;
      await sleep(clock, LOOK_MS);
    }
  }
}

/** Starts a shard process of a group. */
function startShardProcess(...given: ConstructorParameters<typeof ShardProcess>): ShardProcess {
  return new ShardProcess(...given);
}
