import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc, { cases } from '../../support/properties.ts';
import { type FakeCanister, moduleOf } from './fake-host.ts';
import { base64, bytesOf, ManagementBench, OWNER, STRANGER, text } from './management-bench.ts';

const PAGE = 65_536;
const WASM = moduleOf({ 'icp:private globals': 'i32,i64,f32,f64,v128' });
const GLOBALS = [
  { i32: -5 },
  { i64: '-9007199254740993' },
  { f32: 0.5 },
  { f64: 'NaN' },
  { v128: (2n ** 127n).toString() },
];

interface Snapshot {
  readonly id: string;
  readonly taken_at_timestamp: string;
  readonly total_size: number;
}
interface Metadata {
  readonly source: object;
  readonly wasm_module_size: number;
  readonly globals: readonly object[];
  readonly wasm_memory_size: number;
  readonly stable_memory_size: number;
  readonly wasm_chunk_store: readonly { readonly hash: string }[];
  readonly certified_data: string;
  readonly global_timer: object | null;
  readonly on_low_wasm_memory_hook_status: object | null;
}

/** Makes a canister whose snapshot has some content in every part. */
async function filled(bench: ManagementBench): Promise<{ canister: FakeCanister; id: string }> {
  const canister = bench.canister();
  const id = text(canister.id);
  const install = { canister_id: id, mode: { install: null }, wasm_module: base64(WASM), arg: base64('heap content') };
  await bench.ok('install_code', install);
  canister.stablePages = 4;
  canister.stable.set(4096, new Uint8Array(4096).fill(7));
  canister.stable.set(PAGE - 4096, new Uint8Array(4096).fill(8));
  canister.stable.set(PAGE, new Uint8Array(4096).fill(9));
  canister.certifiedData = Uint8Array.of(1, 2, 3);
  canister.timerNs = 123n;
  canister.globals = canister.globals.map((_, index) => index);
  await bench.ok('upload_chunk', { canister_id: id, chunk: base64('chunk') });
  return { canister, id };
}

function stateOf(canister: FakeCanister) {
  const { heap, stable, stablePages, globals, certifiedData, code } = canister;
  // The division into pieces may differ, their content must not.
  const flat = new Uint8Array(stablePages * PAGE);
  for (const [offset, bytes] of stable) flat.set(bytes, offset);
  return { heap, flat, stablePages, globals, certifiedData, hash: code?.module.hash };
}

async function readAll(bench: ManagementBench, place: object, kind: string, length: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for (let offset = 0; offset < length; offset += 50_000) {
    const range = { offset, size: Math.min(50_000, length - offset) };
    const { chunk } = await bench.ok<{ chunk: string }>('read_canister_snapshot_data', {
      ...place,
      kind: { [kind]: range },
    });
    parts.push(bytesOf(chunk));
  }
  return Buffer.concat(parts);
}

