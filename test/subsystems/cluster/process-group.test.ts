/** A node's group of processes, over a store in memory and processes that are played. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ProcessGroup } from '../../../subsystems/cluster/group/process-group.ts';
import type { ShardNote, ShardProcess } from '../../../subsystems/cluster/group/shard-process.ts';
import type { ShardOwner, WaitingProcess } from '../../../subsystems/cluster/index.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const OWN = 'own';
const OTHER = 'other';
const command = { script: '', args: [], environmentOf: () => ({}) };

/** A shard process that does what a test says. */
class PlayedProcess implements Pick<ShardProcess, 'pid' | 'note' | 'isEnding' | 'ended' | 'end' | 'reread'> {
  readonly #gone = Promise.withResolvers<void>();
  readonly pid: number;
  readonly #events: { ended(process: never, reason: string): void };
  note: ShardNote | undefined;
  isEnding = false;
  isGone = false;

  constructor(pid: number, events: { ended(process: never, reason: string): void }) {
    this.pid = pid;
    this.#events = events;
    this.note = { process: `process-${pid}`, shard: undefined };
  }

  get ended(): Promise<void> {
    return this.#gone.promise;
  }

  end(): void {
    this.isEnding = true;
  }

  reread(): void {
    // Nothing is kept.
  }

  go(reason: string): void {
    this.isGone = true;
    this.#events.ended(this as never, reason);
    this.#gone.resolve();
  }
}

class Played {
  readonly clock = new FakeClock();
  readonly processes: PlayedProcess[] = [];
  readonly lines: string[] = [];
  readonly dismissed: (readonly [string, number | undefined])[] = [];
  owners: (ShardOwner | undefined)[];
  waiting: WaitingProcess[] = [];
  readonly group: ProcessGroup;

  constructor(shards: number, processesMax = 8, sparesMax = 2) {
    this.owners = Array.from({ length: shards }, () => undefined);
    const log = (line: string): void => void this.lines.push(line);
    const played = (): readonly WaitingProcess[] => this.waiting;
    const store = {
      node: OWN,
      shards,
      owners: () => Promise.resolve(this.owners),
      get waiting() {
        return played();
      },
      dismiss: (process: string, shard: number | undefined) => {
        this.dismissed.push([process, shard]);
        return Promise.resolve();
      },
    };
    const start = (...[, , events]: readonly [unknown, unknown, { ended(process: never, reason: string): void }]) => {
      const process = new PlayedProcess(this.processes.length + 1, events);
      this.processes.push(process);
      return process as unknown as ShardProcess;
    };
    this.group = new ProcessGroup(
      { store, clock: this.clock, log: { info: log, warn: log }, start },
      { processesMax, sparesMax, command },
    );
    this.owns(0, OWN);
    this.group.start();
  }

  owns(shard: number, group: string, node = group): void {
    const address = '127.0.0.1:1';
    this.owners[shard] = { shard, node, group, holder: node, address, epoch: 1, silentMs: 0 };
  }

  /** A process takes a shard, and serves it. */
  serves(process: PlayedProcess, shard: number): void {
    process.note = { process: `process-${process.pid}`, shard };
    this.owns(shard, OWN, `process-${process.pid}`);
  }

  waits(group: string, count: number): void {
    this.waiting = Array.from({ length: count }, (_none, at) => ({ process: `${group}-${at}`, group, holder: group }));
  }

  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 50) {
      this.clock.advance(50);
      for (let turn = 0; turn < 5; turn++) await nextTurn();
    }
  }

  get there(): readonly PlayedProcess[] {
    return this.processes.filter(({ isGone }) => !isGone);
  }
}

