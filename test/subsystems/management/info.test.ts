import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { idOf, moduleOf } from './fake-host.ts';
import { base64, bytesOf, ManagementBench, OWNER, STRANGER, text } from './management-bench.ts';

const FIRST = 0x8000_0000_0010_0001n;

describe('canister_info', () => {
  test('keeps the last 20 changes and counts all of them', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    for (let index = 0; index < 25; index++) {
      bench.clock.advance(1);
      bench.management.record(canister, {
        origin: { kind: 'user', id: STRANGER },
        details: { kind: 'controllersChange', controllers: [Uint8Array.of(index)] },
      });
    }
    interface Info {
      readonly total_num_changes: number;
      readonly recent_changes: readonly unknown[];
      readonly module_hash: null;
      readonly controllers: readonly string[];
    }
    const ask = (num_requested_changes: number | string | null) =>
      bench.ok<Info>(
        'canister_info',
        { canister_id: text(canister.id), num_requested_changes },
        { sender: idOf(1n), senderIsCanister: true },
      );
    const all = await ask((2n ** 64n - 1n).toString());
    assert.equal(all.total_num_changes, 25);
    assert.equal(all.recent_changes.length, 20);
    assert.deepEqual(all.recent_changes[19], {
      timestamp_nanos: `${bench.clock.nowMs()}000000`,
      canister_version: 0,
      origin: { from_user: { user_id: text(STRANGER) } },
      details: { controllers_change: { controllers: [text(Uint8Array.of(24))] } },
    });
    assert.deepEqual((await ask(2)).recent_changes, all.recent_changes.slice(-2));
    assert.deepEqual((await ask(0)).recent_changes, []);
    const none = await ask(null);
    assert.deepEqual(none.recent_changes, []);
    assert.deepEqual([none.module_hash, none.controllers], [null, [text(OWNER)]]);
  });
});

describe('canister_metadata', () => {
  test('shows public sections to all, private ones to controllers', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const id = text(canister.id);
    const other = { sender: idOf(1n), senderIsCanister: true };
    const empty = await bench.refused('canister_metadata', { canister_id: id, name: 'a' }, other);
    assert.deepEqual([empty.code, empty.message.slice(0, 6)], [5, 'IC0537']);
    const wasm = moduleOf({ 'icp:public a': 'open', 'icp:private b': 'closed', c: 'neither' });
    await bench.ok('install_code', { canister_id: id, mode: { install: null }, wasm_module: base64(wasm), arg: '' });
    const read = { canister_id: id, name: 'a' };
    assert.deepEqual(await bench.ok('canister_metadata', read, other), { value: base64('open') });
    assert.equal((await bench.refused('canister_metadata', { ...read, name: 'b' }, other)).code, 5);
    canister.controllers = [other.sender];
    assert.deepEqual(await bench.ok('canister_metadata', { ...read, name: 'b' }, other), { value: base64('closed') });
    for (const name of ['c', '', 'x'.repeat(50_000)]) {
      const { code, message } = await bench.refused('canister_metadata', { ...read, name }, other);
      assert.equal(code, 4);
      assert.ok(message.length < 400);
    }
  });
});

describe('fetch_canister_logs', () => {
  test('shows the records to whom log_visibility names', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    canister.logs = [
      { index: 7, timeNs: 5n, content: Buffer.from('hello') },
      { index: 8, timeNs: 6n, content: Buffer.from([255, 0]) },
    ];
    const argument = { canister_id: text(canister.id) };
    const expected = {
      canister_log_records: [
        { idx: 7, timestamp_nanos: 5, content: base64('hello') },
        { idx: 8, timestamp_nanos: 6, content: '/wA=' },
      ],
    };
    assert.deepEqual(await bench.ok('fetch_canister_logs', argument, { isQuery: true }), expected);
    await bench.refused('fetch_canister_logs', argument, { isQuery: true, sender: STRANGER });
    await bench.ok('update_settings', { ...argument, settings: { log_visibility: { public: null } } });
    assert.deepEqual(await bench.ok('fetch_canister_logs', argument, { isQuery: true, sender: STRANGER }), expected);
  });

  test('answers the newest ones that fit into a response', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    canister.logs = Array.from({ length: 5 }, (_, index) => ({ index, timeNs: 0n, content: new Uint8Array(500_000) }));
    const { canister_log_records: records } = await bench.ok<{ canister_log_records: readonly { idx: number }[] }>(
      'fetch_canister_logs',
      { canister_id: text(canister.id) },
      { isQuery: true },
    );
    assert.deepEqual(
      records.map(({ idx }) => idx),
      [2, 3, 4],
    );
  });
});

describe('the system', () => {
  test('raw_rand gives 32 bytes from the injected source, other ones each time', async () => {
    const from = { sender: idOf(1n), senderIsCanister: true };
    const [one, two] = [new ManagementBench(), new ManagementBench()];
    const first = await one.ok<string>('raw_rand', undefined, from);
    assert.equal(bytesOf(first).length, 32);
    assert.equal(await two.ok('raw_rand', undefined, from), first);
    assert.notEqual(await one.ok('raw_rand', undefined, from), first);
  });

  test('list_canisters shows the operator the ids as ranges, and nobody else', async () => {
    const bench = new ManagementBench();
    for (let count = 0; count < 3; count++) bench.canister();
    await bench.ok('provisional_create_canister_with_cycles', { specified_id: text(idOf(FIRST + 9n)) });
    const answer = await bench.ok('list_canisters', undefined, { isAdmin: true, isQuery: true });
    assert.deepEqual(answer, {
      canisters: [
        { start: text(idOf(FIRST)), end: text(idOf(FIRST + 2n)) },
        { start: text(idOf(FIRST + 9n)), end: text(idOf(FIRST + 9n)) },
      ],
    });
    assert.equal((await bench.refused('list_canisters', undefined, { isQuery: true })).code, 5);
  });

  test('subnet_info and node_metrics_history answer harmlessly', async () => {
    const bench = new ManagementBench();
    const from = { sender: idOf(1n), senderIsCanister: true };
    assert.deepEqual(await bench.ok('subnet_info', { subnet_id: text(OWNER) }, from), {
      replica_version: '1.2.3',
      registry_version: 0,
    });
    const argument = { subnet_id: text(OWNER), start_at_timestamp_nanos: 0 };
    assert.deepEqual(await bench.ok('node_metrics_history', argument, from), []);
  });

  test('what the host cannot do is a reject, a bug one with code 1 and a line in the log', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const argument = { canister_id: text(canister.id), amount: 1 };
    bench.host.addCycles = () =>
      Promise.reject(new ServerError('unavailable', 'executor-stopped', 'the thread has ended'));
    assert.deepEqual(await bench.refused('provisional_top_up_canister', argument), {
      code: 2,
      message: 'IC0201: the thread has ended',
    });
    bench.host.addCycles = () => Promise.reject(new TypeError('oops'));
    const { response, refunded } = await bench.paid('provisional_top_up_canister', argument, { cycles: 4n });
    assert.ok(response.kind === 'reject');
    assert.equal(response.code, 1);
    assert.equal(refunded, 4n);
    assert.deepEqual(bench.log.lines, ['error: the management canister failed at provisional_top_up_canister: oops']);
  });
});