describe('snapshots', () => {
  test('what was taken comes back whole, whatever happened in between', async () => {
    const bench = new ManagementBench();
    const { canister, id } = await filled(bench);
    const before = structuredClone(stateOf(canister));
    const chunks = await bench.ok('stored_chunks', { canister_id: id });
    const snapshot = await bench.ok<Snapshot>('take_canister_snapshot', { canister_id: id });
    assert.equal(snapshot.taken_at_timestamp, `${bench.clock.nowMs()}000000`);
    assert.equal(snapshot.total_size, WASM.length + PAGE + 3 * 4096 + 5);
    assert.deepEqual(await bench.ok('list_canister_snapshots', { canister_id: id }), [snapshot]);

    canister.heap.fill(255);
    canister.stable.get(PAGE)?.fill(255);
    canister.timerNs = 456n;
    await bench.ok('uninstall_code', { canister_id: id });
    const { version } = canister;
    await bench.ok('load_canister_snapshot', { canister_id: id, snapshot_id: snapshot.id });
    assert.deepEqual(stateOf(canister), before);
    assert.equal(canister.timerNs, 456n, 'the present timer stays');
    assert.equal(canister.version, version + 1);
    assert.deepEqual(await bench.ok('stored_chunks', { canister_id: id }), chunks);

    interface Info {
      readonly recent_changes: readonly { readonly details: unknown }[];
    }
    const info = await bench.ok<Info>(
      'canister_info',
      { canister_id: id, num_requested_changes: 1 },
      bench.from(canister),
    );
    assert.deepEqual(info.recent_changes[0]?.details, {
      load_snapshot: {
        from_canister_id: null,
        snapshot_id: snapshot.id,
        canister_version: 1,
        taken_at_timestamp: snapshot.taken_at_timestamp,
        source: { taken_from_canister: null },
      },
    });
  });

  test('a canister loads another one’s, if the sender controls both', async () => {
    const bench = new ManagementBench();
    const { canister: from, id } = await filled(bench);
    const to = bench.canister();
    const { id: snapshotId } = await bench.ok<Snapshot>('take_canister_snapshot', { canister_id: id });
    const argument = { canister_id: text(to.id), snapshot_id: snapshotId };
    from.controllers = [STRANGER];
    assert.equal((await bench.refused('load_canister_snapshot', argument)).code, 5);
    from.controllers = [OWNER];
    await bench.ok('load_canister_snapshot', argument);
    assert.deepEqual(stateOf(to), stateOf(from));
    interface Info {
      readonly recent_changes: readonly {
        readonly details: { readonly load_snapshot: { readonly from_canister_id: string } };
      }[];
    }
    const info = await bench.ok<Info>(
      'canister_info',
      { canister_id: text(to.id), num_requested_changes: 1 },
      bench.from(to),
    );
    assert.equal(info.recent_changes[0]?.details.load_snapshot.from_canister_id, id);
  });

  test('read, uploaded to another canister and loaded there, it is the same state', async () => {
    const bench = new ManagementBench();
    const { canister, id } = await filled(bench);
    const { id: snapshotId } = await bench.ok<Snapshot>('take_canister_snapshot', { canister_id: id });
    const source = { canister_id: id, snapshot_id: snapshotId };
    const metadata = await bench.ok<Metadata>('read_canister_snapshot_metadata', source);
    assert.deepEqual(metadata.source, { taken_from_canister: null });
    assert.deepEqual(metadata.global_timer, { active: 123 });
    assert.deepEqual(metadata.on_low_wasm_memory_hook_status, { condition_not_satisfied: null });
    assert.deepEqual(
      metadata.globals.map((value) => Object.keys(value)[0]),
      ['i32', 'i64', 'f32', 'f64', 'v128'],
    );

    const target = bench.canister();
    const { wasm_chunk_store: hashes, ...rest } = metadata;
    const upload = {
      canister_id: text(target.id),
      wasm_module_size: rest.wasm_module_size,
      globals: rest.globals,
      wasm_memory_size: rest.wasm_memory_size,
      stable_memory_size: rest.stable_memory_size,
      certified_data: rest.certified_data,
      global_timer: { active: 999 },
      on_low_wasm_memory_hook_status: { executed: null },
    };
    const uploaded = await bench.ok<{ snapshot_id: string }>('upload_canister_snapshot_metadata', upload);
    const place = { canister_id: text(target.id), snapshot_id: uploaded.snapshot_id };
    for (const [kind, length] of [
      ['wasm_module', metadata.wasm_module_size],
      ['wasm_memory', metadata.wasm_memory_size],
      ['stable_memory', metadata.stable_memory_size],
    ] as const) {
      const bytes = await readAll(bench, source, kind, length);
      assert.equal(bytes.length, length);
      for (let offset = 0; offset < length; offset += 30_001) {
        const chunk = base64(bytes.subarray(offset, offset + 30_001));
        await bench.ok('upload_canister_snapshot_data', { ...place, kind: { [kind]: { offset } }, chunk });
      }
      assert.deepEqual(await readAll(bench, place, kind, length), bytes, `${kind} reads as it was written`);
    }
    for (const { hash } of hashes) {
      const kind = { wasm_chunk: { hash } };
      const { chunk } = await bench.ok<{ chunk: string }>('read_canister_snapshot_data', { ...source, kind });
      await bench.ok('upload_canister_snapshot_data', { ...place, kind: { wasm_chunk: null }, chunk });
    }
    const again = await bench.ok<Metadata>('read_canister_snapshot_metadata', place);
    assert.deepEqual(again.source, { metadata_upload: null });
    assert.deepEqual(again.globals, metadata.globals);
    assert.deepEqual(again.wasm_chunk_store, hashes);

    await bench.ok('load_canister_snapshot', place);
    assert.deepEqual(stateOf(target), stateOf(canister));
    assert.equal(target.timerNs, 999n, 'the upload names a timer');
    assert.equal(target.lowMemoryHook, 'executed');
  });

  test('globals keep their bits', async () => {
    const bench = new ManagementBench();
    const id = text(bench.canister().id);
    const sizes = { wasm_module_size: WASM.length, wasm_memory_size: 0, stable_memory_size: 0, certified_data: '' };
    const { snapshot_id: snapshotId } = await bench.ok<{ snapshot_id: string }>('upload_canister_snapshot_metadata', {
      canister_id: id,
      ...sizes,
      globals: GLOBALS,
    });
    const read = await bench.ok<Metadata>('read_canister_snapshot_metadata', {
      canister_id: id,
      snapshot_id: snapshotId,
    });
    assert.deepEqual(read.globals, GLOBALS);
    assert.equal(read.global_timer, null);
    assert.equal(read.on_low_wasm_memory_hook_status, null);
  });

  test('an uploaded one does not load when its globals are not those of its module, or its module is none', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const id = text(canister.id);
    const sizes = { wasm_module_size: WASM.length, wasm_memory_size: PAGE, stable_memory_size: 0, certified_data: '' };
    const { snapshot_id: snapshotId } = await bench.ok<{ snapshot_id: string }>('upload_canister_snapshot_metadata', {
      canister_id: id,
      ...sizes,
      globals: GLOBALS.slice(1),
    });
    const place = { canister_id: id, snapshot_id: snapshotId };
    assert.equal((await bench.refused('load_canister_snapshot', place)).code, 4);
    const kind = { wasm_module: { offset: 0 } };
    await bench.ok('upload_canister_snapshot_data', { ...place, kind, chunk: base64(WASM) });
    const { code, message } = await bench.refused('load_canister_snapshot', place);
    assert.equal(code, 4);
    assert.match(message, /globals are \[i32,i64,f32,f64,v128\], not \[i64,f32,f64,v128\]/);
    assert.equal(canister.version, 0);
  });

  test('at most ten are kept; replacing and deleting make room', async () => {
    const bench = new ManagementBench();
    const { id } = await filled(bench);
    const taken: Snapshot[] = [];
    for (let count = 0; count < 10; count++) taken.push(await bench.ok('take_canister_snapshot', { canister_id: id }));
    assert.equal(new Set(taken.map((snapshot) => snapshot.id)).size, 10);
    assert.match((await bench.refused('take_canister_snapshot', { canister_id: id })).message, /10 of 10 snapshots/);
    const first = taken[0]?.id;
    await bench.ok('take_canister_snapshot', { canister_id: id, replace_snapshot: first });
    const gone = await bench.refused('take_canister_snapshot', { canister_id: id, replace_snapshot: first });
    assert.match(gone.message, /there is no snapshot/);
    await bench.ok('delete_canister_snapshot', { canister_id: id, snapshot_id: taken[1]?.id });
    await bench.ok('take_canister_snapshot', { canister_id: id });
    assert.equal((await bench.ok<readonly Snapshot[]>('list_canister_snapshots', { canister_id: id })).length, 10);
  });

  test('taking one may uninstall the code at the same time; an empty canister has none to take', async () => {
    const bench = new ManagementBench();
    const { canister, id } = await filled(bench);
    const snapshot = await bench.ok<Snapshot>('take_canister_snapshot', { canister_id: id, uninstall_code: true });
    assert.equal(canister.code, undefined);
    assert.equal((await bench.refused('take_canister_snapshot', { canister_id: id })).code, 5);
    await bench.ok('load_canister_snapshot', { canister_id: id, snapshot_id: snapshot.id });
    assert.notEqual(canister.code, undefined);
  });

  test('snapshot_visibility opens reading, and nothing else', async () => {
    const bench = new ManagementBench();
    const { id } = await filled(bench);
    const { id: snapshotId } = await bench.ok<Snapshot>('take_canister_snapshot', { canister_id: id });
    await bench.ok('update_settings', { canister_id: id, settings: { snapshot_visibility: { public: null } } });
    const place = { canister_id: id, snapshot_id: snapshotId };
    const stranger = { sender: STRANGER };
    await bench.ok('list_canister_snapshots', { canister_id: id }, stranger);
    await bench.ok('read_canister_snapshot_metadata', place, stranger);
    await bench.ok(
      'read_canister_snapshot_data',
      { ...place, kind: { wasm_memory: { offset: 0, size: 1 } } },
      stranger,
    );
    await bench.refused('load_canister_snapshot', place, stranger);
    await bench.refused('delete_canister_snapshot', place, stranger);
  });

  test('ranges outside, too much at once, unknown chunks and taken ones that are written to are refused', async () => {
    const bench = new ManagementBench();
    const { id } = await filled(bench);
    const { id: snapshotId } = await bench.ok<Snapshot>('take_canister_snapshot', { canister_id: id });
    const place = { canister_id: id, snapshot_id: snapshotId };
    const huge = (2n ** 64n - 1n).toString();
    for (const kind of [
      { wasm_module: { offset: WASM.length, size: 1 } },
      { wasm_memory: { offset: huge, size: 1 } },
      { stable_memory: { offset: 4 * PAGE - 1, size: 2 } },
      { stable_memory: { offset: 0, size: huge } },
      { wasm_memory: { offset: 0, size: 2_000_001 } },
      { wasm_chunk: { hash: 'AAAA' } },
    ]) {
      assert.equal((await bench.refused('read_canister_snapshot_data', { ...place, kind })).code, 4);
    }
    const kind = { wasm_memory: { offset: 0 } };
    const written = await bench.refused('upload_canister_snapshot_data', { ...place, kind, chunk: 'AAAA' });
    assert.match(written.message, /was taken from the canister/);
  });

  test('an upload’s sizes are checked before there is room made for them', async () => {
    const bench = new ManagementBench({ storedBytesMax: 1 << 20 });
    const canister_id = text(bench.canister().id);
    const good = {
      wasm_module_size: 1,
      wasm_memory_size: PAGE,
      stable_memory_size: PAGE,
      certified_data: '',
      globals: [],
    };
    for (const [bad, code] of [
      [{ wasm_module_size: (100 << 20) + 1 }, 4],
      [{ wasm_memory_size: 1 }, 4],
      [{ wasm_memory_size: 2 ** 40 }, 1],
      [{ wasm_memory_size: (2n ** 63n).toString() }, 4],
      [{ stable_memory_size: 501 * 2 ** 30 }, 4],
      [{ stable_memory_size: 100 }, 4],
      [{ certified_data: base64(new Uint8Array(33)) }, 4],
      [{ globals: Array.from({ length: 1001 }, () => ({ i32: 0 })) }, 4],
    ] as const) {
      assert.equal(
        (await bench.refused('upload_canister_snapshot_metadata', { canister_id, ...good, ...bad })).code,
        code,
      );
    }
    const { snapshot_id } = await bench.ok<{ snapshot_id: string }>('upload_canister_snapshot_metadata', {
      canister_id,
      ...good,
      stable_memory_size: 500 * 2 ** 30,
    });
    // Stable memory is charged by its written part.
    const write = (page: number) => ({
      canister_id,
      snapshot_id,
      kind: { stable_memory: { offset: page * 1000 * PAGE } },
      chunk: 'AQ==',
    });
    for (let page = 0; page < 14; page++) await bench.ok('upload_canister_snapshot_data', write(page));
    assert.equal((await bench.refused('upload_canister_snapshot_data', write(15))).code, 1);
    await bench.ok('delete_canister_snapshot', { canister_id, snapshot_id });
    const again = { canister_id, ...good, wasm_module_size: 0, wasm_memory_size: 1 << 20 };
    await bench.ok('upload_canister_snapshot_metadata', again);
  });

  test('an uploaded one of many pages is handed over in few pieces, none of which is copied', async () => {
    const bench = new ManagementBench();
    const { canister, id: canister_id } = await filled(bench);
    const metadata = { wasm_module_size: WASM.length, wasm_memory_size: PAGE, stable_memory_size: 100 * PAGE };
    const { snapshot_id } = await bench.ok<{ snapshot_id: string }>('upload_canister_snapshot_metadata', {
      canister_id,
      replace_snapshot: null,
      ...metadata,
      globals: GLOBALS,
      certified_data: '',
      global_timer: null,
      on_low_wasm_memory_hook_status: null,
    });
    const place = { canister_id, snapshot_id };
    await bench.ok('upload_canister_snapshot_data', {
      ...place,
      kind: { wasm_module: { offset: 0 } },
      chunk: base64(WASM),
    });
    // Pages 0 to 39 in order, then 60 backwards: the latter are not adjacent to the former.
    for (const page of [...Array(40).keys(), ...Array.from({ length: 4 }, (_, at) => 60 - at)]) {
      const kind = { stable_memory: { offset: page * PAGE } };
      await bench.ok('upload_canister_snapshot_data', { ...place, kind, chunk: base64(Uint8Array.of(page + 1)) });
    }
    await bench.ok('load_canister_snapshot', { ...place, sender_canister_version: null });
    const { heap, stable } = bench.host.restored ?? assert.fail('nothing was restored');
    assert.deepEqual(
      stable.map(({ offset, bytes }) => [offset / PAGE, bytes.length / PAGE]),
      [
        [0, 16],
        [16, 16],
        [32, 8],
        [57, 1],
        [58, 1],
        [59, 1],
        [60, 1],
      ],
    );
    for (const { offset, bytes } of stable)
      for (let at = 0; at < bytes.length; at += PAGE) assert.equal(bytes[at], (offset + at) / PAGE + 1);
    for (const { buffer } of [heap, ...stable.map(({ bytes }) => bytes)])
      assert.ok(buffer instanceof SharedArrayBuffer);
    assert.equal(canister.stablePages, 100);
  });

  test('stable memory reads as a flat array would, taken or uploaded', async () => {
    const size = 2 * PAGE;
    const write = fc.record({ offset: fc.nat(size - 1), bytes: fc.uint8Array({ minLength: 1, maxLength: 300 }) });
    const range = fc.record({ offset: fc.nat(size), length: fc.nat(PAGE + 500) });
    await fc.assert(
      fc.asyncProperty(fc.array(write, { maxLength: 6 }), range, async (writes, { offset, length }) => {
        const bench = new ManagementBench();
        const { canister, id } = await filled(bench);
        const flat = new Uint8Array(size);
        const metadata = {
          wasm_module_size: 0,
          globals: [],
          wasm_memory_size: 0,
          stable_memory_size: size,
          certified_data: '',
        };
        const { snapshot_id } = await bench.ok<{ snapshot_id: string }>('upload_canister_snapshot_metadata', {
          canister_id: id,
          ...metadata,
        });
        for (const { offset: at, bytes } of writes) {
          const chunk = bytes.subarray(0, size - at);
          flat.set(chunk, at);
          const kind = { stable_memory: { offset: at } };
          await bench.ok('upload_canister_snapshot_data', { canister_id: id, snapshot_id, kind, chunk: base64(chunk) });
        }
        canister.stablePages = 2;
        canister.stable.clear();
        for (let at = 0; at < size; at += 4096) {
          const granule = flat.slice(at, at + 4096);
          if (granule.some((byte) => byte !== 0)) canister.stable.set(at, granule);
        }
        const taken = await bench.ok<Snapshot>('take_canister_snapshot', { canister_id: id });
        const kind = { stable_memory: { offset, size: Math.min(length, size - offset) } };
        for (const snapshotId of [snapshot_id, taken.id]) {
          const argument = { canister_id: id, snapshot_id: snapshotId, kind };
          const { chunk } = await bench.ok<{ chunk: string }>('read_canister_snapshot_data', argument);
          assert.deepEqual(bytesOf(chunk), flat.slice(offset, offset + length));
        }
      }),
      { numRuns: cases(40) },
    );
  });
});
