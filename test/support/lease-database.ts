/**
 * A database for leases that goes away, and processes that stand still or die, over a clock that is moved by hand. Each
 * of the namespaces has one row, as the SQL of schema.ts changes it.
 */
import type { Clock } from '../../kernel/index.ts';
import type { ConnectionOptions, Outcome, Row, Statement, Value } from '../../plugins/storage-postgres/connection.ts';
import { ConnectionLost } from '../../plugins/storage-postgres/database-errors.ts';
import type { LeaseConnection } from '../../plugins/storage-postgres/lease.ts';
import { SCHEMA_VERSION } from '../../plugins/storage-postgres/schema.ts';
import type { FakeClock } from './fake-clock.ts';

const LATENCY_MS = 5;
/**
 * `refused`: connections break and cannot be made; `silent`: nothing is answered; `readOnly`: writes are refused;
 * `stuck`: nothing is ever answered over connections that existed before, and new ones work.
 */
type Trouble = 'refused' | 'silent' | 'readOnly' | 'stuck';

export interface Outage<Who extends string = string> {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly whom: readonly Who[];
  readonly trouble: Trouble;
}

interface OwnerRow {
  owner: string | null;
  holder: string | null;
  leaseMs: number;
  beat: number;
}

export class FakeDatabase {
  readonly #clock: FakeClock;
  readonly #outages: readonly Outage[];
  readonly #startMs: number;
  readonly #rows: ReadonlyMap<string, OwnerRow>;
  /** Rows of processes: id, group, name, beat. */
  readonly #processes = new Map<string, [group: string, holder: string, beat: number]>();
  /** Times at which namespaces were taken. */
  readonly takenMs: number[] = [];

  constructor(clock: FakeClock, outages: readonly Outage[], namespaces: readonly string[] = ['svc']) {
    this.#clock = clock;
    this.#outages = outages;
    this.#startMs = clock.nowMs();
    this.#rows = new Map(namespaces.map((name) => [name, { owner: null, holder: null, leaseMs: 0, beat: 0 }]));
  }

  get nowMs(): number {
    return this.#clock.nowMs() - this.#startMs;
  }

  troubleOf(who: string): Outage | undefined {
    const { nowMs } = this;
    return this.#outages.find(({ fromMs, untilMs, whom }) => whom.includes(who) && fromMs <= nowMs && nowMs < untilMs);
  }

