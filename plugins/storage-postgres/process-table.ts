/**
 * The processes of a service that own a shard or want one, and the group that each belongs to: a node is a group of
 * processes (`svc_processes`). A
 * process that waits says again and again that it is there; whether one that owns a shard is there tells its lease.
 *
 * Nothing here decides who owns what: a row that is wrong, or missing, costs a move of a shard that was not needed.
 */
import { hostname } from 'node:os';
import type { Clock } from '../api/plugin.ts';
import type { WaitingProcess } from '../api/storage.ts';
import type { Connection } from './connection.ts';
import { SQL } from './schema.ts';

interface ProcessTableOptions {
  /** The service's name in the database. */
  readonly namespace: string;
  /** Id of this process. */
  readonly process: string;
  readonly leaseMs: number;
  readonly clock: Pick<Clock, 'nowMs'>;
}

type Asked = Pick<Connection, 'query'>;

/** Beats of a waiting process in a lease. */
const BEATS = 4;
/** Part of a lease without a look, after which nobody counts as silent: this process may have stood still. */
const STOOD_STILL = 1 / 2;
/** Leases, and milliseconds at least, after which the row of a silent process is deleted. */
const FORGOTTEN_LEASES = 10;
const FORGOTTEN_MS_MIN = 60_000;

interface Heard {
  readonly beat: string;
  readonly sinceMs: number;
}

export class ProcessTable {
  readonly #options: ProcessTableOptions;
  #group: string;
  #heard = new Map<string, Heard>();
  #groups: ReadonlyMap<string, string> = new Map();
  #waiting: readonly WaitingProcess[] = [];
  #lookedMs = Number.NEGATIVE_INFINITY;
  #beatMs = Number.NEGATIVE_INFINITY;

  constructor(options: ProcessTableOptions) {
    this.#options = options;
    this.#group = options.process;
  }

  /** Names the group that this process belongs to, by the id of its first process. Default: one of its own. */
  join(group: string): void {
    this.#group = group;
  }

  /** Returns the group of a process, as of the newest look; one that has not said so is a group by itself. */
  groupOf(process: string): string {
    return process === this.#options.process ? this.#group : (this.#groups.get(process) ?? process);
  }

  /** Processes that are there and own no shard, as of the newest look. */
  get waiting(): readonly WaitingProcess[] {
    return this.#waiting;
  }

  /** Says that this process is there, if it is time to. */
  async beat(connection: Asked): Promise<void> {
    const { namespace, process, leaseMs, clock } = this.#options;
    const nowMs = clock.nowMs();
    if (nowMs - this.#beatMs < leaseMs / BEATS) return;
    await connection.query(SQL.joinProcess, [namespace, process, this.#group, holderOfThis()]);
    this.#beatMs = nowMs;
  }

  /** Looks who is there. `owners` are the processes that own a shard. */
  async look(connection: Asked, owners: ReadonlySet<string>): Promise<void> {
    const { namespace, process: own, clock, leaseMs } = this.#options;
    const { rows } = await connection.query(SQL.seeProcesses, [namespace]);
    const nowMs = clock.nowMs();
    const stoodStill = nowMs - this.#lookedMs > leaseMs * STOOD_STILL;
    this.#lookedMs = nowMs;
    const [heard, groups, waiting] = [new Map<string, Heard>(), new Map<string, string>(), [] as WaitingProcess[]];
    const forgotten: [string, string][] = [];
    for (const [process, group, holder, beat] of rows.map((row) => row.map(String))) {
      if (process === undefined || group === undefined || holder === undefined || beat === undefined) continue;
      const before = this.#heard.get(process);
      const isSame = before?.beat === beat && !stoodStill;
      const since = isSame ? before : { beat, sinceMs: nowMs };
      heard.set(process, since);
      groups.set(process, group);
      if (owners.has(process)) continue;
      const silentMs = nowMs - since.sinceMs;
      if (process === own || silentMs < leaseMs) waiting.push({ process, group, holder });
      else if (silentMs > Math.max(FORGOTTEN_MS_MIN, leaseMs * FORGOTTEN_LEASES)) forgotten.push([process, beat]);
    }
    [this.#heard, this.#groups, this.#waiting] = [heard, groups, waiting];
    for (const [process, beat] of forgotten) await connection.query(SQL.forgetProcess, [namespace, process, beat]);
    // A database that went back to an older moment has no row of an owner that goes on.
    if (owners.has(own) && !groups.has(own)) await this.beat(connection);
  }

  /** This process ends, and wants nothing more. */
  async leave(connection: Asked): Promise<void> {
    const { namespace, process } = this.#options;
    await connection.query(SQL.leaveProcess, [namespace, process]);
  }
}

/** Returns the name of this process for people. */
export function holderOfThis(): string {
  return `${hostname()} pid ${process.pid}`;
}
