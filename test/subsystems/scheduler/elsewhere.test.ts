/** Calls between shards as one server sees them; test/simulation/shards has two, with accidents. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { idInShard, principalToText, REJECT_CODE, type Response } from '../../../subsystems/ic/index.ts';
import type { Conversation, LinkMessage } from '../../../subsystems/scheduler/index.ts';
import { payloadKey } from '../../../subsystems/storage/index.ts';
import { DurableHost } from './durable-host.ts';
import { callOf, idOf, MODULE, REPLY, STEP } from './held-execution.ts';

const SERVICE = { shards: 2, shard: 0, node: 'node-1' };
const FAR = idInShard(1, 0n);
const REPLIED: Response = { kind: 'reply', data: Uint8Array.of(7) };
const SENT = { kind: 'call', callee: FAR, method: 'm', argument: new Uint8Array(0), cycles: 0n, leftMs: undefined };

type Options = ConstructorParameters<typeof DurableHost>[0];

/** A host of shard 0 with two canisters; what an earlier one has left is taken over. */
function started(options: Options = {}): DurableHost {
  const host = new DurableHost({ service: SERVICE, ...options }).admit([0, 1]);
  host.scheduler.restore(options.entries ?? []);
  return host;
}

async function restarted(host: DurableHost, options: Options = {}): Promise<DurableHost> {
  return started({ entries: await host.entries(), service: { ...SERVICE, node: 'node-2' }, ...options });
}

/** Begins a way for calls to the other shard. */
const callTo = (host: DurableHost): Conversation => host.scheduler.exchange.callTo(1, () => undefined);

/** Begins a way for the other shard's calls. */
function callsFrom(host: DurableHost, number = 1): Conversation {
  const way = host.scheduler.exchange.callsFrom(1, { epoch: 1, number }, () => undefined);
  assert.ok(way !== undefined);
  return way;
}

/** Has canister 0 call one of the other shard. */
function call(host: DurableHost, more: Parameters<typeof callOf>[1] = {}): ReturnType<DurableHost['deliver']> {
  const told = host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(FAR, more)] });
  return told;
}

function nameOf(message: LinkMessage | undefined): LinkMessage['name'] {
  assert.ok(message !== undefined);
  return message.name;
}

/** A call of a canister of the other shard. */
function arriving(number: number, more: Partial<LinkMessage & { kind: 'call' }> = {}): LinkMessage {
  const name = { sender: FAR, node: 'far-1', number };
  const rest = { callee: idOf(0), method: 'm', argument: Uint8Array.of(1), cycles: 0n, leftMs: undefined };
  return { kind: 'call', name, ...rest, ...more };
}

/** Rejects are told by their code and text. */
const told = (message: LinkMessage | undefined): unknown =>
  message?.kind === 'response' && message.response.kind === 'reject'
    ? [message.response.code, message.response.message, message.refunded]
    : message;

async function erased(host: DurableHost): Promise<void> {
  host.journal.markDirty();
  assert.deepEqual(await host.entries(), []);
}