  /** Returns true if connections made at `madeMs` are gone. */
  brokenSince(who: string, madeMs: number): boolean {
    const { nowMs } = this;
    return this.#outages.some(
      ({ fromMs, whom, trouble }) => trouble === 'refused' && whom.includes(who) && madeMs <= fromMs && fromMs <= nowMs,
    );
  }

  isStuck(who: string, madeMs: number): boolean {
    const { nowMs } = this;
    return this.#outages.some(
      ({ fromMs, whom, trouble }) => trouble === 'stuck' && whom.includes(who) && madeMs <= fromMs && fromMs <= nowMs,
    );
  }

  execute(name: string, values: readonly Value[]): Outcome {
    const [namespace, second, third, fourth, fifth] = values;
    const row = this.#rows.get(String(namespace));
    if (row === undefined) throw new Error(`${name} of no namespace`);
    switch (name) {
      case 'svc_see_owner':
        return { rows: [seen(row)], count: 1 };
      case 'svc_see_owners':
        return { rows: [...this.#rows.values()].map((each) => [...seen(each), null, '1']), count: this.#rows.size };
      case 'svc_take_owner':
        if (second !== String(row.beat)) return { rows: [], count: 0 };
        [row.owner, row.holder, row.leaseMs] = [String(third), String(fourth), Number(fifth)];
        row.beat++;
        this.takenMs.push(this.nowMs);
        return { rows: [], count: 1 };
      case 'svc_beat':
        if (second !== row.owner) return { rows: [], count: 0 };
        row.beat++;
        return { rows: [], count: 1 };
      case 'svc_join_process': {
        const [, , beat = 0] = this.#processes.get(String(second)) ?? [];
        this.#processes.set(String(second), [String(third), String(fourth), beat + 1]);
        return { rows: [], count: 1 };
      }
      case 'svc_see_processes':
        return {
          rows: [...this.#processes].map(([id, [group, holder, beat]]) => [id, group, holder, `${beat}`]),
          count: 1,
        };
      case 'svc_leave_process':
        this.#processes.delete(String(second));
        return { rows: [], count: 1 };
      default:
        return { rows: [], count: 1 };
    }
  }
}

const seen = ({ owner, holder, leaseMs, beat }: OwnerRow): Row => [owner, holder, leaseMs, String(beat)];

/** Clock of a process that may stand still: timers that are due meanwhile are called when the process goes on. */
export class ProcessClock implements Pick<Clock, 'nowMs' | 'after' | 'every'> {
  readonly #clock: FakeClock;
  #late: (() => void)[] | undefined;

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  nowMs(): number {
    return this.#clock.nowMs();
  }

  after(ms: number, work: () => void): Disposable {
    return this.#clock.after(ms, () => (this.#late === undefined ? work() : void this.#late.push(work)));
  }

  every(ms: number, work: () => void): Disposable {
    return this.#clock.every(ms, work);
  }

  stop(): void {
    this.#late = [];
  }

  goOn(): void {
    const late = this.#late ?? [];
    this.#late = undefined;
    for (const work of late) work();
  }
}

class FakeConnection implements LeaseConnection {
  readonly #database: FakeDatabase;
  readonly #who: string;
  readonly #clock: Pick<Clock, 'after'>;
  readonly #statementMs: number;
  readonly #madeMs: number;
  isBroken = false;

  constructor(database: FakeDatabase, who: string, clock: Pick<Clock, 'after'>, statementMs: number) {
    this.#database = database;
    this.#who = who;
    this.#clock = clock;
    this.#statementMs = statementMs;
    this.#madeMs = database.nowMs;
  }

  async query({ name }: Statement, values: Value[]): Promise<Outcome> {
    await this.#wait(LATENCY_MS);
    if (this.#database.isStuck(this.#who, this.#madeMs)) {
      await this.#wait(this.#statementMs);
      this.#lose('nothing was answered');
    }
    const silent = this.#database.troubleOf(this.#who);
    if (silent?.trouble === 'silent') {
      // A packet that is sent again, at gaps that double, may come as late after the outage as the outage was long.
      const left = silent.untilMs - this.#database.nowMs;
      await this.#wait(Math.min(this.#statementMs, left * 2));
      if (left * 2 > this.#statementMs) this.#lose('nothing was answered');
    }
    const trouble = this.#database.troubleOf(this.#who)?.trouble;
    if (trouble === 'refused' || this.#database.brokenSince(this.#who, this.#madeMs)) this.#lose('terminated');
    if (trouble === 'readOnly' && !name.startsWith('svc_see_owner'))
      throw Object.assign(new Error('cannot execute UPDATE in a read-only transaction'), { code: '25006' });
    const outcome = this.#database.execute(name, values);
    await this.#wait(LATENCY_MS);
    return outcome;
  }

  #lose(words: string): never {
    this.isBroken = true;
    throw new ConnectionLost(new Error(words));
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#clock.after(ms, resolve));
  }

  run(): Promise<Outcome> {
    return Promise.resolve({ rows: [[SCHEMA_VERSION]], count: 1 });
  }

  transaction<T>(work: () => Promise<T>): Promise<T> {
    return work();
  }

  destroy(): void {
    this.isBroken = true;
  }

  end(): Promise<void> {
    return Promise.resolve();
  }
}

/** Returns a function that makes connections of one process. */
export function opening(database: FakeDatabase, who: string, clock: Pick<Clock, 'after'>, takesMs: number) {
  const wait = (ms: number): Promise<void> => new Promise((resolve) => void clock.after(ms, resolve));
  return async ({ connectMs = 0, statementMs = 0 }: ConnectionOptions): Promise<LeaseConnection> => {
    const before = database.troubleOf(who)?.trouble;
    // A lost first packet is sent again much later.
    await wait(before === 'silent' ? connectMs : takesMs);
    const trouble = database.troubleOf(who)?.trouble;
    if (before === 'silent' || trouble === 'silent' || trouble === 'refused')
      throw new ConnectionLost(new Error('no connection'));
    return new FakeConnection(database, who, clock, statementMs);
  };
}
