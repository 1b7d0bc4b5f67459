import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc, { cases } from '../../support/properties.ts';
import { ServerError } from '../../../kernel/index.ts';
import type { ChangeDetails, ChangeOrigin } from '../../../subsystems/management/change.ts';
import { readHistoryEntry, writeHistoryEntry } from '../../../subsystems/management/records/history-value.ts';
import { readerOf as readerOfValue } from '../../../subsystems/management/records/record-store.ts';
import { readSettingsValue, writeSettings } from '../../../subsystems/management/records/settings-value.ts';
import { readSnapshotValue, writeSnapshot } from '../../../subsystems/management/records/snapshot-value.ts';
import type { Visibility } from '../../../subsystems/management/settings.ts';
import type { RecordedStorage } from '../../support/recorded-storage.ts';
import type { FakeCanister } from './fake-host.ts';
import { filled, Lives, MIB, type Taken } from './lives.ts';
import { ManagementBench, OWNER, text } from './management-bench.ts';

/** Returns the key, in hex, of the only entry of a canister with that letter after its id. */
function keyOf(storage: RecordedStorage, letter: string, canister: FakeCanister, after = ''): string {
  const start = Buffer.concat([Buffer.from(letter), canister.id, Buffer.from(after)]).toString('hex');
  const found = storage.entries('meta').filter(([key]) => key.startsWith(start));
  assert.ok(found[0], `there is an entry ${start}`);
  return found[0][0];
}