suite('a group of processes', () => {
  test('has spares as long as others own shards or nobody does, and no more processes than it may', async () => {
    const played = new Played(6, 4, 2);
    await played.pass(500);
    assert.equal(played.there.length, 2);
    for (const [at, process] of played.there.entries()) played.serves(process, at + 1);
    await played.pass(500);
    assert.equal(played.there.length, 3, 'three besides the first');
    const [, , third] = played.processes;
    assert.ok(third !== undefined);
    played.serves(third, 3);
    await played.pass(15_000);
    assert.equal(played.there.length, 3);
    assert.match(played.lines.join('\n'), /has 6 shards, and this node runs 4 processes at most/);
    assert.match(played.lines.join('\n'), /shards without an owner: 4, 5; .*\(4\): raise --cluster-processes/);
  });

  test('replaces a process that ends, after a pause that doubles, and has its shard be free at once', async () => {
    const played = new Played(3);
    await played.pass(500);
    const [first, second] = played.processes;
    assert.ok(first !== undefined && second !== undefined);
    played.serves(first, 1);
    played.serves(second, 2);
    await played.pass(500);
    assert.equal(played.processes.length, 2, 'all shards are this node’s');
    played.owners[1] = undefined;
    first.go('signal SIGKILL');
    await played.pass(500);
    assert.deepEqual(played.dismissed, [['process-1', 1]]);
    assert.match(played.lines.join('\n'), /shard process 1, of shard 1, has ended \(signal SIGKILL\)/);
    assert.equal(played.group.failures, 1);
    const starts: number[] = [];
    let passedMs = 0;
    while (starts.length < 4) {
      const count: number = played.processes.length;
      await played.pass(250);
      passedMs += 250;
      if (played.processes.length === count) continue;
      starts.push(passedMs);
      for (const process of played.there.filter((each) => each !== second)) process.go('exit code 1');
    }
    const pauses = starts.slice(1).map((ms, at) => ms - (starts[at] ?? 0));
    assert.ok((pauses[1] ?? 0) > 1.5 * (pauses[0] ?? 0) && (pauses[2] ?? 0) > 1.5 * (pauses[1] ?? 0), String(pauses));
  });

  test('hands a shard over to a node with two less that waits, one at a time', async () => {
    const played = new Played(4);
    await played.pass(500);
    for (let shard = 1; shard < 4; shard++) {
      await played.pass(500);
      const spare = played.there.find(({ note }) => note?.shard === undefined);
      assert.ok(spare !== undefined);
      played.serves(spare, shard);
    }
    await played.pass(500);
    const ending = (): readonly PlayedProcess[] => played.there.filter(({ isEnding }) => isEnding);
    assert.deepEqual(ending(), []);
    played.waits(OTHER, 1);
    await played.pass(5_000);
    assert.equal(ending().length, 1);
    const [gone] = ending();
    gone?.go('exit code 0');
    played.owns(gone?.note?.shard ?? 0, OTHER);
    played.waits(OTHER, 1);
    await played.pass(5_000);
    assert.equal(ending().length, 1, 'it has one, and this node three');
    const [next] = ending();
    next?.go('exit code 0');
    played.owns(next?.note?.shard ?? 0, OTHER);
    await played.pass(20_000);
    assert.equal(ending().filter(({ note }) => note?.shard !== undefined).length, 0, 'two each');
    assert.equal(played.group.handedOver, 2);
    assert.deepEqual(played.dismissed, []);
  });

  test('stops with its spares first, then as many as others wait for', async () => {
    const played = new Played(4);
    for (let shard = 1; shard < 3; shard++) {
      await played.pass(500);
      const spare = played.there.find(({ note }) => note?.shard === undefined);
      assert.ok(spare !== undefined);
      played.serves(spare, shard);
    }
    played.owns(3, OTHER);
    await played.pass(500);
    played.waits(OTHER, 1);
    const isSpare = ({ note }: PlayedProcess): boolean => note?.shard === undefined;
    assert.ok(played.there.some(isSpare));
    let isOver = false;
    void played.group.stop().then(() => (isOver = true));
    await played.pass(200);
    assert.ok(played.there.every((process) => process.isEnding === isSpare(process)));
    for (const process of played.there.filter(isSpare)) process.go('exit code 0');
    await played.pass(200);
    const [one, ...more] = played.there.filter(({ isEnding }) => isEnding);
    assert.ok(one !== undefined && more.length === 0);
    played.owners[one.note?.shard ?? 0] = undefined;
    one.go('exit code 0');
    await played.pass(1_000);
    assert.ok(
      played.there.every(({ isEnding }) => !isEnding),
      'its shard has no next owner yet',
    );
    played.owns(one.note?.shard ?? 0, OTHER);
    await played.pass(1_000);
    const [last] = played.there;
    assert.ok(last?.isEnding === true && !isOver);
    last.go('exit code 0');
    await played.pass(200);
    assert.ok(isOver);
  });
});
