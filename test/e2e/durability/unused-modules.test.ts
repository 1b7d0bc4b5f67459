/** A module stays in the state exactly as long as an actor uses it, whatever crashes. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, suite, test, type TestContext } from 'node:test';
import { ReadableBackup } from '../../../subsystems/storage/backup-file.ts';
import { RocksdbTables } from '../../../subsystems/storage/rocksdb-tables.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { wat } from '../../support/wat.ts';
import type { Host } from '../semantics/host.ts';
import { Laboratory, MODULE, Subject } from '../semantics/laboratory.ts';
import { Deployment } from './deployment.ts';

const counter = (version: number): string => `
  persistent actor {
    var count = 0;
    public func add() : async Nat { count += 1; count };
    public query func version() : async Nat { ${version} };
  };`;
/** A module that can neither be installed nor upgraded to. */
const BROKEN = wat(
  '(module (func (export "canister_init") unreachable) (func (export "canister_post_upgrade") unreachable))',
);
const LEFT_OVER = [1, 2, 3].map((byte) => wat(`(module (memory 1) (data (i32.const 0) "${byte}"))`));

const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const hashesOf = (...modules: readonly Uint8Array[]): readonly string[] => modules.map(hashOf).toSorted();

let first: Uint8Array;
let second: Uint8Array;
before(async () => {
  [first, second] = [(await compileMotoko(counter(1))).wasm, (await compileMotoko(counter(2))).wasm];
});

/** Returns the hashes of the stored modules. */
async function storedModules(host: Host): Promise<readonly string[]> {
  const file = join(await temporaryDirectory(), 'svc.backup');
  await writeFile(file, await (await host.server.fetch('/backup')).bytes());
  const found: string[] = [];
  for await (const changes of new ReadableBackup(file).changes()) {
    for (const { family, key, value } of changes) {
      if (family !== 'module') continue;
      assert.ok(value);
      assert.equal(Buffer.from(key).toString('hex'), hashOf(value));
      found.push(hashOf(value));
    }
  }
  return found;
}

/** Changes the tables of a stopped server. */
async function withTables(deployment: Deployment, change: (tables: RocksdbTables) => void): Promise<void> {
  const tables = await RocksdbTables.open(join(deployment.state, 'tables'));
  change(tables);
  await tables.close();
}

async function done(change: Promise<{ status: number; body: string }>): Promise<void> {
  const { status, body } = await change;
  assert.equal(status, 200, body);
}

/** Restarts as after a power cut that loses nothing: acknowledged changes are there, and work. */
async function again(deployment: Deployment): Promise<Host> {
  await deployment.kill();
  return await deployment.start();
}

