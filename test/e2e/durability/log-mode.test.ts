/** Pure log, and heaps above the threshold: messages are run again, and every result is the same to the bit. */
import assert from 'node:assert/strict';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { RocksdbTables } from '../../../subsystems/storage/rocksdb-tables.ts';
import { Tally } from '../../support/payload-sizes.ts';
import { seeded } from '../../support/seeded.ts';
import { type Host, STRANGER } from '../semantics/host.ts';
import { compileActor, Deployment } from './deployment.ts';
import { HAUL_FLAGS, loadsOf, Sender } from './haul.ts';
import { dump, WITNESS } from './witness.ts';

const PURE = ['--snapshot-below', '0', '--heartbeat-ms', '0', ...HAUL_FLAGS];
/** Enough loads for most sizes and all durations. */
const LOADS = 8;

let keeper: Uint8Array;
before(async () => {
  keeper = await compileActor('Keeper');
});

/** Makes updates of every kind: by clients, other actors and timers, some of which trap, in several actors at once. */
async function work(host: Host): Promise<void> {
  const [one, two] = [await host.find('one'), await host.find('two')];
  await Promise.all([
    host.call(one, 'chain', [two.principal, 20]),
    host.call(two, 'chain', [one.principal, 20]),
    host.call(one, 'fireAfter', [30]),
    ...Array.from({ length: 60 }, (_, n) => host.call(n % 2 === 0 ? one : two, 'append', [n])),
    ...Array.from({ length: 40 }, (_, n) =>
      host.server.post(
        `/call/witness/${n % 7 === 3 ? 'fall' : 'write'}`,
        `line ${n}`,
        n % 3 === 0 ? { 'x-caller': STRANGER } : {},
      ),
    ),
    ...Array.from({ length: 10 }, (_, n) => host.call(one, 'store', [8 * n, n * n])),
  ]);
  const hauler = await host.find('hauler');
  const senders = [0, 1].map((client) => new Sender(hauler, client, seeded(5 + client), new Tally()));
  await Promise.all(senders.map((sender) => sender.send(host, LOADS)));
  await host.server.post('/call/witness/grow', 'seven');
  await host.until(async () => assert.equal(((await host.query(one, 'timers')) as { fired: number }).fired, 1));
}

async function answers(host: Host): Promise<object> {
  const [one, two] = [await host.find('one'), await host.find('two')];
  const both = (method: string): Promise<unknown> => Promise.all([host.query(one, method), host.query(two, method)]);
  return {
    lists: await both('all'),
    counts: await both('get'),
    chained: await both('chained'),
    timers: await both('timers'),
    stored: await Promise.all(Array.from({ length: 10 }, (_, n) => host.query(one, 'load', [8 * n]))),
    loads: await loadsOf(host, await host.find('hauler')),
    witness: await dump(host, 'witness'),
    cycles: await Promise.all(
      ['one', 'two', 'witness', 'hauler'].map(async (name) => (await host.server.get(`/cycles/${name}`)).body),
    ),
  };
}

/** Returns the stored pages of heap and stable memory by their keys, in hex. */
async function storedPages(state: string): Promise<ReadonlyMap<string, string>> {
  const tables = await RocksdbTables.open(join(state, 'tables'));
  try {
    const pages = new Map<string, string>();
    for (const family of ['heap', 'stable'] as const) {
      for (const [key, value] of tables.range(family, new Uint8Array(0), undefined)) {
        pages.set(`${family} ${Buffer.from(key).toString('hex')}`, Buffer.from(value).toString('hex'));
      }
    }
    return pages;
  } finally {
    await tables.close();
  }
}

/** Returns the estimated duration of running all logs again. */
async function replaySeconds(host: Host): Promise<number> {
  const { body } = await host.server.get('/metrics');
  return Number(/^svc_replay_seconds (\S+)$/m.exec(body)?.[1]);
}

