/**
 * A forced deletion does not wait for what else is under way with the actor: a snapshot that is taken or loaded, code
 * that is changed. Each is ended at one of its waits, and nothing of it is left.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { CandidInterfaces } from '../../../subsystems/canisters/candid-interfaces.ts';
import { ExecutorPool } from '../../../subsystems/execution/pool/executor-pool.ts';
import { SnapshotRecords } from '../../../subsystems/management/records/snapshot-records.ts';
import { RocksdbTables } from '../../../subsystems/storage/rocksdb-tables.ts';
import { type Answer, type InProcessServer, startInProcess } from '../../support/in-process-server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { wat } from '../../support/wat.ts';

/** Bytes of the heap; as many are in stable memory. */
const BYTES = 32 * 2 ** 20;
/** A deletion may come when a change is over already: it is tried again with another actor. */
const TRIES_MAX = 40;

const PERSISTENCE = 'icp:private enhanced-orthogonal-persistence';

/** `canister_init` fills both memories; `value` makes modules differ. */
function moduleOf(value: number, keepsHeap = false): Uint8Array {
  const module = wat(`(module
  (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $write (param i64 i64 i64)))
  (memory ${BYTES / 65_536 + 1})
  (func (export "canister_init")
    (memory.fill (i32.const 16) (i32.const ${value}) (i32.const ${BYTES}))
    (drop (call $grow (i64.const ${BYTES / 65_536})))
    (call $write (i64.const 0) (i64.const 16) (i64.const ${BYTES}))))`);
  const section = Buffer.from(`${String.fromCharCode(PERSISTENCE.length)}${PERSISTENCE}`, 'latin1');
  return keepsHeap ? Buffer.concat([module, Buffer.of(0, section.length), section]) : module;
}
const FIRST = moduleOf(7);
const KEPT = moduleOf(7, true);

interface Situation {
  readonly name: string;
  readonly module?: Uint8Array;
  /** Names the method whose call begins the deletion: the change then waits for it. */
  readonly waitsIn: readonly [prototype: object, method: string];
  /** Before the change; returns what the change needs to know. */
  readonly prepare?: (server: InProcessServer, actor: string) => Promise<string>;
  readonly change: (server: InProcessServer, actor: string, prepared: string) => Promise<Answer>;
}

const snapshotOf = async (server: InProcessServer, actor: string): Promise<string> => {
  const { status, body } = await server.post(`/x/actors/${actor}/snapshots`, '');
  assert.equal(status, 200, body);
  return (JSON.parse(body) as { id: string }).id;
};
const take = (server: InProcessServer, actor: string): Promise<Answer> =>
  server.post(`/x/actors/${actor}/snapshots`, '');
const load = (server: InProcessServer, actor: string, id: string): Promise<Answer> =>
  server.post(`/x/actors/${actor}/snapshots/${id}/load`, '');

const SITUATIONS: readonly Situation[] = [
  { name: 'a snapshot that is captured', waitsIn: [ExecutorPool.prototype, 'capture'], change: take },
  { name: 'a snapshot that is stored', waitsIn: [SnapshotRecords.prototype, 'begin'], change: take },
  {
    name: 'a snapshot whose state is put in place',
    waitsIn: [ExecutorPool.prototype, 'restore'],
    prepare: snapshotOf,
    change: load,
  },
  {
    name: 'an upgrade that prepares its module',
    waitsIn: [ExecutorPool.prototype, 'prepare'],
    change: (server, actor) => server.post(`/upgrade/${actor}`, moduleOf(9)),
  },
  {
    name: 'an upgrade that reads its interface',
    waitsIn: [CandidInterfaces.prototype, 'recorded'],
    change: (server, actor) => server.post(`/upgrade/${actor}?force=true`, moduleOf(9)),
  },
  {
    name: 'an upgrade that stores the heap that it keeps',
    module: KEPT,
    waitsIn: [ExecutorPool.prototype, 'checkpoint'],
    change: (server, actor) => server.post(`/upgrade/${actor}`, moduleOf(9, true)),
  },
];

/** Begins the deletion when the method is called the next time; resolves with its answer. */
function deleteIn(
  t: TestContext,
  [prototype, method]: Situation['waitsIn'],
  remove: () => Promise<Answer>,
): Promise<Answer> {
  const { promise, resolve } = Promise.withResolvers<Answer>();
  const methods = prototype as Record<string, (...args: unknown[]) => unknown>;
  const original = methods[method];
  assert.ok(original !== undefined, method);
  const mocked = t.mock.method(methods, method, function (this: unknown, ...args: unknown[]) {
    mocked.mock.restore();
    resolve(remove());
    return original.apply(this, args);
  });
  return promise;
}

async function countOf(state: string, family: 'blob' | 'meta'): Promise<number> {
  const tables = await RocksdbTables.open(join(state, 'tables'));
  try {
    return [...tables.range(family, new Uint8Array(0), undefined)].length;
  } finally {
    await tables.close();
  }
}

for (const mode of ['in memory', 'with --state'] as const) {
  test(`what an actor's forced deletion ends, ${mode}`, async (t) => {
    const state = join(await temporaryDirectory(), 'state');
    const server = await startInProcess(t, { args: mode === 'in memory' ? [] : ['--state', state] });
    for (const situation of SITUATIONS) {
      const { name, waitsIn, module = FIRST } = situation;
      // In memory nothing is stored.
      if (mode === 'in memory' && /stor/.test(name)) continue;
      await t.test(name, async (st) => {
        for (let tries = 1; ; tries++) {
          const actor = `a${tries}`;
          assert.equal((await server.post(`/install/${actor}`, module)).status, 200);
          const prepared = (await situation.prepare?.(server, actor)) ?? '';
          const remove = async (): Promise<Answer> => {
            const response = await server.fetch(`/actors/${actor}?force=true`, { method: 'DELETE' });
            return { status: response.status, body: await response.text() };
          };
          const deleted = deleteIn(st, waitsIn, remove);
          const changed = await situation.change(server, actor, prepared);
          assert.deepEqual(await deleted, { status: 200, body: 'deleted' });
          assert.equal((await server.get(`/cycles/${actor}`)).status, 404);
          if (changed.status === 200) {
            assert.ok(tries < TRIES_MAX, 'the change always ended before the deletion');
            continue;
          }
          assert.ok([404, 503].includes(changed.status), changed.body);
          assert.match(changed.body, /not found|is being deleted|is about to be deleted/);
          break;
        }
      });
    }
    const { body } = await server.get('/inspect');
    assert.equal(body, '[]');
    await server.stop();
    if (mode === 'in memory') return;
    assert.equal(await countOf(state, 'blob'), 0, 'nothing of a snapshot is left');
    const again = await startInProcess(t, { args: ['--state', state] });
    assert.equal((await again.get('/inspect')).body, '[]');
    assert.deepEqual(
      again.log.lines.filter((line) => /warn|left/i.test(line)),
      [],
    );
  });
}
