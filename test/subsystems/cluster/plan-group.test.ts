/**
 * The planner of nodes that are groups of processes, as shipped, over random services: nodes come, are lost, stop and
 * start again, see what is there late, and do what the planner says. Turns at free shards are those of the storage.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { turnOf } from '../../../plugins/storage-postgres/turns.ts';
import {
  type GroupStep,
  type GroupView,
  planGroup,
  shardsByGroup,
} from '../../../subsystems/cluster/group/plan-group.ts';
import { seeded, type Seeded } from '../../support/seeded.ts';

type Planner = (view: GroupView) => GroupStep;

interface Process {
  readonly id: string;
  readonly group: string;
  shard: number | undefined;
  /** Turn in which it is gone; undefined: it was not told to end. */
  endsAt: number | undefined;
}

interface Node {
  readonly group: string;
  readonly processesMax: number;
  readonly sparesMax: number;
  /** Turns by which its view is late. */
  readonly lateness: number;
  changedAt: number;
  seen: string;
}

interface Seen {
  readonly owners: readonly (string | undefined)[];
  readonly waiting: ReadonlyMap<string, number>;
}

/** Turns after which a view is settled: more than any view is late. */
const SETTLED = 6;
const LATE_MAX = 4;
/** Turns in which a service comes to rest. */
const REST_TURNS = 400;

class Service {
  readonly shards: number;
  readonly #random: Seeded;
  readonly #planner: Planner;
  readonly nodes: Node[] = [];
  #processes: Process[] = [];
  #past: Seen[] = [];
  #turn = 0;
  #names = 0;
  /** Hand-overs under way, at most; and all that there were. */
  movingMax = 0;
  moves = 0;

  constructor(random: Seeded, planner: Planner, shards: number) {
    this.#random = random;
    this.#planner = planner;
    this.shards = shards;
  }

  add(): void {
    const group = `g${this.#random.below(1_000)}-${this.#names++}`;
    const processesMax = this.shards;
    const sparesMax = 1 + this.#random.below(3);
    this.nodes.push({
      group,
      processesMax,
      sparesMax,
      lateness: this.#random.below(LATE_MAX + 1),
      changedAt: this.#turn,
      seen: '',
    });
    this.#processes.push({ id: group, group, shard: undefined, endsAt: undefined });
  }

  /** All processes of a node are gone at once. */
  lose(node: Node): void {
    this.nodes.splice(this.nodes.indexOf(node), 1);
    this.#processes = this.#processes.filter(({ group }) => group !== node.group);
  }

  /** One shard process is gone. */
  loseProcess(): void {
    const children = this.#processes.filter(({ id, group }) => id !== group);
    const lost = children[this.#random.below(Math.max(1, children.length))];
    this.#processes = this.#processes.filter((process) => process !== lost);
  }

  get now(): Seen {
    const owners = Array.from(
      { length: this.shards },
      (_none, shard) => this.#processes.find((process) => process.shard === shard)?.group,
    );
    const waiting = new Map<string, number>();
    for (const { group, shard, endsAt } of this.#processes)
      if (shard === undefined && endsAt === undefined) waiting.set(group, (waiting.get(group) ?? 0) + 1);
    return { owners, waiting };
  }

  turn(): void {
    this.#turn++;
    this.#processes = this.#processes.filter(({ endsAt }) => endsAt === undefined || endsAt > this.#turn);
    this.#take();
    this.#past = [this.now, ...this.#past].slice(0, LATE_MAX + 1);
    for (const node of this.nodes) this.#plan(node);
    this.movingMax = Math.max(
      this.movingMax,
      this.#processes.filter(({ shard, endsAt }) => shard !== undefined && endsAt !== undefined).length,
    );
  }

  /** Free shards are taken by the processes whose turn it is. */
  #take(): void {
    const free = Array.from({ length: this.shards }, (_none, shard) => shard).filter(
      (shard) => !this.#processes.some((process) => process.shard === shard),
    );
    const groups = this.now.owners.filter((group) => group !== undefined);
    const waiting = this.#processes
      .filter(({ shard, endsAt }) => shard === undefined && endsAt === undefined)
      .map(({ id, group }) => ({ process: id, group, holder: id }));
    for (const process of this.#processes) {
      const place =
        process.shard === undefined && process.endsAt === undefined
          ? turnOf(process.id, free.length, { groups, waiting })
          : undefined;
      if (place !== undefined) process.shard = free[place];
    }
  }

  #plan(node: Node): void {
    const seen = this.#past[Math.min(node.lateness, this.#past.length - 1)] ?? this.now;
    const text = JSON.stringify([seen.owners, [...seen.waiting]]);
    if (text !== node.seen) node.changedAt = this.#turn;
    node.seen = text;
    const own = this.#processes.filter(({ id, group }) => group === node.group && id !== group);
    // A node's first process starts others when it serves a shard.
    if (this.#processes.find(({ id }) => id === node.group)?.shard === undefined) return;
    const owning = own.filter(({ shard, endsAt }) => shard !== undefined && endsAt === undefined);
    const spares = own.filter(({ shard, endsAt }) => shard === undefined && endsAt === undefined);
    const step = this.#planner({
      own: node.group,
      ...seen,
      spares: spares.length,
      owning: owning.length,
      ending: own.length - owning.length - spares.length,
      processesMax: node.processesMax,
      sparesMax: node.sparesMax,
      isSettled: this.#turn - node.changedAt >= SETTLED,
    });
    if (step === 'startSpare')
      this.#processes.push({ id: `p${this.#names++}`, group: node.group, shard: undefined, endsAt: undefined });
    else if (step === 'endSpare') this.#end(spares.at(-1));
    else if (step === 'handOver') {
      this.moves++;
      this.#end(owning.at(-1));
    }
  }

  #end(process: Process | undefined): void {
    assert.ok(process !== undefined, 'there is one');
    process.endsAt = this.#turn + 1 + this.#random.below(3);
  }
}

