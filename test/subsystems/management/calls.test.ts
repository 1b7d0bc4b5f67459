import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc, { cases } from '../../support/properties.ts';
import { ManagementBench, methods, OWNER, STRANGER, text } from './management-bench.ts';

const NOTHING = Uint8Array.from(Buffer.from('DIDL\0\0'));
const CANISTER = { sender: Uint8Array.of(0, 0, 0, 0, 0, 16, 0, 9, 1, 1), senderIsCanister: true };

async function rejectOf(bench: ManagementBench, method: string, options = {}) {
  const { response, refunded } = await bench.raw(method, NOTHING, { ...CANISTER, cycles: 5n, ...options });
  assert.ok(response.kind === 'reject', method);
  assert.equal(refunded, 5n);
  return { code: response.code, number: response.message.slice(0, 6), message: response.message };
}

describe('calls to the management canister', () => {
  test('a method that does not exist is refused with IC0407, also one that every object has', async () => {
    const bench = new ManagementBench();
    for (const method of ['no_such_method', '', 'constructor', '__proto__', 'toString', 'x'.repeat(20_000)]) {
      const { code, number, message } = await rejectOf(bench, method);
      assert.deepEqual([code, number], [4, 'IC0407']);
      assert.ok(message.length < 300);
    }
  });

  test('what this host does not offer is refused with code 4 and the reason', async () => {
    const bench = new ManagementBench();
    const reasons: readonly (readonly [string, RegExp])[] = [
      ['flexible_http_request', /not available/],
      ['vetkd_public_key', /vetKD/],
      ['vetkd_derive_key', /vetKD/],
      ['bitcoin_get_balance', /Bitcoin/],
      ['bitcoin_get_utxos', /Bitcoin/],
      ['bitcoin_send_transaction', /Bitcoin/],
      ['bitcoin_get_current_fee_percentiles', /Bitcoin/],
      ['bitcoin_get_block_headers', /Bitcoin/],
    ];
    for (const [method, reason] of reasons) {
      const { code, message } = await rejectOf(bench, method);
      assert.equal(code, 4);
      assert.match(message, reason);
    }
  });

  test('an argument that does not decode is refused with IC0408', async () => {
    const bench = new ManagementBench();
    for (const method of methods.keys()) {
      if (method === 'raw_rand' || method === 'list_canisters') continue;
      const isQuery = method === 'fetch_canister_logs';
      const { code, number } = await rejectOf(bench, method, { isQuery });
      assert.deepEqual([method, code, number], [method, 4, 'IC0408']);
    }
  });

  test('methods for canisters are closed to users, queries to updates, updates to queries', async () => {
    const bench = new ManagementBench();
    const user = { senderIsCanister: false, sender: OWNER };
    for (const method of [
      'create_canister',
      'canister_info',
      'canister_metadata',
      'deposit_cycles',
      'raw_rand',
      'http_request',
      'ecdsa_public_key',
      'sign_with_ecdsa',
      'schnorr_public_key',
      'sign_with_schnorr',
      'node_metrics_history',
      'subnet_info',
    ]) {
      const { code, message } = await rejectOf(bench, method, user);
      assert.equal(code, 4);
      assert.match(message, /only canisters can call/);
    }
    for (const method of ['fetch_canister_logs', 'list_canisters']) {
      assert.match((await rejectOf(bench, method)).message, /only be called as a query/);
    }
    for (const method of methods.keys()) {
      if (['canister_status', 'canister_metrics', 'fetch_canister_logs', 'list_canisters'].includes(method)) continue;
      const { code, number } = await rejectOf(bench, method, { isQuery: true });
      assert.deepEqual([method, code, number], [method, 5, 'IC0536']);
    }
  });

  test('every method about one canister refuses unknown ones with IC0301 and strangers with IC0512', async () => {
    const bench = new ManagementBench();
    const target = text(bench.canister().id);
    const nowhere = text(Uint8Array.of(0x80, 0, 0, 0, 0, 0x10, 0xff, 0xff, 1, 1));
    const blob = 'AA==';
    const mode = { install: null };
    const place = { offset: 0 };
    const metadata = {
      wasm_module_size: 0,
      globals: [],
      wasm_memory_size: 0,
      stable_memory_size: 0,
      certified_data: '',
    };
    const others: Readonly<Record<string, object>> = {
      update_settings: { settings: {} },
      install_code: { mode, wasm_module: blob, arg: '' },
      install_chunked_code: { mode, chunk_hashes_list: [], wasm_module_hash: blob, arg: '' },
      upload_chunk: { chunk: blob },
      clear_chunk_store: {},
      stored_chunks: {},
      uninstall_code: {},
      start_canister: {},
      stop_canister: {},
      delete_canister: {},
      canister_status: {},
      canister_metrics: {},
      fetch_canister_logs: {},
      take_canister_snapshot: {},
      load_canister_snapshot: { snapshot_id: blob },
      list_canister_snapshots: {},
      delete_canister_snapshot: { snapshot_id: blob },
      read_canister_snapshot_metadata: { snapshot_id: blob },
      read_canister_snapshot_data: { snapshot_id: blob, kind: { wasm_module: { offset: 0, size: 0 } } },
      upload_canister_snapshot_metadata: metadata,
      upload_canister_snapshot_data: { snapshot_id: blob, kind: { wasm_memory: place }, chunk: blob },
    };
    for (const [method, rest] of Object.entries(others)) {
      const isQuery = method === 'fetch_canister_logs';
      const argument = (id: string) => ({ canister_id: id, target_canister: id, ...rest });
      const fit = (id: string): object => {
        const { canister_id, target_canister, ...fields } = argument(id);
        return method === 'install_chunked_code' ? { target_canister, ...fields } : { canister_id, ...fields };
      };
      const missing = await bench.refused(method, fit(nowhere), { isQuery });
      assert.deepEqual([method, missing.code, missing.message.slice(0, 6)], [method, 3, 'IC0301']);
      const denied = await bench.refused(method, fit(target), { isQuery, sender: STRANGER });
      assert.deepEqual([method, denied.code, denied.message.slice(0, 6)], [method, 5, 'IC0512']);
    }
    for (const [method, rest] of [
      ['canister_info', {}],
      ['canister_metadata', { name: 'x' }],
      ['deposit_cycles', {}],
    ] as const) {
      const missing = await bench.refused(method, { canister_id: nowhere, ...rest }, CANISTER);
      assert.equal(missing.code, 3);
    }
    assert.equal((await bench.refused('provisional_top_up_canister', { canister_id: nowhere, amount: 1 })).code, 3);
  });

  test('no argument bytes make it fail, whatever the method', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    await bench.host.stop(canister);
    const valid = (method: string): Uint8Array =>
      methods.get(method)?.args.encode(Buffer.from(`[{"canister_id":"${text(canister.id)}"}]`), { lossless: false }) ??
      NOTHING;
    const start = valid('start_canister');
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 60 }),
      fc.uint8Array({ maxLength: 40 }).map((rest) => Buffer.concat([NOTHING.subarray(0, 4), rest])),
      // A well-formed message with some bytes changed.
      fc.array(fc.tuple(fc.nat(start.length - 1), fc.nat(255)), { maxLength: 3 }).map((changes) => {
        const changed = start.slice();
        for (const [at, byte] of changes) changed[at] = byte;
        return changed;
      }),
    );
    const call = fc.tuple(fc.constantFrom(...methods.keys()), bytes, fc.boolean(), fc.boolean());
    await fc.assert(
      fc.asyncProperty(call, async ([method, argument, senderIsCanister, isQuery]) => {
        const sender = senderIsCanister ? CANISTER.sender : OWNER;
        const { response, refunded } = await bench.raw(method, argument, {
          sender,
          senderIsCanister,
          isQuery,
          cycles: 9n,
        });
        if (response.kind === 'reject') assert.equal(refunded, 9n);
        assert.deepEqual(bench.log.lines, [], 'a bug was logged');
      }),
      { numRuns: cases(1500) },
    );
  });
});
