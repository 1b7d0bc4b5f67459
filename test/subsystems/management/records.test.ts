import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ThreadedStorage } from '../../../subsystems/storage/threaded-storage.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { FakeHost, idOf } from './fake-host.ts';
import { filled, Lives, MIB, PAGE, stateOf, type Taken, WASM } from './lives.ts';
import { base64, bytesOf, ManagementBench, OWNER, STRANGER, text } from './management-bench.ts';

async function readAll(bench: ManagementBench, place: object, kind: string, length: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for (let offset = 0; offset < length; offset += MIB) {
    const range = { offset, size: Math.min(MIB, length - offset) };
    const argument = { ...place, kind: { [kind]: range } };
    parts.push(bytesOf((await bench.ok<{ chunk: string }>('read_canister_snapshot_data', argument)).chunk));
  }
  return Buffer.concat(parts);
}

async function infoOf(bench: ManagementBench, id: string): Promise<unknown> {
  const argument = { canister_id: id, num_requested_changes: 100 };
  return await bench.ok('canister_info', argument, { sender: idOf(1n), senderIsCanister: true });
}

describe('after a restart', () => {
  test('settings and history are as they were, with times, versions and the number of all changes', async () => {
    const lives = new Lives();
    const { bench } = lives;
    const settings = {
      freezing_threshold: 77,
      reserved_cycles_limit: (2n ** 128n - 1n).toString(),
      wasm_memory_limit: 1 << 30,
      log_visibility: { public: null },
      snapshot_visibility: { allowed_viewers: [text(STRANGER), text(OWNER)] },
      environment_variables: [{ name: 'A', value: 'B' }],
    };
    const { canister_id: id } = await bench.ok<{ canister_id: string }>('provisional_create_canister_with_cycles', {
      settings,
    });
    const code = { canister_id: id, wasm_module: base64(WASM), arg: '' };
    await bench.ok('install_code', { ...code, mode: { install: null } });
    const [canister] = lives.host.list();
    assert.ok(canister);
    await bench.ok(
      'update_settings',
      { canister_id: id, settings: { controllers: [text(OWNER), text(canister.id)] }, sender_canister_version: 1 },
      { ...bench.from(canister), sender: OWNER },
    );
    const { id: snapshot_id } = await bench.ok<Taken>('take_canister_snapshot', { canister_id: id });
    await bench.ok('load_canister_snapshot', { canister_id: id, snapshot_id });
    await bench.ok('uninstall_code', { canister_id: id });
    const before = [await infoOf(bench, id), await bench.ok('canister_status', { canister_id: id })];
    await lives.restart();
    const after = [await infoOf(lives.bench, id), await lives.bench.ok('canister_status', { canister_id: id })];
    assert.deepEqual(after, before);
    const list = { canister_id: id };
    assert.equal(
      (await lives.bench.ok<readonly Taken[]>('list_canister_snapshots', list, { sender: STRANGER })).length,
      1,
    );
  });

  test('the history keeps the last twenty entries, and counts on', async () => {
    const lives = new Lives();
    const canister = lives.bench.canister();
    const canister_id = text(canister.id);
    const change = () => lives.bench.ok('update_settings', { canister_id, settings: { controllers: [text(OWNER)] } });
    for (let count = 0; count < 23; count++) await change();
    const before = await infoOf(lives.bench, canister_id);
    await lives.restart();
    assert.deepEqual(await infoOf(lives.bench, canister_id), before);
    await change();
    await lives.restart();
    const after = (await infoOf(lives.bench, canister_id)) as { total_num_changes: number; recent_changes: unknown[] };
    assert.equal(after.total_num_changes, 24);
    assert.equal(after.recent_changes.length, 20);
    assert.equal(lives.storage.entries('meta').filter(([key]) => key.startsWith('48')).length, 20);
  });

  test('the chunk store is there, read when it is needed; cleared it stays empty', async () => {
    const lives = new Lives();
    const canister_id = text(lives.bench.canister().id);
    const chunks = [WASM.subarray(0, 20), WASM.subarray(20), new Uint8Array(0)];
    for (const chunk of chunks) await lives.bench.ok('upload_chunk', { canister_id, chunk: base64(chunk) });
    const stored = await lives.bench.ok<readonly { hash: string }[]>('stored_chunks', { canister_id });
    const { memory_metrics: metrics } = await lives.bench.ok<{ memory_metrics: object }>('canister_status', {
      canister_id,
    });
    const bench = await lives.restart();
    const { reads } = lives.storage;
    const again = await bench.ok<readonly { hash: string }[]>('stored_chunks', { canister_id });
    assert.deepEqual(new Set(again.map(({ hash }) => hash)), new Set(stored.map(({ hash }) => hash)));
    assert.deepEqual(
      (await bench.ok<{ memory_metrics: object }>('canister_status', { canister_id })).memory_metrics,
      metrics,
    );
    await bench.ok('upload_chunk', { canister_id, chunk: base64(chunks[0] ?? '') });
    assert.equal(lives.storage.reads, reads + 1, 'the history, and no content');

    const wasm_module_hash = base64(bytesOf(stored[0]?.hash ?? ''));
    const list = { chunk_hashes_list: stored.slice(0, 2), wasm_module_hash };
    const install = { mode: { install: null }, target_canister: canister_id, arg: '' };
    const { message } = await bench.refused('install_chunked_code', { ...install, ...list });
    const [, actual = ''] = /SHA-256 ([0-9a-f]{64})/.exec(message) ?? [];
    const right = { ...list, wasm_module_hash: Buffer.from(actual, 'hex').toString('base64') };
    await bench.ok('install_chunked_code', { ...install, ...right });
    assert.equal(Buffer.compare(lives.host.list()[0]?.code?.wasm ?? new Uint8Array(0), WASM), 0);

    await bench.ok('clear_chunk_store', { canister_id });
    await lives.restart();
    assert.deepEqual(await lives.bench.ok('stored_chunks', { canister_id }), []);
    assert.deepEqual(lives.storage.entries('blob'), []);
  });

  test('a store that is cleared while it is read gives no chunk, and no damage', async () => {
    const lives = new Lives();
    const canister_id = text(lives.bench.canister().id);
    const { hash } = await lives.bench.ok<{ hash: string }>('upload_chunk', { canister_id, chunk: base64(WASM) });
    const bench = await lives.restart();
    const install = bench.refused('install_chunked_code', {
      mode: { install: null },
      target_canister: canister_id,
      arg: '',
      chunk_hashes_list: [{ hash }],
      wasm_module_hash: hash,
    });
    await bench.ok('clear_chunk_store', { canister_id });
    assert.match((await install).message, /has no chunk/);
  });

  test('a taken snapshot is the same: listed, read, loaded', async () => {
    const lives = new Lives();
    // The snapshot is more than one unit takes, with a piece of zeros in it.
    const { canister, id } = await filled(lives.bench, 9 * MIB);
    canister.heap.fill(0, 3 * MIB, 5 * MIB);
    const before = stateOf(canister);
    const taken = await lives.bench.ok<Taken>('take_canister_snapshot', { canister_id: id });
    const place = { canister_id: id, snapshot_id: taken.id };
    const metadata = await lives.bench.ok('read_canister_snapshot_metadata', place);
    for (const unit of lives.storage.units) assert.ok(unit.length <= 9 * MIB, `a unit of ${unit.length} bytes`);

    const bench = await lives.restart();
    const { reads } = lives.storage;
    assert.deepEqual(await bench.ok('list_canister_snapshots', { canister_id: id }), [taken]);
    assert.equal(lives.storage.reads, reads, 'a list needs no content');
    assert.deepEqual(await bench.ok('read_canister_snapshot_metadata', place), metadata);
    assert.deepEqual(await readAll(bench, place, 'wasm_module', WASM.length), Buffer.from(WASM));
    assert.equal(Buffer.compare(await readAll(bench, place, 'wasm_memory', before.heap.length), before.heap), 0);
    assert.equal(Buffer.compare(await readAll(bench, place, 'stable_memory', before.flat.length), before.flat), 0);

    await lives.restart();
    canister.heap = new Uint8Array(PAGE);
    canister.stable.clear();
    await lives.bench.ok('uninstall_code', { canister_id: id });
    await lives.bench.ok('load_canister_snapshot', place);
    assert.deepEqual(stateOf(canister), before);
    assert.equal(canister.timerNs, 123n, 'the present timer stays');
    const chunks = await lives.bench.ok<readonly unknown[]>('stored_chunks', { canister_id: id });
    assert.equal(chunks.length, 1, 'with the chunks of the snapshot');
    await lives.restart();
    assert.deepEqual(await lives.bench.ok('stored_chunks', { canister_id: id }), chunks);
  });

  test('deleted and replaced ones stay so, and no number is given twice', async () => {
    const lives = new Lives();
    const { id } = await filled(lives.bench);
    const take = (more: object = {}) => lives.bench.ok<Taken>('take_canister_snapshot', { canister_id: id, ...more });
    const first = await take();
    const second = await take({ replace_snapshot: first.id });
    await lives.bench.ok('delete_canister_snapshot', { canister_id: id, snapshot_id: second.id });
    await lives.restart();
    assert.deepEqual(await lives.bench.ok('list_canister_snapshots', { canister_id: id }), []);
    const third = await take();
    assert.equal(new Set([first.id, second.id, third.id]).size, 3);
    await lives.bench.ok('delete_canister_snapshot', { canister_id: id, snapshot_id: third.id });
    await lives.restart();
    assert.equal(lives.storage.entries('blob').length, 1, 'the chunk of the chunk store');
  });

  test('an upload goes on where it was, and reads and loads as if nothing had been', async () => {
    const lives = new Lives();
    const { canister: source } = await filled(lives.bench, 5 * PAGE);
    const state = stateOf(source);
    const target = lives.bench.canister();
    const upload = {
      canister_id: text(target.id),
      wasm_module_size: WASM.length,
      globals: [
        { i32: -5 },
        { i64: '-9007199254740993' },
        { f32: 0.5 },
        { f64: 1e300 },
        { v128: (2n ** 127n).toString() },
      ],
      wasm_memory_size: state.heap.length,
      stable_memory_size: state.flat.length,
      certified_data: base64(state.certifiedData),
      global_timer: { active: 999 },
    };
    const { snapshot_id } = await lives.bench.ok<{ snapshot_id: string }>('upload_canister_snapshot_metadata', upload);
    const place = { canister_id: text(target.id), snapshot_id };
    const contents = { wasm_module: WASM, wasm_memory: state.heap, stable_memory: state.flat } as const;
    // The steps are no multiple of a page, with a restart after every fifth.
    let calls = 0;
    for (const [kind, bytes] of Object.entries(contents)) {
      for (let offset = 0; offset < bytes.length; offset += 300_001) {
        const chunk = base64(bytes.subarray(offset, offset + 300_001));
        await lives.bench.ok('upload_canister_snapshot_data', { ...place, kind: { [kind]: { offset } }, chunk });
        if (++calls % 5 === 0) await lives.restart();
      }
    }
    const kind = { wasm_chunk: null };
    await lives.bench.ok('upload_canister_snapshot_data', { ...place, kind, chunk: base64('one more') });
    const before = await lives.bench.ok('read_canister_snapshot_metadata', place);
    const list = await lives.bench.ok('list_canister_snapshots', { canister_id: place.canister_id });
    await lives.restart();
    assert.deepEqual(await lives.bench.ok('list_canister_snapshots', { canister_id: place.canister_id }), list);
    assert.deepEqual(await lives.bench.ok('read_canister_snapshot_metadata', place), before);
    for (const [what, bytes] of Object.entries(contents)) {
      const read = await readAll(lives.bench, place, what, bytes.length);
      assert.equal(Buffer.compare(read, bytes), 0, what);
    }
    await lives.restart();
    await lives.bench.ok('load_canister_snapshot', place);
    assert.deepEqual({ ...stateOf(target), globals: state.globals }, state);
    assert.equal(target.timerNs, 999n);
  });

  test('an upload writes the pages that it touches, and no others', async () => {
    const lives = new Lives();
    const canister_id = text(lives.bench.canister().id);
    const sizes = { wasm_module_size: 0, wasm_memory_size: 64 * PAGE, stable_memory_size: 64 * PAGE };
    const metadata = { canister_id, ...sizes, certified_data: '', globals: [] };
    const { snapshot_id } = await lives.bench.ok<{ snapshot_id: string }>(
      'upload_canister_snapshot_metadata',
      metadata,
    );
    await nextTurn();
    for (const kind of [{ wasm_memory: { offset: 7 * PAGE - 1 } }, { stable_memory: { offset: 7 * PAGE - 1 } }]) {
      const before = lives.storage.entries('blob').length;
      await lives.bench.ok('upload_canister_snapshot_data', { canister_id, snapshot_id, kind, chunk: base64('ab') });
      await nextTurn();
      assert.equal(lives.storage.entries('blob').length, before + 2);
      assert.ok((lives.storage.units.at(-1)?.length ?? 0) < 2 * PAGE + 1000);
    }
  });

  test('what all hold together counts as before', async () => {
    const lives = new Lives();
    const { id } = await filled(lives.bench);
    const taken = await lives.bench.ok<Taken>('take_canister_snapshot', { canister_id: id });
    await nextTurn();
    const storage = lives.storage.restart();
    const small = new ManagementBench({ storedBytesMax: taken.total_size + 10 }, { storage, host: lives.host });
    await small.management.restore();
    const chunk = (bytes: number) => ({ canister_id: id, chunk: base64(new Uint8Array(bytes).fill(1)) });
    assert.match((await small.refused('upload_chunk', chunk(6))).message, /no room for 6 more/);
    await small.ok('upload_chunk', chunk(5));
    await small.ok('delete_canister_snapshot', { canister_id: id, snapshot_id: taken.id });
    await small.ok('upload_chunk', chunk(taken.total_size));
    assert.equal((await small.refused('upload_chunk', chunk(1))).code, 1);
  });

  test('the signing keys are the same, and another directory has others', async () => {
    const keyOfHost = async (bench: ManagementBench) =>
      await bench.ok(
        'ecdsa_public_key',
        { derivation_path: [], key_id: { curve: { secp256k1: null }, name: 'key_1' } },
        { sender: idOf(1n), senderIsCanister: true },
      );
    const lives = new Lives();
    await lives.bench.management.restore();
    const before = await keyOfHost(lives.bench);
    assert.deepEqual(await keyOfHost(await lives.restart()), before);
    assert.deepEqual(await keyOfHost(await lives.restart()), before);
    const fresh = await lives.restart(0);
    assert.notDeepEqual(await keyOfHost(fresh), before);
  });

  test('nothing is left of a canister that was deleted, and what belongs to none is left alone', async () => {
    const lives = new Lives();
    const { canister, id } = await filled(lives.bench);
    const other = await filled(lives.bench);
    await lives.bench.ok('take_canister_snapshot', { canister_id: id });
    await lives.bench.ok('update_settings', { canister_id: id, settings: { freezing_threshold: 1 } });
    await lives.restart();
    await lives.bench.ok('stop_canister', { canister_id: id });
    await lives.bench.ok('delete_canister', { canister_id: id });
    await nextTurn();
    const hex = Buffer.from(canister.id).toString('hex');
    for (const family of ['meta', 'blob'] as const)
      assert.deepEqual(
        lives.storage.entries(family).filter(([key]) => key.includes(hex)),
        [],
      );
    const left = lives.storage.entries('meta');
    assert.ok(left.some(([key]) => key.includes(Buffer.from(other.canister.id).toString('hex'))));
    // A host that has lost the other canister, because its state is damaged.
    const bench = new ManagementBench({}, { storage: lives.storage, host: new FakeHost() });
    assert.equal((await bench.management.restore()).size, 0);
    await nextTurn();
    assert.deepEqual(lives.storage.entries('meta'), left);
  });
});