describe('damage', () => {
  test('to what is read at the start keeps out the canister that it belongs to, and names the key', async () => {
    const lives = new Lives();
    const { canister } = await filled(lives.bench);
    const canister_id = text(canister.id);
    await lives.bench.ok('update_settings', { canister_id, settings: { log_visibility: { public: null } } });
    await lives.bench.ok('take_canister_snapshot', { canister_id });
    const other = await filled(lives.bench);
    await nextTurn();
    const keys = [
      keyOf(lives.storage, 'S', canister),
      keyOf(lives.storage, 'S', canister, 'c'),
      keyOf(lives.storage, 'S', canister, 'n'),
      keyOf(lives.storage, 'S', canister, 's'),
      keyOf(lives.storage, 'H', canister),
    ];
    for (const key of keys) {
      const good = new Map(lives.storage.entries('meta')).get(key);
      assert.ok(good);
      const bad = [
        new Uint8Array(0),
        good.subarray(0, -1),
        Buffer.concat([good, Uint8Array.of(0)]),
        new Uint8Array(40).fill(255),
        Buffer.concat([Uint8Array.of(1), new Uint8Array(60).fill(127)]),
      ];
      for (const value of bad) {
        const storage = lives.storage.restart();
        storage.damage('meta', key, value);
        const bench = new ManagementBench({}, { storage, host: lives.host });
        const damaged = await bench.management.restore();
        assert.deepEqual([...damaged.keys()], [canister], `${key} = ${Buffer.from(value).toString('hex')}`);
        const [error] = damaged.values();
        assert.equal(error?.code, 'state-corrupt');
        assert.ok(error.message.includes(key), error.message);
        assert.equal((await bench.ok<readonly unknown[]>('stored_chunks', { canister_id: other.id })).length, 1);
        await nextTurn();
        assert.equal(storage.units.length, lives.storage.units.length, 'nothing was written');
      }
    }
  });

  test('to a history entry amid others, or to a key, is found', async () => {
    const lives = new Lives();
    const { canister, id } = await filled(lives.bench);
    for (let count = 0; count < 3; count++)
      await lives.bench.ok('update_settings', { canister_id: id, settings: { controllers: [text(OWNER)] } });
    await nextTurn();
    const history = lives.storage.entries('meta').filter(([key]) => key.startsWith('48'));
    assert.equal(history.length, 4);
    const missing = lives.storage.restart();
    missing.damage('meta', history[1]?.[0] ?? '', undefined);
    const odd = lives.storage.restart();
    odd.damage('meta', `${Buffer.concat([Buffer.from('S'), canister.id]).toString('hex')}ff`, Uint8Array.of(0));
    for (const storage of [missing, odd]) {
      const bench = new ManagementBench({}, { storage, host: lives.host });
      const [error] = (await bench.management.restore()).values();
      assert.equal(error?.code, 'state-corrupt');
    }
    const short = lives.storage.restart();
    short.damage('meta', '53ff', Uint8Array.of(0));
    const bench = new ManagementBench({}, { storage: short, host: lives.host });
    await assert.rejects(bench.management.restore(), { code: 'state-corrupt', message: /53ff/ });
  });

  test('to the seed refuses the start', async () => {
    const lives = new Lives();
    await lives.bench.management.restore();
    await nextTurn();
    const storage = lives.storage.restart();
    storage.damage('meta', '4b', new Uint8Array(31));
    const bench = new ManagementBench({ seed: undefined }, { storage, host: lives.host });
    await assert.rejects(bench.management.restore(), { code: 'state-corrupt', message: /4b.*31 bytes/ });
  });

  test('to a content rejects the calls that need it, by its key, and nothing else', async () => {
    const lives = new Lives();
    const { id } = await filled(lives.bench, 3 * MIB);
    const { id: snapshot_id } = await lives.bench.ok<Taken>('take_canister_snapshot', { canister_id: id });
    await nextTurn();
    const place = { canister_id: id, snapshot_id };
    const contents = lives.storage.entries('blob');
    assert.ok(contents.length > 6);
    for (const [key, value] of contents) {
      const isOfStore = key.slice(20, 22) === '63';
      for (const bad of [undefined, value.subarray(1), Buffer.concat([value, value])]) {
        const storage = lives.storage.restart();
        storage.damage('blob', key, bad);
        const bench = new ManagementBench({}, { storage, host: lives.host });
        assert.equal((await bench.management.restore()).size, 0);
        const kind = { wasm_memory: { offset: 0, size: 1 } };
        if (isOfStore) {
          const { code, message } = await bench.refused('take_canister_snapshot', { canister_id: id });
          assert.equal(code, 2, message);
          assert.ok(message.includes(key), message);
          await bench.ok('read_canister_snapshot_data', { ...place, kind });
        } else {
          const { code, message } = await bench.refused('load_canister_snapshot', place);
          assert.equal(code, 2, message);
          assert.ok(message.includes(key.slice(0, 38)), message);
          await bench.refused('read_canister_snapshot_data', { ...place, kind });
          await bench.ok('take_canister_snapshot', { canister_id: id });
          await bench.ok('delete_canister_snapshot', place);
        }
      }
    }
  });
});

