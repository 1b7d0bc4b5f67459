import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import { idOf, STARTING_CYCLES } from './fake-host.ts';
import { base64, ManagementBench, OWNER, STRANGER, text } from './management-bench.ts';

interface Created {
  readonly canister_id: string;
}
interface Status {
  readonly status: Readonly<Record<string, null>>;
  readonly version: number;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly module_hash: string | null;
  readonly memory_size: number;
  readonly memory_metrics: Readonly<Record<string, number>>;
  readonly cycles: number;
  readonly ready_for_migration: boolean;
  readonly query_stats: Readonly<Record<string, number>>;
}
interface Info {
  readonly total_num_changes: number;
  readonly recent_changes: readonly { readonly details: Readonly<Record<string, unknown>>; readonly origin: unknown }[];
}

const DEFAULTS = {
  compute_allocation: 0,
  memory_allocation: 0,
  freezing_threshold: 2_592_000,
  reserved_cycles_limit: 5_000_000_000_000,
  minimum_incoming_canister_call_cycles: 0,
  log_visibility: { controllers: null },
  snapshot_visibility: { controllers: null },
  status_visibility: { controllers: null },
  wasm_memory_limit: 0,
  wasm_memory_threshold: 0,
  log_memory_limit: 65_536,
  environment_variables: [],
};

describe('creating canisters', () => {
  test('a canister creates one, controls it and gives it the attached cycles', async () => {
    const bench = new ManagementBench();
    const parent = bench.canister();
    const { result, refunded } = await bench.paid(
      'create_canister',
      { settings: null },
      { ...bench.from(parent), cycles: 500n },
    );
    assert.equal(refunded, 0n);
    const id = (result as Created).canister_id;
    const status = await bench.ok<Status>('canister_status', { canister_id: id }, bench.from(parent));
    assert.deepEqual(status.settings, { ...DEFAULTS, controllers: [text(parent.id)] });
    assert.equal(status.cycles, 500);
    assert.deepEqual(status.status, { running: null });
    assert.equal(status.module_hash, null);
  });

  test('without cycles it gets the starting balance of the host', async () => {
    const bench = new ManagementBench();
    const parent = bench.canister();
    await bench.ok('create_canister', {}, bench.from(parent));
    assert.equal(bench.host.list().at(-1)?.balance, STARTING_CYCLES);
  });

  test('the operator may create one directly', async () => {
    const bench = new ManagementBench();
    const { canister_id: id } = await bench.ok<Created>('create_canister', {}, { isAdmin: true });
    assert.equal(id, text(bench.host.list()[0]?.id ?? OWNER));
  });

  test('a provisional one takes an id and an amount, from anyone', async () => {
    const bench = new ManagementBench();
    const id = text(idOf(0x8000_0000_0010_0ff0n));
    const argument = { amount: '123456789012345678901234567890', specified_id: id };
    const created = await bench.ok<Created>('provisional_create_canister_with_cycles', argument, { sender: STRANGER });
    assert.equal(created.canister_id, id);
    const [canister] = bench.host.list();
    assert.equal(canister?.balance, 123456789012345678901234567890n);
    assert.deepEqual(canister.controllers, [STRANGER]);
    const again = await bench.refused('provisional_create_canister_with_cycles', argument);
    assert.deepEqual([again.code, again.message.slice(0, 6)], [2, 'IC0205']);
    await bench.host.remove(canister);
    assert.equal((await bench.refused('provisional_create_canister_with_cycles', argument)).code, 2, 'never reused');
  });

  test('ids of another form and amounts over 128 bits are refused', async () => {
    const bench = new ManagementBench();
    for (const id of [OWNER, new Uint8Array(0), Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 1, 1, 2)]) {
      const { code } = await bench.refused('provisional_create_canister_with_cycles', { specified_id: text(id) });
      assert.equal(code, 4);
    }
    const amount = (2n ** 128n).toString();
    assert.equal((await bench.refused('provisional_create_canister_with_cycles', { amount })).code, 4);
    assert.equal(bench.host.list().length, 0);
  });

  test('the creation is the first entry of the history, with the hash of the environment', async () => {
    const bench = new ManagementBench();
    const parent = bench.canister();
    const settings = {
      environment_variables: [
        { name: 'B', value: '2' },
        { name: 'A', value: '1' },
      ],
    };
    const { canister_id: id } = await bench.ok<Created>(
      'create_canister',
      { settings, sender_canister_version: 0 },
      bench.from(parent),
    );
    const info = await bench.ok<Info>(
      'canister_info',
      { canister_id: id, num_requested_changes: 5 },
      bench.from(parent),
    );
    const sha256 = (data: string | Uint8Array) => createHash('sha256').update(data).digest();
    const pairs = [Buffer.concat([sha256('A'), sha256('1')]), Buffer.concat([sha256('B'), sha256('2')])];
    const hash = sha256(Buffer.concat(pairs.sort((a, b) => Buffer.compare(a, b))));
    assert.deepEqual(info.recent_changes, [
      {
        timestamp_nanos: `${bench.clock.nowMs()}000000`,
        canister_version: 0,
        origin: { from_canister: { canister_id: text(parent.id), canister_version: 0 } },
        details: { creation: { controllers: [text(parent.id)], environment_variables_hash: base64(hash) } },
      },
    ]);
  });
});