describe('in a state directory', () => {
  test('a snapshot is loaded by the next process', async () => {
    const directory = await temporaryDirectory();
    const onFailure = (error: Error) => assert.ifError(error);
    const host = new FakeHost();
    const inProcess = async <T>(work: (bench: ManagementBench) => Promise<T>): Promise<T> => {
      const storage = new ThreadedStorage({ directory, isSynced: false, onFailure, onWarning: assert.fail });
      await storage.open();
      try {
        const bench = new ManagementBench({}, { storage, host });
        assert.deepEqual([...(await bench.management.restore())], []);
        const result = await work(bench);
        await storage.settled();
        return result;
      } finally {
        await storage.close();
      }
    };
    const taken = await inProcess(async (bench) => {
      const { canister, id } = await filled(bench, 9 * MIB);
      const before = stateOf(canister);
      const { id: snapshot_id } = await bench.ok<Taken>('take_canister_snapshot', { canister_id: id });
      return { canister, before, place: { canister_id: id, snapshot_id } };
    });
    taken.canister.heap.fill(0);
    taken.canister.stable.clear();
    await inProcess((bench) => bench.ok('load_canister_snapshot', taken.place));
    assert.deepEqual(stateOf(taken.canister), taken.before);
    const chunks = await inProcess(async (bench) => {
      await bench.ok('delete_canister_snapshot', taken.place);
      return await bench.ok<readonly unknown[]>('stored_chunks', { canister_id: taken.place.canister_id });
    });
    assert.equal(chunks.length, 1);
    const { canister_id } = taken.place;
    assert.deepEqual(await inProcess((bench) => bench.ok('list_canister_snapshots', { canister_id })), []);
  });
});