/** Plays a service; throws where it does not come to rest as it should. */
function play(seed: number, planner: Planner = planGroup): void {
  const random = seeded(seed);
  const service = new Service(random, planner, 1 + random.below(8));
  service.add();
  for (let events = 4 + random.below(8); events > 0; events--) {
    const node = service.nodes[random.below(Math.max(1, service.nodes.length))];
    const what = random.below(4);
    if (what < 2 && service.nodes.length < 6) service.add();
    else if (what === 2 && node !== undefined && service.nodes.length > 1) service.lose(node);
    else service.loseProcess();
    // Often the next event comes before the service is at rest.
    for (let turns = random.below(60); turns > 0; turns--) service.turn();
  }
  for (let turns = REST_TURNS; turns > 0; turns--) service.turn();
  const { owners, waiting } = service.now;
  const counts = [...shardsByGroup({ owners, waiting }).values()];
  const said = `seed ${seed}: ${JSON.stringify([owners, [...waiting]])}`;
  assert.ok(!owners.includes(undefined), `${said}: a shard has no owner`);
  const share = Math.ceil(service.shards / service.nodes.length);
  assert.ok(Math.max(...counts) <= share, `${said}: a node has more than ${share}`);
  assert.ok(service.movingMax <= 1, `${said}: ${service.movingMax} shards moved at once`);
  const movesBefore = service.moves;
  for (let turns = REST_TURNS; turns > 0; turns--) service.turn();
  assert.equal(service.moves, movesBefore, `${said}: shards go to and fro`);
  const others = (group: string): number => owners.filter((owner) => owner !== group).length;
  for (const { group, processesMax } of service.nodes)
    if (others(group) > 0 && owners.filter((owner) => owner === group).length < processesMax)
      assert.ok((waiting.get(group) ?? 0) > 0, `${said}: ${group} has no process that waits`);
}

/** Returns how many of the seeds show a mistake. */
function found(planner: Planner): number {
  let count = 0;
  for (let seed = 1; seed <= 60; seed++) {
    try {
      play(seed, planner);
    } catch {
      count++;
    }
  }
  return count;
}

suite('the planner of nodes', () => {
  test('leaves no shard without an owner, no node over its share, moves one at a time, and comes to rest', () => {
    for (let seed = 1; seed <= 150; seed++) play(seed);
  });

  test('is found to be wrong where a mistake is planted', () => {
    const everybodyAtOnce: Planner = (view) => {
      const counts = shardsByGroup(view);
      const mine = counts.get(view.own) ?? 0;
      const less = [...counts].some(([group, count]) => count <= mine - 2 && (view.waiting.get(group) ?? 0) > 0);
      const isFirst = view.owning > 0 && view.ending === 0 && mine === view.owning + 1;
      return less && isFirst ? 'handOver' : planGroup(view);
    };
    const handsOverForOne: Planner = (view) => {
      const counts = shardsByGroup(view);
      const mine = counts.get(view.own) ?? 0;
      const less = [...counts].some(([group, count]) => count < mine && (view.waiting.get(group) ?? 0) > 0);
      return less && view.owning > 0 && view.ending === 0 && view.isSettled ? 'handOver' : planGroup(view);
    };
    const keepsAll: Planner = (view) => {
      const step = planGroup(view);
      return step === 'handOver' ? 'rest' : step;
    };
    const hasNoSpares: Planner = (view) => {
      const step = planGroup(view);
      return step === 'startSpare' && view.owners.includes(undefined) ? 'rest' : step;
    };
    const mistakes = { everybodyAtOnce, handsOverForOne, keepsAll, hasNoSpares };
    for (const [name, planner] of Object.entries(mistakes)) assert.ok(found(planner) > 0, name);
  });
});