describe('settings', () => {
  test('what is given changes, what is not stays', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const id = text(canister.id);
    const settings = {
      controllers: [text(OWNER), text(STRANGER), text(OWNER)],
      compute_allocation: 100,
      memory_allocation: (2n ** 64n - 1n).toString(),
      freezing_threshold: 5,
      reserved_cycles_limit: (2n ** 128n - 1n).toString(),
      minimum_incoming_canister_call_cycles: 17,
      log_visibility: { allowed_viewers: [text(STRANGER)] },
      snapshot_visibility: { public: null },
      status_visibility: { controllers: null },
      wasm_memory_limit: (2n ** 48n).toString(),
      wasm_memory_threshold: 3,
      log_memory_limit: 5000,
      environment_variables: [{ name: 'A', value: 'x' }],
    };
    await bench.ok('update_settings', { canister_id: id, settings });
    await bench.ok('update_settings', { canister_id: id, settings: { freezing_threshold: 6 } });
    const status = await bench.ok<Status>('canister_status', { canister_id: id });
    const limit = Number(2n ** 48n);
    assert.deepEqual(status.settings, {
      ...settings,
      log_memory_limit: 65_536,
      controllers: [text(OWNER), text(STRANGER)],
      freezing_threshold: 6,
      wasm_memory_limit: limit,
    });
    assert.equal(canister.settings.minimumIncomingCanisterCallCycles, 17n);
    assert.equal(canister.settings.wasmMemoryLimit, limit);
    assert.equal(canister.settings.wasmMemoryThreshold, 3);
    assert.deepEqual([...canister.environment], [['A', 'x']]);
  });

  test('only a change of controllers enters the history', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const id = text(canister.id);
    await bench.ok('update_settings', { canister_id: id, settings: { compute_allocation: 1 } });
    await bench.ok('update_settings', { canister_id: id, settings: { controllers: [text(STRANGER)] } });
    const info = await bench.ok<Info>(
      'canister_info',
      { canister_id: id, num_requested_changes: 9 },
      bench.from(canister),
    );
    assert.deepEqual(
      info.recent_changes.map(({ details }) => details),
      [{ controllers_change: { controllers: [text(STRANGER)] } }],
    );
    assert.equal(
      (await bench.refused('update_settings', { canister_id: id, settings: {} })).code,
      5,
      'it was handed over',
    );
  });

  test('each rule that is broken is named, and nothing changes', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const many = (count: number) => Array.from({ length: count }, (_, index) => text(Uint8Array.of(index, 1)));
    const broken: readonly (readonly [object, RegExp])[] = [
      [{ controllers: many(11) }, /11 controllers: at most 10/],
      [{ compute_allocation: 101 }, /compute_allocation is 101: at most 100/],
      [{ memory_allocation: (2n ** 64n).toString() }, /memory_allocation/],
      [{ freezing_threshold: (2n ** 64n).toString() }, /freezing_threshold/],
      [{ reserved_cycles_limit: (2n ** 128n).toString() }, /reserved_cycles_limit/],
      [{ minimum_incoming_canister_call_cycles: (2n ** 128n).toString() }, /minimum_incoming_canister_call_cycles/],
      [{ wasm_memory_limit: (2n ** 48n + 1n).toString() }, /wasm_memory_limit/],
      [{ wasm_memory_threshold: (2n ** 48n + 1n).toString() }, /wasm_memory_threshold/],
      [{ log_memory_limit: 2 ** 21 + 1 }, /log_memory_limit/],
      [{ log_visibility: { allowed_viewers: many(11) } }, /log_visibility has 11 viewers/],
      [{ snapshot_visibility: { allowed_viewers: many(11) } }, /snapshot_visibility/],
      [{ status_visibility: { allowed_viewers: many(11) } }, /status_visibility/],
      [{ environment_variables: many(21).map((name) => ({ name, value: '' })) }, /21 environment variables/],
      [{ environment_variables: [{ name: 'ä'.repeat(65), value: '' }] }, /has 130 bytes: at most 128/],
      [{ environment_variables: [{ name: 'a', value: 'x'.repeat(129) }] }, /value .* has 129 bytes/],
      [{ environment_variables: ['a', 'a'].map((name) => ({ name, value: '' })) }, /two environment variables "a"/],
    ];
    for (const [settings, message] of broken) {
      const answer = await bench.refused('update_settings', {
        canister_id: text(canister.id),
        settings: { freezing_threshold: 9, ...settings },
      });
      assert.equal(answer.code, 4);
      assert.match(answer.message, message);
    }
    assert.equal(canister.version, 0);
    await bench.ok('update_settings', { canister_id: text(canister.id), settings: { controllers: many(10) } });
  });

  test('a version that the sender has not reached yet is refused', async () => {
    const bench = new ManagementBench();
    const parent = bench.canister();
    const child = bench.host.create({ id: undefined, balance: 1n, settings: { controllers: [parent.id] } });
    const argument = { canister_id: text(child.id), settings: {}, sender_canister_version: 4 };
    const { code, message } = await bench.refused('update_settings', argument, bench.from(parent));
    assert.equal(code, 5);
    assert.match(message, /sender_canister_version is 4, but the sender's version is 0/);
    parent.version = 5;
    await bench.ok('update_settings', argument, bench.from(parent));
  });
});

