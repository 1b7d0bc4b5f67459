/** Streams of calls between servers, over real connections; the scheduler's side is the test's. */
import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ServerError, systemClock } from '../../../kernel/index.ts';
import { FrameWriter } from '../../../subsystems/cluster/calls/frames.ts';
import { LinkedCluster } from '../../../subsystems/cluster/linked-cluster.ts';
import { Peer } from '../../../subsystems/cluster/link/peer.ts';
import { idInShard } from '../../../subsystems/ic/index.ts';
import type { CallExchange, Conversation, LinkMessage, WayNumber } from '../../../subsystems/scheduler/index.ts';
import { RecordingLogger } from '../../support/kernel.ts';
import { MemoryService } from '../../support/memory-service.ts';

const KEY = Buffer.from('the key that all servers of the service have');
const NOTHING = new Uint8Array(0);

function callOf(number: number, argument = NOTHING): LinkMessage {
  const name = { sender: idInShard(0, 0n), node: 'node-1', number };
  return { kind: 'call', name, callee: idInShard(1, 0n), method: 'm', argument, cycles: 1n, leftMs: undefined };
}

/** One end of a way, whose messages the test gives and takes. */
class Talk implements Conversation {
  isBusy = false;
  readonly taken: LinkMessage[] = [];
  readonly waiting: LinkMessage[] = [];
  readonly wake: () => void;
  problem: Error | undefined;

  constructor(wake: () => void) {
    this.wake = wake;
  }

  next(): LinkMessage | undefined {
    return this.waiting.shift();
  }

  took(message: LinkMessage): void {
    if (this.problem !== undefined) throw this.problem;
    this.taken.push(message);
  }

  say(...messages: readonly LinkMessage[]): void {
    this.waiting.push(...messages);
    this.wake();
  }
}

class Exchange implements CallExchange {
  isOpen = true;
  readonly to: Talk[] = [];
  readonly from: Talk[] = [];
  readonly ways: (WayNumber & { readonly shard: number })[] = [];

  callTo(_shard: number, wake: () => void): Conversation {
    this.to.push(new Talk(wake));
    return this.to.at(-1) ?? assert.fail();
  }

  callsFrom(shard: number, way: WayNumber, wake: () => void): Conversation {
    this.ways.push({ shard, ...way });
    this.from.push(new Talk(wake));
    return this.from.at(-1) ?? assert.fail();
  }
}

interface Server {
  readonly exchange: Exchange;
  readonly cluster: LinkedCluster;
  readonly log: RecordingLogger;
  readonly address: string;
}

async function start(t: TestContext, service: MemoryService, shard: number, isOpen = true): Promise<Server> {
  const [exchange, log] = [new Exchange(), new RecordingLogger()];
  exchange.isOpen = isOpen;
  const cluster = new LinkedCluster(
    { store: service.join(shard), clock: systemClock, log, exchange },
    { host: '127.0.0.1', port: 0, key: KEY, stop: assert.fail },
  );
  t.after(() => cluster.close());
  await cluster.start();
  return { exchange, cluster, log, address: cluster.owners[shard]?.address ?? assert.fail() };
}

async function startTwo(t: TestContext): Promise<{ service: MemoryService; a: Server; b: Server }> {
  const service = new MemoryService(2);
  const [a, b] = [await start(t, service, 0), await start(t, service, 1)];
  await until(() => a.exchange.to.length > 0 && b.exchange.from.length > 0);
  return { service, a, b };
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(5);
}