suite('modules in the state', () => {
  test('a module goes with its last use, and one that comes back is stored again', async (t: TestContext) => {
    const deployment = await Deployment.create(t);
    let host = await deployment.start();
    const [one, two] = [await deployment.install('one', first), await deployment.install('two', first)];
    assert.deepEqual(await storedModules(host), hashesOf(first));
    await done(host.change(one, 'upgrade', second));
    assert.deepEqual(await storedModules(host), hashesOf(first, second), 'the other actor has it still');
    assert.equal((await host.change(two, 'upgrade', BROKEN)).status, 400);
    assert.equal((await host.server.post('/install/three', BROKEN)).status, 400);
    assert.deepEqual(await storedModules(host), hashesOf(first, second), 'what failed changes nothing');
    await done(host.change(two, 'upgrade', second));
    assert.deepEqual(await storedModules(host), hashesOf(second));
    await done(host.change(one, 'upgrade', first));
    assert.deepEqual(await storedModules(host), hashesOf(first, second));
    await done(host.change(one, 'upgrade', first));
    assert.equal(await host.call(one, 'add'), 1);

    host = await again(deployment);
    assert.deepEqual([await host.query(one, 'version'), await host.query(two, 'version')], [1, 2]);
    assert.equal(await host.call(one, 'add'), 2);
    assert.deepEqual(await storedModules(host), hashesOf(first, second));
    await done(host.change(two, 'stop'));
    await done(host.change(two, 'delete'));
    assert.deepEqual(await storedModules(host), hashesOf(first));
    await done(host.server.post('/install/one?mode=reinstall', second));
    assert.deepEqual(await storedModules(host), hashesOf(second));

    host = await again(deployment);
    assert.equal(await host.query(one, 'version'), 2);
    await done(host.change(one, 'stop'));
    await done(host.change(one, 'delete'));
    assert.deepEqual(await storedModules(host), []);
    const later = await deployment.install('later', second);
    host = await again(deployment);
    assert.equal(await host.call(later, 'add'), 1);
    assert.deepEqual(await storedModules(host), hashesOf(second));
    await deployment.stop();
  });

  for (const args of [[], ['--snapshot-below', '0']])
    test(`what a log is run again with is there (${args.join(' ') || 'no flags'})`, async (t: TestContext) => {
      const deployment = await Deployment.create(t, { args });
      let host = await deployment.start();
      const one = await deployment.install('one', first);
      let count = 0;
      for (const module of [second, first]) {
        for (let n = 0; n < 3; n++) assert.equal(await host.call(one, 'add'), ++count);
        await done(host.change(one, 'upgrade', module));
        assert.equal(await host.call(one, 'add'), ++count);
        host = await again(deployment);
        assert.deepEqual(await storedModules(host), hashesOf(module));
      }
      assert.equal(await host.call(one, 'add'), ++count);
      await deployment.stop();
    });

  test('a snapshot has its module itself, and an actor that loads it stores the module again', async (t: TestContext) => {
    const deployment = await Deployment.create(t);
    let host = await deployment.start();
    let lab = await Laboratory.open(host);
    const proxy = (await storedModules(host))[0] ?? '';
    const others = async (): Promise<readonly string[]> => (await storedModules(host)).filter((hash) => hash !== proxy);
    const actor = (await lab.subject()).actor;
    const { id: snapshot } = (await new Subject(lab, actor).manage('take_canister_snapshot')) as { id: Uint8Array };
    await new Subject(lab, actor).tryChange('upgrade', undefined, LEFT_OVER[0]);
    assert.deepEqual(await others(), [hashOf(LEFT_OVER[0] ?? BROKEN)]);

    host = await again(deployment);
    lab = lab.in(host);
    await new Subject(lab, actor).manage('load_canister_snapshot', { snapshot_id: snapshot });
    assert.deepEqual(await others(), [hashOf(MODULE)]);
    host = await again(deployment);
    lab = lab.in(host);
    assert.equal(await new Subject(lab, actor).ask(['stable64_size']), 0n);
    await new Subject(lab, actor).manage('uninstall_code');
    assert.deepEqual(await others(), []);
    host = await again(deployment);
    assert.deepEqual(await others(), []);
    await deployment.stop();
  });

  test('a start deletes what earlier versions have left', async (t: TestContext) => {
    const deployment = await Deployment.create(t);
    await deployment.start();
    await deployment.install('one', first);
    await deployment.stop();
    await withTables(deployment, (tables) =>
      tables.write(
        LEFT_OVER.map((value) => ({ family: 'module', key: Buffer.from(hashOf(value), 'hex'), value })),
        { isSynced: true },
      ),
    );
    let host = await deployment.start();
    const swept = async (): Promise<void> => assert.deepEqual(await storedModules(host), hashesOf(first));
    await host.until(swept);
    host = await again(deployment);
    assert.equal(await host.call(await host.find('one'), 'add'), 1);
    await swept();
    await deployment.stop();
  });

  test('an actor that is kept out keeps its module, whatever is changed of it meanwhile', async (t: TestContext) => {
    const deployment = await Deployment.create(t);
    let host = await deployment.start();
    const lab = await Laboratory.open(host);
    const subject = await lab.subject();
    await subject.run([['stable64_grow', 3], ['msg_reply']]);
    await deployment.stop();
    const key = Buffer.from(hashOf(MODULE), 'hex');
    const put = (value: Uint8Array): Promise<void> =>
      withTables(deployment, (tables) => tables.write([{ family: 'module', key, value }], { isSynced: true }));
    await put(BROKEN);

    host = await deployment.start();
    assert.match(host.server.output.stdout, /^REJECTED .* its module is damaged/m);
    await assert.rejects(
      new Subject(lab.in(host), subject.actor).set({ wasm_memory_limit: 2 ** 30 }),
      /cannot be used/,
    );
    await deployment.stop();
    await withTables(deployment, (tables) => assert.deepEqual(tables.get('module', key), BROKEN));
    await put(MODULE);
    host = await deployment.start();
    assert.equal(await new Subject(lab.in(host), subject.actor).ask(['stable64_size']), 3n);
    await deployment.stop();
  });
});