describe('canister_status', () => {
  test('is for controllers, the canister itself, the operator and whom the settings name', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const argument = { canister_id: text(canister.id) };
    for (const isQuery of [false, true]) {
      await bench.ok('canister_status', argument, { isQuery });
      await bench.ok('canister_status', argument, { isQuery, ...bench.from(canister) });
      await bench.ok('canister_status', argument, { isQuery, sender: STRANGER, isAdmin: true });
      await bench.refused('canister_status', argument, { isQuery, sender: STRANGER });
    }
    await bench.ok('update_settings', { ...argument, settings: { status_visibility: { public: null } } });
    await bench.ok('canister_status', argument, { sender: STRANGER });
    const viewers = { status_visibility: { allowed_viewers: [text(STRANGER)] } };
    await bench.ok('update_settings', { ...argument, settings: viewers });
    await bench.ok('canister_status', argument, { sender: STRANGER });
    await bench.refused('canister_status', argument, { sender: Uint8Array.of(9) });
  });

  test('memory_size is the sum of its parts', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    canister.heap = new Uint8Array(65_536);
    canister.stablePages = 2;
    await bench.ok('upload_chunk', { canister_id: text(canister.id), chunk: base64('abc') });
    const status = await bench.ok<Status>('canister_status', { canister_id: text(canister.id) });
    const { memory_metrics: metrics } = status;
    assert.equal(metrics['wasm_memory_size'], 65_536);
    assert.equal(metrics['stable_memory_size'], 131_072);
    assert.equal(metrics['wasm_chunk_store_size'], 3);
    assert.equal(status.memory_size, 65_536 + 131_072 + 3);
    assert.deepEqual(status.query_stats, {
      num_calls_total: 1,
      num_instructions_total: 2,
      request_payload_bytes_total: 3,
      response_payload_bytes_total: 4,
    });
  });
});

describe('cycles', () => {
  test('deposit_cycles moves what is attached to any canister', async () => {
    const bench = new ManagementBench();
    const from = bench.canister();
    const to = bench.canister();
    const { refunded } = await bench.paid(
      'deposit_cycles',
      { canister_id: text(to.id) },
      { ...bench.from(from), cycles: 40n },
    );
    assert.equal(refunded, 0n);
    assert.equal(to.balance, 140n);
  });

  test('provisional_top_up_canister makes them out of nothing, and keeps none that are attached', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const argument = { canister_id: text(canister.id), amount: 1000 };
    const { refunded } = await bench.paid('provisional_top_up_canister', argument, {
      ...bench.from(canister),
      cycles: 3n,
    });
    assert.equal(refunded, 3n);
    assert.equal(canister.balance, 1100n);
    assert.equal(
      (await bench.refused('provisional_top_up_canister', { ...argument, amount: (2n ** 128n).toString() })).code,
      4,
    );
  });

  test('canister_metrics tells what executions cost and what was burned', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const metrics = await bench.ok<{ cycles_consumed: Record<string, number> }>(
      'canister_metrics',
      { canister_id: text(canister.id) },
      { isQuery: true },
    );
    const { instructions, burned_cycles: burned, ...rest } = metrics.cycles_consumed;
    assert.deepEqual([instructions, burned], [11, 7]);
    assert.deepEqual(new Set(Object.values(rest)), new Set([0]));
    await bench.refused('canister_metrics', { canister_id: text(canister.id) }, bench.from(canister));
  });
});