suite('a call to a canister of another shard', () => {
  test('is sent when it is durable, and again on every way until it is accepted', async () => {
    const host = started();
    const way = callTo(host);
    call(host, { cycles: 5n });
    assert.equal(way.next(), undefined, 'not durable yet');
    await host.commit();
    const sent = way.next();
    assert.deepEqual(sent, { ...SENT, cycles: 5n, name: { sender: idOf(0), node: 'node-1', number: 1 } });
    assert.equal(way.next(), undefined);
    const again = callTo(host);
    assert.equal(way.next(), undefined, 'another way has taken its place');
    way.took({ kind: 'accepted', name: nameOf(sent) });
    assert.deepEqual(again.next(), sent, 'the old way says nothing that counts');
    again.took({ kind: 'accepted', name: nameOf(sent) });
    assert.equal(callTo(host).next(), undefined);
  });

  test('gets its response once, which is confirmed when it is durable, and leaves nothing', async () => {
    const host = started();
    const client = call(host, { cycles: 5n });
    await host.commit();
    const way = callTo(host);
    const name = nameOf(way.next());
    way.took({ kind: 'response', name, response: REPLIED, refunded: 3n });
    const task = host.execution.started.at(-1)?.task;
    assert.ok(task?.kind === 'callback');
    assert.deepEqual([task.response, task.refunded], [REPLIED, 3n]);
    assert.equal(way.next(), undefined, 'not durable yet');
    await host.commit();
    assert.deepEqual(way.next(), { kind: 'done', name });
    way.took({ kind: 'response', name, response: REPLIED, refunded: 3n });
    assert.deepEqual(way.next(), { kind: 'done', name }, 'a repeat is confirmed, and nothing else');
    host.execution.endOne();
    assert.equal(host.execution.running, 0);
    await host.commit();
    assert.equal(client.outcome?.kind, 'reply');
    await erased(host);
  });

  test('goes on under its name after a restart, sent again if it was not accepted', async () => {
    const host = started();
    call(host);
    call(host, { payload: Uint8Array.of(2) });
    await host.commit();
    const way = callTo(host);
    const [first, second] = [way.next(), way.next()];
    way.took({ kind: 'accepted', name: nameOf(first) });
    host.journal.markDirty();
    const next = await restarted(host);
    const after = callTo(next);
    assert.deepEqual(after.next(), second);
    assert.equal(after.next(), undefined);
    for (const name of [nameOf(first), nameOf(second)])
      after.took({ kind: 'response', name, response: REPLIED, refunded: 0n });
    assert.deepEqual(
      next.execution.started.map(({ task }) => task.kind),
      ['callback', 'callback'],
    );
    next.execution.endAll();
    await erased(next);
  });

  test('erases the rows of its argument when it is accepted', async () => {
    const host = started();
    const row = payloadKey(FAR, { version: 1, index: 0, piece: 0 });
    host.journal.unit.put('queue', row, Uint8Array.of(9));
    call(host, { storedAs: payloadKey(FAR, { version: 1, index: 0, piece: 1 }), payload: Uint8Array.of(9) });
    const isThere = async (): Promise<boolean> =>
      (await host.entries()).some(([key]) => Buffer.compare(key, row) === 0);
    assert.ok(await isThere());
    const way = callTo(host);
    const sent = way.next();
    assert.ok(sent?.kind === 'call');
    assert.deepEqual(sent.argument, Uint8Array.of(9));
    way.took({ kind: 'accepted', name: sent.name });
    host.journal.markDirty();
    assert.ok(!(await isThere()));
  });

  test('ends at its deadline, and is not sent any more if it has not been', async () => {
    const host = started();
    host.scheduler.beginTicking();
    call(host, { timeoutSeconds: 2 });
    call(host, { timeoutSeconds: 2 });
    await host.commit();
    host.clock.advance(500);
    const way = callTo(host);
    const sent = way.next();
    assert.ok(sent?.kind === 'call');
    assert.equal(sent.leftMs, 1500);
    host.clock.advance(1500);
    const codes = host.execution.started.flatMap(({ task }) =>
      task.kind === 'callback' && task.response.kind === 'reject' ? [task.response.code] : [],
    );
    assert.deepEqual(codes, [6, 6]);
    host.execution.endAll();
    assert.equal(way.next(), undefined);
    assert.equal(callTo(host).next(), undefined);
    await erased(host);
    way.took({ kind: 'response', name: sent.name, response: REPLIED, refunded: 0n });
    assert.equal(host.execution.running, 0, 'nobody waits for it');
  });

  test('waits for ever for a shard that nobody owns, and its canister stops when it is answered', async () => {
    const host = started();
    call(host);
    await host.commit();
    let isStopped = false;
    void host.scheduler.stop(0).then(() => (isStopped = true));
    host.clock.advance(60_000);
    await host.commit();
    assert.equal(isStopped, false);
    const way = callTo(host);
    way.took({ kind: 'response', name: nameOf(way.next()), response: REPLIED, refunded: 0n });
    host.execution.endOne();
    await host.commit();
    assert.ok(isStopped);
  });

  test('is over when its canister is deleted, and is not sent after that', async () => {
    const host = started();
    call(host);
    await host.commit();
    const way = callTo(host);
    const name = nameOf(way.next());
    call(host);
    await host.scheduler.endCalls(0);
    host.scheduler.withdraw(0);
    await host.commit();
    way.took({ kind: 'response', name, response: REPLIED, refunded: 5n });
    assert.equal(host.execution.running, 0);
    assert.equal(callTo(host).next()?.kind, undefined);
    await erased(host);
  });

  test('of a composite query is rejected with a text that says why', () => {
    const methods = new Map([...MODULE.methods, ['c', 'composite_query'] as const]);
    const entries = new Map([...MODULE.entries, ['canister_composite_query c', 4]]);
    const host = new DurableHost({ service: SERVICE }).admit([0], { module: { ...MODULE, methods, entries } });
    const message = { kind: 'query', method: 'c', caller: idOf(9), argument: new Uint8Array(0) } as const;
    void host.scheduler.deliver(0, message);
    host.execution.endOne({ ...STEP, charge: 0, frame: 1, calls: [callOf(FAR, { method: 'q' })] });
    const task = host.execution.started.at(-1)?.task;
    assert.ok(task?.kind === 'callback' && task.response.kind === 'reject');
    const far = principalToText(FAR);
    assert.equal(task.response.message, `Canister ${far} is in another shard: a composite query cannot call it`);
  });

  test('is one to nobody on a host that is a service by itself, and to a shard that the service has not', async () => {
    for (const [service, id] of [
      [undefined, FAR],
      [SERVICE, idInShard(2, 0n)],
    ] as const) {
      const host = new DurableHost({ service }).admit([0]);
      host.deliver(0);
      host.execution.endOne({ ...STEP, calls: [callOf(id)] });
      await host.commit();
      const task = host.execution.started.at(-1)?.task;
      assert.ok(task?.kind === 'callback' && task.response.kind === 'reject');
      assert.equal(task.response.code, REJECT_CODE.DESTINATION_INVALID);
    }
  });
});

