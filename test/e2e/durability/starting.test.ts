/** Answers of `/health/ready` while actors come back: the current step of the start, not its first one. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createKernel, type Kernel } from '../../../kernel/index.ts';
import { Canisters } from '../../../subsystems/canisters/index.ts';
import { RocksdbTables } from '../../../subsystems/storage/rocksdb-tables.ts';
import { hostOf } from '../../support/host-kernel.ts';
import { fakeAmbient } from '../../support/kernel.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { compileActor } from '../semantics/host.ts';

const NAMES = ['a', 'b', 'c', 'd', 'e'];

/** Returns a distinct module of the same behaviour, with one more section without a meaning. */
function variantOf(module: Uint8Array, name: string): Uint8Array {
  return Buffer.concat([module, Uint8Array.of(0, 1 + name.length, name.length), Buffer.from(name)]);
}

async function kernelOf(state: string, ambient = fakeAmbient()): Promise<Kernel> {
  const { plugins, config } = await hostOf(
    ['--manifest', 'no-actors.json', '--state', state, '--snapshot-below', '0', '--timer-ms', '0'],
    new URL('../semantics', import.meta.url).pathname,
  );
  return createKernel({ plugins, ambient, config });
}

/** Cuts the first page of an actor's heap to seven bytes. */
async function damagePageOf(state: string, id: Uint8Array): Promise<void> {
  const tables = await RocksdbTables.open(join(state, 'tables'));
  const [page] = tables.range('heap', id, undefined);
  assert.ok(page !== undefined && Buffer.from(page[0]).indexOf(id) === 0, 'it has pages');
  tables.write([{ family: 'heap', key: page[0], value: Buffer.from('damaged') }], { isSynced: true });
  await tables.close();
}

/** Returns the notes of a start as seen by a reader that looks in every turn of the event loop. */
async function notesOfStart(t: TestContext, kernel: Kernel): Promise<string[]> {
  const seen: string[] = [];
  const look = (): void => {
    const { note } = kernel.readiness;
    if (seen.at(-1) !== note) seen.push(note);
    looking = setImmediate(look);
  };
  let looking = setImmediate(look);
  t.after(() => kernel.stop());
  await kernel.start();
  clearImmediate(looking);
  return seen;
}

test('while actors come back, the note names the one that is being worked on, and how many there are', async (t) => {
  const state = await temporaryDirectory();
  const first = await kernelOf(state);
  await first.start();
  const canisters = first.get(Canisters);
  const module = await compileActor('Peer');
  for (const name of NAMES) {
    await canisters.install(name, variantOf(module, name), { argument: undefined, caller: Uint8Array.of(4) });
  }
  await first.stop();

  const notes = await notesOfStart(t, await kernelOf(state));
  const places = NAMES.map((name, at) => `${name} (${at + 1} of ${NAMES.length})`);
  for (const verb of ['preparing', 'recovering']) {
    const told = notes.filter((note) => note.startsWith(`${verb} `));
    assert.deepEqual(
      told,
      places.map((place) => `${verb} ${place}`),
    );
  }
  assert.ok(notes.includes('reading the manifest'));
});

test('a server with many actors is ready when some are awake; the others follow, or are woken by whoever wants them', async (t) => {
  const COUNT = 70;
  const state = await temporaryDirectory();
  const first = await kernelOf(state);
  await first.start();
  const module = await compileActor('Peer');
  for (let at = 1; at <= COUNT; at++)
    await first.get(Canisters).install(`a${at}`, module, { argument: undefined, caller: Uint8Array.of(4) });
  await first.stop();

  const ambient = fakeAmbient();
  const second = await kernelOf(state, ambient);
  const recovering = (await notesOfStart(t, second)).filter((note) => note.startsWith('recovering '));
  assert.equal(recovering.length, 64);
  const live = (): number =>
    second
      .get(Canisters)
      .list()
      .filter(({ isLive }) => isLive).length;
  assert.ok(live() < COUNT, 'they are not waited for');
  // The actor that is being woken is deleted meanwhile.
  const waking = second
    .get(Canisters)
    .list()
    .find(({ isLive }) => !isLive);
  assert.ok(waking !== undefined);
  await second.get(Canisters).remove(waking, { endsCalls: true });
  while (live() < COUNT - 1) await nextTurn();
  const { id: idOfLast } = second.get(Canisters).resolve(`a${COUNT}`);

  // The server stops while the others are woken: actors that were not woken are not reported any more.
  await second.stop();
  await damagePageOf(state, idOfLast);
  const third = await kernelOf(state, ambient);
  await third.start();
  // Nothing has read the actor's state yet.
  const canisters = third.get(Canisters);
  const damaged = canisters.resolve('a70');
  const call = { kind: 'query', method: 'get', caller: Uint8Array.of(4), addressedBy: 'name' } as const;
  await assert.rejects(canisters.call(damaged, { ...call, argument: Buffer.from('DIDL\0\0') }), {
    code: 'actor-rejected',
    message: /^actor a70 was rejected: the page heap\/.* has 7 bytes instead of 4096$/,
  });
  await third.stop();
  assert.deepEqual(
    ambient.logger.lines.filter((line) => line.includes('cannot be woken')),
    [],
  );
});