describe('stored values', () => {
  const readerOf = (bytes: Uint8Array) => readerOfValue('meta', Uint8Array.of(0xab, 0xcd), bytes);
  const u64 = fc.bigInt(0n, 2n ** 64n - 1n);
  const u128 = fc.bigInt(0n, 2n ** 128n - 1n);
  const principal = fc.uint8Array({ maxLength: 29 });
  const hash = fc.uint8Array({ minLength: 32, maxLength: 32 });
  const principals = fc.array(principal, { maxLength: 10 });
  const visibility = fc.oneof<fc.Arbitrary<Visibility>[]>(
    fc.constantFrom({ kind: 'controllers' as const }, { kind: 'public' as const }),
    fc.record({ kind: fc.constant('viewers' as const), viewers: principals }),
  );
  const settings = fc.record({
    computeAllocation: u64,
    memoryAllocation: u64,
    freezingThreshold: u64,
    reservedCyclesLimit: u128,
    minimumIncomingCanisterCallCycles: u128,
    wasmMemoryLimit: u64,
    wasmMemoryThreshold: u64,
    logVisibility: visibility,
    snapshotVisibility: visibility,
    statusVisibility: visibility,
  });
  const details = fc.oneof<fc.Arbitrary<ChangeDetails>[]>(
    fc.record({
      kind: fc.constant('creation' as const),
      controllers: principals,
      environmentHash: fc.option(hash, { nil: undefined }),
    }),
    fc.constant({ kind: 'codeUninstall' as const }),
    fc.record({
      kind: fc.constant('codeDeployment' as const),
      mode: fc.constantFrom('install' as const, 'reinstall' as const, 'upgrade' as const),
      moduleHash: hash,
    }),
    fc.record({
      kind: fc.constant('loadSnapshot' as const),
      from: fc.option(principal, { nil: undefined }),
      snapshotId: principal,
      version: u64,
      takenAtNs: u64,
      isUploaded: fc.boolean(),
    }),
    fc.record({ kind: fc.constant('controllersChange' as const), controllers: principals }),
  );
  const origin = fc.oneof<fc.Arbitrary<ChangeOrigin>[]>(
    fc.record({ kind: fc.constant('user' as const), id: principal }),
    fc.record({ kind: fc.constant('canister' as const), id: principal, version: fc.option(u64, { nil: undefined }) }),
  );
  const entry = fc.record({ timeNs: u64, version: fc.maxSafeNat(), origin, details });
  const snapshot = fc
    .record({
      wasmBytes: fc.nat(),
      heapBytes: fc.nat(),
      pages: fc.nat(1 << 23),
      more: fc.nat(),
      certifiedData: hash,
      hashes: fc.array(hash, { maxLength: 5 }),
      version: fc.maxSafeNat(),
      timerNs: fc.option(u64, { nil: undefined }),
      hook: fc.option(fc.constantFrom('condition_not_satisfied' as const, 'ready' as const, 'executed' as const), {
        nil: undefined,
      }),
      takenAtNs: u64,
      pieces: fc.nat(),
    })
    .map(({ wasmBytes, heapBytes, pages, more, certifiedData, hashes, version, timerNs, hook, takenAtNs, pieces }) => ({
      takenAtNs,
      pieces,
      description: {
        source: timerNs === undefined || hook === undefined ? ('uploaded' as const) : ('taken' as const),
        wasmBytes,
        heapBytes,
        stableBytes: pages * 65_536,
        bytes: wasmBytes + heapBytes + more,
        certifiedData,
        chunkHashes: hashes.map((bytes) => Buffer.from(bytes).toString('hex')),
        version,
        timerNs,
        lowMemoryHook: hook,
      },
    }));

  test('are read as they were written', () => {
    fc.assert(
      fc.property(settings, (value) =>
        assert.deepEqual(readSettingsValue(readerOf(writeSettings(value))), structuredClone(value)),
      ),
    );
    fc.assert(
      fc.property(entry, (value) =>
        assert.deepEqual(readHistoryEntry(readerOf(writeHistoryEntry(value))), structuredClone(value)),
      ),
    );
    fc.assert(
      fc.property(snapshot, (value) =>
        assert.deepEqual(readSnapshotValue(readerOf(writeSnapshot(value))), structuredClone(value)),
      ),
    );
  });

  test('of any other bytes are refused by their key, and never anything else', () => {
    const expectOrder = (read: () => unknown) => {
      try {
        read();
      } catch (error) {
        assert.ok(error instanceof ServerError, String(error));
        assert.equal(error.code, 'state-corrupt');
        assert.match(error.message, /meta abcd/);
      }
    };
    const flipped = fc
      .tuple(
        fc.oneof(settings.map(writeSettings), entry.map(writeHistoryEntry), snapshot.map(writeSnapshot)),
        fc.nat(),
        fc.nat(255),
      )
      .map(([bytes, at, by]) => bytes.map((byte, index) => (index === at % bytes.length ? byte ^ by : byte)));
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 300 }), flipped), (bytes) => {
        for (const read of [readSettingsValue, readHistoryEntry, readSnapshotValue])
          expectOrder(() => read(readerOf(bytes)));
      }),
      { numRuns: cases(1000) },
    );
  });
});