suite('a call from a canister of another shard', () => {
  test('is accepted when it is durable, and its repeats are dropped', async () => {
    const host = started();
    const way = callsFrom(host);
    way.took(arriving(1, { cycles: 9n, leftMs: 500 }));
    const task = host.execution.started.at(-1)?.task;
    assert.ok(task?.kind === 'update');
    assert.deepEqual(
      [task.context.caller, task.context.cyclesAvailable, task.context.deadlineNs, task.argument],
      [FAR, 9n, 1_500_000_000n, Uint8Array.of(1)],
    );
    assert.equal(way.next(), undefined, 'not durable yet');
    await host.commit();
    const { name } = arriving(1);
    assert.deepEqual(way.next(), { kind: 'accepted', name });
    const again = callsFrom(host, 2);
    again.took(arriving(1));
    await host.commit();
    assert.deepEqual(again.next(), { kind: 'accepted', name });
    assert.equal(host.execution.started.length, 1);
  });

  test('has its answer kept until its server has that, over a restart, and then nothing is left', async () => {
    const host = started();
    callsFrom(host).took(arriving(1, { cycles: 9n }));
    await host.commit();
    host.execution.endOne({ ...REPLY, cyclesAccepted: 4n });
    const next = await restarted(host);
    const way = callsFrom(next);
    const { name } = arriving(1);
    const response = { kind: 'response', name, response: { kind: 'reply', data: new Uint8Array(0) }, refunded: 5n };
    assert.deepEqual(way.next(), response);
    way.took(arriving(1));
    assert.equal(next.execution.started.length, 0, 'known over the restart');
    const again = callsFrom(next, 2);
    assert.deepEqual(again.next(), response);
    again.took({ kind: 'done', name });
    assert.equal(callsFrom(next, 3).next(), undefined);
    await erased(next);
  });

  test('that had begun before a restart is executed again if its effects are not durable, and answered once', async () => {
    const host = started();
    callsFrom(host).took(arriving(1));
    await host.commit();
    const next = await restarted(host);
    assert.equal(next.execution.started.length, 1);
    next.execution.endOne();
    await next.commit();
    const way = callsFrom(next);
    assert.equal(way.next()?.kind, 'response');
    assert.equal(way.next(), undefined);
  });

  test('is rejected as one of this shard would be', async () => {
    const host = started();
    host.scheduler.setMinimumCycles(1, 100n);
    const way = callsFrom(host);
    const nobody = idInShard(0, 77n);
    way.took(arriving(1, { callee: nobody, cycles: 3n }));
    way.took(arriving(2, { method: 'none' }));
    way.took(arriving(3, { callee: idOf(1), cycles: 3n }));
    await host.scheduler.stop(0);
    way.took(arriving(4));
    await host.commit();
    for (let left = 4; left > 0; left--) assert.equal(way.next()?.kind, 'accepted');
    const [own, other] = [principalToText(idOf(0)), principalToText(idOf(1))];
    assert.deepEqual(
      [1, 2, 3, 4].map(() => told(way.next())),
      [
        [3, `No route to canister ${principalToText(nobody)}`, 3n],
        [5, `Canister ${own} has no update method 'none'`, 0n],
        [5, `Canister ${other} wants at least 100 cycles with a call, and got 3`, 3n],
        [5, `Canister ${own} is stopped`, 0n],
      ],
    );
  });

  test('that comes while its server stops is accepted, and executed by the next one', async () => {
    const host = started();
    call(host);
    await host.commit();
    const own = callTo(host);
    const name = nameOf(own.next());
    const drained = host.scheduler.drain();
    const way = callsFrom(host);
    way.took(arriving(1));
    own.took({ kind: 'response', name, response: REPLIED, refunded: 0n });
    assert.equal(host.execution.running, 0, 'nothing begins any more');
    await host.commit();
    assert.deepEqual(way.next(), { kind: 'accepted', name: arriving(1).name });
    assert.deepEqual(own.next(), { kind: 'done', name });
    await drained;
    const next = await restarted(host);
    assert.deepEqual(
      next.execution.started.map(({ task }) => task.kind),
      ['update', 'callback'],
    );
    next.execution.endAll();
    await next.commit();
    const after = callsFrom(next);
    assert.equal(after.next()?.kind, 'response');
    after.took({ kind: 'done', name: arriving(1).name });
    await erased(next);
  });

  test('is let in again when much of what came is durable', async () => {
    const host = started();
    const way = callsFrom(host);
    const argument = new Uint8Array(2 ** 20);
    let count = 0;
    while (!way.isBusy) way.took(arriving(++count, { argument }));
    assert.equal(count, 16);
    await host.commit();
    assert.equal(way.isBusy, false);
  });

  test('on a way that is older than the one in use is not taken', () => {
    const { exchange } = started().scheduler;
    const begin = (epoch: number, number: number): boolean =>
      exchange.callsFrom(1, { epoch, number }, () => undefined) !== undefined;
    assert.deepEqual(
      [begin(2, 5), begin(2, 5), begin(2, 4), begin(1, 9), begin(2, 6), begin(3, 1)],
      [true, false, false, false, true, true],
    );
  });

  test('cannot be of this shard, nor for another one', () => {
    const way = callsFrom(started());
    const refused = { code: 'link-refused' };
    assert.throws(() => way.took(arriving(1, { callee: FAR })), refused);
    assert.throws(() => way.took(arriving(1, { name: { sender: idOf(0), node: 'x', number: 1 } })), refused);
    const { name } = arriving(1);
    assert.throws(() => way.took({ kind: 'accepted', name }), refused);
    assert.throws(() => callTo(started()).took({ kind: 'done', name }), refused);
  });
});