describe('a crash', () => {
  test('finds a change whole or not at all, wherever it comes', async () => {
    const lives = new Lives();
    const { canister, id } = await filled(lives.bench);
    const { id: snapshot_id } = await lives.bench.ok<Taken>('take_canister_snapshot', { canister_id: id });
    await lives.bench.ok('clear_chunk_store', { canister_id: id });
    await nextTurn();
    const from = lives.storage.units.length;
    const settings = { controllers: [text(OWNER), text(STRANGER)], freezing_threshold: 5 };
    await lives.bench.ok('update_settings', { canister_id: id, settings });
    await nextTurn();
    await lives.bench.ok('load_canister_snapshot', { canister_id: id, snapshot_id });
    await nextTurn();
    const took = { canister_id: id, uninstall_code: true };
    await lives.bench.ok('take_canister_snapshot', took);
    await nextTurn();
    const { units } = lives.storage;
    const all = lives.storage;
    const seen: unknown[] = [];
    for (let count = from; count <= units.length; count++) {
      const bench = new ManagementBench({}, { storage: all.restart(count), host: lives.host });
      await bench.management.restore();
      const info = (await infoOf(bench, id)) as { recent_changes: { details: object }[] };
      const status = await bench.ok<{ settings: { freezing_threshold: number } }>('canister_status', {
        canister_id: id,
      });
      seen.push([
        Object.keys(info.recent_changes.at(-1)?.details ?? {})[0],
        status.settings.freezing_threshold,
        (await bench.ok<readonly unknown[]>('stored_chunks', { canister_id: id })).length,
        (await bench.ok<readonly unknown[]>('list_canister_snapshots', { canister_id: id })).length,
      ]);
    }
    assert.deepEqual(seen, [
      ['code_deployment', 2_592_000, 0, 1],
      ['controllers_change', 5, 0, 1],
      ['load_snapshot', 5, 1, 1],
      ['code_uninstall', 5, 0, 2],
    ]);
    assert.equal(canister.code, undefined);
  });

  test('amid a large snapshot leaves none, and nothing of it', async () => {
    const lives = new Lives();
    const { id } = await filled(lives.bench, 17 * MIB);
    await nextTurn();
    const from = lives.storage.units.length;
    await lives.bench.ok('take_canister_snapshot', { canister_id: id });
    await nextTurn();
    const { units } = lives.storage;
    assert.ok(units.length >= from + 3, 'it took several units');
    const all = lives.storage;
    for (let count = from; count <= units.length; count++) {
      const storage = all.restart(count);
      const bench = new ManagementBench({}, { storage, host: lives.host });
      await bench.management.restore();
      await nextTurn();
      const list = await bench.ok<readonly Taken[]>('list_canister_snapshots', { canister_id: id });
      const isThere = count === units.length;
      assert.equal(list.length, isThere ? 1 : 0);
      if (!isThere) assert.equal(storage.entries('blob').length, 1, 'the chunk of the chunk store');
      await bench.ok('take_canister_snapshot', { canister_id: id });
    }
  });

  test('cannot come between a change and its answer', async () => {
    const lives = new Lives();
    const { id } = await filled(lives.bench);
    const { id: snapshot_id } = await lives.bench.ok<Taken>('take_canister_snapshot', { canister_id: id });
    await lives.restart();
    // The host's answer comes in a turn of its own.
    let turn = 0;
    const hostAnswers = async () => {
      await nextTurn();
      await nextTurn();
      turn = lives.storage.newest;
    };
    lives.host.duringChange = hostAnswers;
    const { host } = lives;
    const [capture, restore, uninstall] = [host.capture.bind(host), host.restore.bind(host), host.uninstall.bind(host)];
    lives.host.capture = async (canister) => (await hostAnswers(), await capture(canister));
    lives.host.restore = async (canister, state) => (await hostAnswers(), await restore(canister, state));
    lives.host.uninstall = async (canister) => (await hostAnswers(), await uninstall(canister));
    const code = { canister_id: id, wasm_module: base64(WASM), arg: '' };
    const calls: [method: string, argument: object][] = [
      ['load_canister_snapshot', { canister_id: id, snapshot_id }],
      ['install_code', { ...code, mode: { reinstall: null } }],
      ['take_canister_snapshot', { canister_id: id }],
      ['take_canister_snapshot', { canister_id: id, uninstall_code: true }],
      ['load_canister_snapshot', { canister_id: id, snapshot_id }],
      ['uninstall_code', { canister_id: id }],
    ];
    for (const [method, argument] of calls) {
      await nextTurn();
      await lives.bench.ok(method, argument);
      assert.equal(lives.storage.units.length, turn, `${method}: nothing was sealed since the host answered`);
      assert.equal(lives.storage.newest, turn + 1, `${method}: it has changed something`);
    }
    for (const [method, argument] of [
      ['update_settings', { canister_id: id, settings: { controllers: [text(OWNER)] } }],
      ['upload_chunk', { canister_id: id, chunk: base64('x') }],
      ['delete_canister_snapshot', { canister_id: id, snapshot_id }],
      ['provisional_create_canister_with_cycles', {}],
    ] as const) {
      await nextTurn();
      const before = lives.storage.units.length;
      await lives.bench.ok(method, argument);
      assert.equal(lives.storage.units.length, before, method);
      assert.equal(lives.storage.newest, before + 1, method);
    }
  });
});