suite('calls between two servers', () => {
  test('go in order on one stream for each direction, and answers come back on the same', async (t) => {
    const { a, b } = await startTwo(t);
    await until(() => b.exchange.to.length > 0 && a.exchange.from.length > 0);
    const [calling] = a.exchange.to;
    const [called] = b.exchange.from;
    assert.ok(calling !== undefined && called !== undefined);
    const calls = Array.from({ length: 300 }, (_none, number) => callOf(number, new Uint8Array(number * 50)));
    calling.say(...calls);
    await until(() => called.taken.length === calls.length);
    assert.deepEqual(called.taken, calls);
    const { name } = callOf(1);
    called.say({ kind: 'accepted', name });
    await until(() => calling.taken.length > 0);
    assert.deepEqual(calling.taken, [{ kind: 'accepted', name }]);
    assert.deepEqual(b.exchange.ways, [{ shard: 0, epoch: 1, number: 1 }]);
    assert.deepEqual(a.exchange.ways, [{ shard: 1, epoch: 2, number: 1 }]);
  });

  test('wait while the callee’s server stores what has come', async (t) => {
    const { a, b } = await startTwo(t);
    const [calling] = a.exchange.to;
    const [called] = b.exchange.from;
    assert.ok(calling !== undefined && called !== undefined);
    calling.say(callOf(1));
    await until(() => called.taken.length === 1);
    called.isBusy = true;
    // More than all buffers on the way take.
    const large = Array.from({ length: 64 }, (_none, number) => callOf(number, new Uint8Array(2 ** 20)));
    calling.say(...large);
    let before = -1;
    while (calling.waiting.length !== before) {
      before = calling.waiting.length;
      await sleep(100);
    }
    assert.ok(before > 32, `${before} wait at their own server`);
    assert.ok(called.taken.length <= 2);
    called.isBusy = false;
    called.wake();
    await until(() => called.taken.length === 1 + large.length);
  });

  test('begin a new way when a stream ends, and one with the next owner of a shard', async (t) => {
    const { service, a, b } = await startTwo(t);
    const [called] = b.exchange.from;
    assert.ok(called !== undefined);
    called.problem = new ServerError('unavailable', 'link-refused', 'no');
    a.exchange.to[0]?.say(callOf(1));
    await until(() => a.exchange.to.length > 1 && b.exchange.from.length > 1);
    assert.deepEqual(
      b.exchange.ways.map(({ number }) => number),
      [1, 2],
    );
    assert.ok(b.log.lines.some((line) => /a stream of calls from 127\.0\.0\.1 has ended: no/.test(line)));
    b.cluster.close();
    const next = await start(t, service, 1);
    await until(() => next.exchange.from.length > 0);
    assert.equal(next.exchange.ways[0]?.number, a.exchange.to.length);
  });

  test('do not begin before a server has taken over what the one before has left', async (t) => {
    const service = new MemoryService(2);
    const [a, b] = [await start(t, service, 0), await start(t, service, 1, false)];
    await until(() => a.log.lines.some((line) => /calls to actors of shard 1 wait/.test(line)));
    assert.deepEqual([b.exchange.to.length, b.exchange.from.length], [0, 0]);
    b.exchange.isOpen = true;
    await until(() => b.exchange.from.length > 0 && b.exchange.to.length > 0);
    await until(() => a.log.lines.some((line) => /calls go to shard 1 again/.test(line)));
    const waits = a.log.lines.filter((line) => /calls to actors of shard 1 wait/.test(line));
    assert.equal(waits.length, 1, 'told once');
  });

  test('are not taken of a process that owns no shard, nor of one that says another epoch or shard', async (t) => {
    const { b } = await startTwo(t);
    const before = b.exchange.ways.length;
    for (const [own, shard, epoch] of [
      ['a-stranger', 0, 1],
      ['node-1', 0, 7],
      ['node-1', 1, 2],
      ['node-1', 9, 1],
    ] as const) {
      const peer = new Peer({ address: b.address, node: 'node-2', own, key: KEY });
      const socket = await peer.open();
      const ended = new Promise((resolve) => socket.once('close', resolve));
      socket.resume().write(new FrameWriter().write({ kind: 'begin', shard, way: { epoch, number: 1 } }));
      await ended;
      peer.close(new Error('over'));
    }
    assert.equal(b.exchange.ways.length, before);
  });

  test('end with bytes that are no frames, or that come too early', async (t) => {
    const { b } = await startTwo(t);
    const before = b.exchange.from.map(({ taken }) => taken.length);
    for (const bytes of [Buffer.from('GET / HTTP/1.1\r\n\r\n'), new FrameWriter().write(callOf(1))]) {
      const peer = new Peer({ address: b.address, node: 'node-2', own: 'node-1', key: KEY });
      const socket = await peer.open();
      const ended = new Promise((resolve) => socket.once('close', resolve));
      socket.resume().write(bytes);
      await ended;
      peer.close(new Error('over'));
    }
    assert.deepEqual(
      b.exchange.from.map(({ taken }) => taken.length),
      before,
    );
    assert.ok(b.log.lines.some((line) => /has ended: a frame is damaged/.test(line)));
  });
});