test('the log, run again after SIGKILL, gives the same answers; run twice, the same memory to the bit', async (t: TestContext) => {
  const modules = { one: keeper, two: keeper, witness: WITNESS, hauler: await compileActor('Hauler') };
  const deployment = await Deployment.create(t, { args: PURE, modules });
  let host = await deployment.start();
  await work(host);
  const given = await answers(host);
  const seconds = await replaySeconds(host);
  assert.ok(seconds > 0, `${seconds} s`);
  await deployment.kill();
  const copy = await Deployment.create(t, { args: [...PURE, '--executors', '1'], modules });
  await cp(deployment.state, copy.state, { recursive: true });

  const memories: ReadonlyMap<string, string>[] = [];
  for (const each of [deployment, copy]) {
    host = await each.start();
    assert.equal(await replaySeconds(host), seconds, 'a log that was run again is as long as before');
    assert.deepEqual(await answers(host), given);
    await each.stop();
    memories.push(await storedPages(each.state));
  }
  const [first, second] = memories;
  assert.ok((first?.size ?? 0) > 20, `${first?.size} pages`);
  assert.deepEqual(second, first);

  // The actors go on from there.
  host = await deployment.start();
  assert.deepEqual(await answers(host), given);
  assert.equal(await host.call(await host.find('one'), 'append', [5]), 31);
  assert.ok((await replaySeconds(host)) > 0);
  await deployment.kill();
  host = await deployment.start(['--live-cap', '1']);
  await host.until(async () => {
    await host.query(await host.find('two'), 'get');
    assert.equal(await replaySeconds(host), 0, 'the log of whoever falls asleep ends');
  });
});

test('a heap that grows over the threshold changes to the log, and back when the threshold does', async (t: TestContext) => {
  const deployment = await Deployment.create(t, {
    args: ['--log-json', '--heartbeat-ms', '0'],
    modules: { witness: WITNESS },
  });
  // The heap has 4 pages at first.
  const limited = ['--snapshot-below', `${6 * 65_536}`];
  const write = async (host: Host, count: number): Promise<void> => {
    for (let n = 0; n < count; n++) assert.equal((await host.server.post('/call/witness/write', `${n}`)).status, 200);
  };
  /** Returns the number of messages that the start has run again. */
  const replayed = (host: Host): number => {
    const [, messages = '0'] = /"event":"recovered".*"messages":(\d+)/.exec(host.server.output.stderr) ?? [];
    return Number(messages);
  };
  const restart = async (flags: readonly string[], expected: number): Promise<Host> => {
    const written = await dump(deployment.host, 'witness');
    await deployment.kill();
    const host = await deployment.start(flags);
    assert.equal(replayed(host), expected);
    assert.equal(await dump(host, 'witness'), written);
    return host;
  };
  let host = await deployment.start(limited);
  await write(host, 5);
  host = await restart(limited, 0);
  await write(host, 3);
  // The message that grows the heap is the last one with a snapshot.
  assert.equal((await host.server.post('/call/witness/grow', '3 pages')).status, 200);
  await write(host, 4);
  host = await restart(limited, 4);
  await write(host, 2);
  // With another threshold, the existing log is run again.
  host = await restart([], 6);
  await deployment.stop();
  host = await deployment.start();
  await write(host, 2);
  host = await restart([], 0);
  await deployment.stop();
  host = await deployment.start(['--snapshot-below', '0']);
  // The decision between log and snapshot comes after each message: the first one is the last with a snapshot.
  await write(host, 3);
  host = await restart(['--snapshot-below', '0'], 2);
});

test('what a message had read of its surroundings is the same when it is run again, also if these have changed', async (t: TestContext) => {
  const deployment = await Deployment.create(t, { args: PURE, modules: { one: keeper } });
  let host = await deployment.start();
  const one = await host.find('one');
  assert.equal(await host.call(one, 'variable', ['PUBLIC_CANISTER_ID:two']), null);
  assert.equal(await host.call(one, 'append', [1]), 1);
  await deployment.kill();
  await deployment.writeManifest({ one: keeper, two: keeper });
  host = await deployment.start();
  assert.equal(await host.query(one, 'lastSeen'), null);
  assert.deepEqual(await host.query(one, 'all'), [1]);
  const two = await host.find('two');
  assert.equal(await host.call(one, 'variable', ['PUBLIC_CANISTER_ID:two']), two.principal);
  await deployment.kill();
  // After its removal from the manifest, nobody gets the variable any more, but actors that had read it keep it.
  await deployment.writeManifest({ one: keeper });
  host = await deployment.start();
  assert.equal(await host.query(one, 'lastSeen'), two.principal);
});
