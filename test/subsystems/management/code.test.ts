import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import type { CodeChange } from '../../../subsystems/execution/index.ts';
import { moduleOf } from './fake-host.ts';
import { base64, ManagementBench, OWNER, STRANGER, text } from './management-bench.ts';

const PERSISTENT = { 'icp:private enhanced-orthogonal-persistence': '64' };
const CLASSICAL = moduleOf({ 'icp:public kind': 'classical' });
const ENHANCED = moduleOf(PERSISTENT);
const ENHANCED_2 = moduleOf({ ...PERSISTENT, 'icp:public kind': 'second' });

const sha256 = (bytes: Uint8Array): Uint8Array => createHash('sha256').update(bytes).digest();

function installation(id: string, wasm: Uint8Array, mode: object = { install: null }, arg = 'arg') {
  return { canister_id: id, wasm_module: base64(wasm), mode, arg: base64(arg) };
}
const upgrade = (options: object | null) => ({ upgrade: options });

interface Info {
  readonly total_num_changes: number;
  readonly module_hash: string | null;
  readonly recent_changes: readonly { readonly details: Readonly<Record<string, unknown>> }[];
}

describe('install_code', () => {
  test('installs with the argument and the caller, and enters it into the history', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const id = text(canister.id);
    await bench.ok('install_code', installation(id, CLASSICAL));
    assert.deepEqual(canister.lastChange, {
      mode: 'install',
      argument: new Uint8Array(Buffer.from('arg')),
      caller: OWNER,
    });
    const info = await bench.ok<Info>(
      'canister_info',
      { canister_id: id, num_requested_changes: 1 },
      bench.from(canister),
    );
    const hash = base64(sha256(CLASSICAL));
    assert.equal(info.module_hash, hash);
    assert.deepEqual(info.recent_changes[0]?.details, {
      code_deployment: { mode: { install: null }, module_hash: hash },
    });
  });

  test('install needs an empty canister, upgrade one that is not; reinstall takes any', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const id = text(canister.id);
    const early = await bench.refused('install_code', installation(id, CLASSICAL, upgrade(null)));
    assert.deepEqual([early.code, early.message.slice(0, 6)], [5, 'IC0537']);
    await bench.ok('install_code', installation(id, CLASSICAL, { reinstall: null }));
    const late = await bench.refused('install_code', installation(id, CLASSICAL));
    assert.deepEqual([late.code, late.message.slice(0, 6)], [5, 'IC0514']);
    await bench.ok('install_code', installation(id, CLASSICAL, { reinstall: null }));
    assert.equal(canister.lastChange?.mode, 'reinstall');
  });

  test('an upgrade hands on its options', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const id = text(canister.id);
    await bench.ok('install_code', installation(id, ENHANCED));
    const options = { skip_pre_upgrade: true, wasm_memory_persistence: { keep: null } };
    await bench.ok('install_code', installation(id, ENHANCED_2, upgrade(options)));
    assert.deepEqual(canister.lastChange, {
      mode: 'upgrade',
      keepsHeap: true,
      skipsPreUpgrade: true,
      argument: new Uint8Array(Buffer.from('arg')),
      caller: OWNER,
    });
    for (const [persistence, keepsHeap] of [
      ['Keep', true],
      ['replace', false],
      ['Replace', false],
    ] as const) {
      await bench.ok(
        'install_code',
        installation(id, ENHANCED, upgrade({ wasm_memory_persistence: { [persistence]: null } })),
      );
      const change: CodeChange | undefined = canister.lastChange;
      assert.ok(change.mode === 'upgrade');
      assert.deepEqual([change.keepsHeap, change.skipsPreUpgrade], [keepsHeap, false], persistence);
    }
  });

  test('a module that keeps its heap is not upgraded without the option', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const id = text(canister.id);
    await bench.ok('install_code', installation(id, ENHANCED));
    const { version, heap } = canister;
    for (const options of [null, { skip_pre_upgrade: true }, { wasm_memory_persistence: null }]) {
      const { code, message } = await bench.refused('install_code', installation(id, ENHANCED_2, upgrade(options)));
      assert.equal(code, 5);
      assert.match(message, /the upgrade has to say wasm_memory_persistence/);
    }
    assert.deepEqual([canister.version, canister.heap], [version, heap]);
  });

  test('keep needs a new module that can take over a heap of the same width', async () => {
    const bench = new ManagementBench();
    const id = text(bench.canister().id);
    const keep = upgrade({ wasm_memory_persistence: { keep: null } });
    await bench.ok('install_code', installation(id, CLASSICAL));
    const missing = await bench.refused('install_code', installation(id, CLASSICAL, keep));
    assert.match(missing.message, /the new module cannot take over a heap/);
    const wide = moduleOf({ ...PERSISTENT, 'icp:private wide': '' });
    assert.match((await bench.refused('install_code', installation(id, wide, keep))).message, /32-bit .* 64-bit/);
    await bench.ok('install_code', installation(id, CLASSICAL, upgrade(null)));
    await bench.ok('install_code', installation(id, ENHANCED, keep));
  });

  test('a module that is none is refused with IC0505, a hook that traps with its own words; nothing changes', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const id = text(canister.id);
    const invalid = await bench.refused('install_code', installation(id, Buffer.from('no module')));
    assert.deepEqual([invalid.code, invalid.message.slice(0, 6)], [5, 'IC0505']);
    const trapping = await bench.refused('install_code', installation(id, moduleOf({ 'icp:public traps': '' })));
    assert.deepEqual(trapping, { code: 5, message: 'IC0502: canister_init trapped: unreachable' });
    assert.equal(canister.code, undefined);
    assert.equal(canister.version, 0);
    const info = await bench.ok<Info>('canister_info', { canister_id: id }, bench.from(canister));
    assert.equal(info.total_num_changes, 0);
  });

  test('changes of one canister wait for each other and see what the one before did', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const id = text(canister.id);
    let underWayMost = 0;
    bench.host.duringChange = async () => {
      underWayMost = Math.max(underWayMost, bench.host.changesUnderWay);
      await new Promise((resolve) => setImmediate(resolve));
    };
    const first = bench.ok('install_code', installation(id, CLASSICAL));
    const second = bench.refused('install_code', installation(id, ENHANCED));
    const third = bench.ok('install_code', installation(id, ENHANCED, upgrade(null)));
    await bench.ok('install_code', installation(text(bench.canister().id), CLASSICAL));
    await Promise.all([first, third]);
    assert.match((await second).message, /is not empty/);
    assert.equal(underWayMost, 2, 'another canister did not wait');
  });

  test('a fault of a hook has the number of its kind', async () => {
    const bench = new ManagementBench();
    const id = text(bench.canister().id);
    for (const [fault, message] of [
      [{ kind: 'limit', code: 5, message: 'instruction limit exceeded' }, 'IC0522: instruction limit exceeded'],
      [{ kind: 'trap', code: 5, message: 'unreachable' }, 'IC0502: unreachable'],
      [{ kind: 'calledTrap', code: 5, message: 'given up' }, 'IC0503: given up'],
      [{ kind: 'trap', code: 5, message: 'IC0503: x\ny' }, 'IC0503: x\ny'],
      [{ kind: 'outOfCycles', code: 2, message: 'dry' }, 'IC0207: dry'],
      [{ kind: 'unavailable', code: 2, message: 'stopping' }, 'IC0201: stopping'],
    ] as const) {
      bench.host.change = () => Promise.resolve(fault);
      const answer = await bench.refused('install_code', installation(id, CLASSICAL));
      assert.deepEqual(answer, { code: fault.code, message });
    }
  });

  test('a change made elsewhere takes its turn', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const steps: string[] = [];
    const elsewhere = bench.host.inTurn(canister, async () => {
      await new Promise((resolve) => setImmediate(resolve));
      steps.push('elsewhere');
    });
    const settings = { canister_id: text(canister.id), settings: {} };
    await bench.ok('update_settings', settings).then(() => steps.push('call'));
    await elsewhere;
    assert.deepEqual(steps, ['elsewhere', 'call']);
  });

  test('a canister that is gone when its turn comes is not found', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    await bench.host.stop(canister);
    const id = text(canister.id);
    const deleted = bench.ok('delete_canister', { canister_id: id });
    const late = await bench.refused('install_code', installation(id, CLASSICAL));
    await deleted;
    assert.equal(late.code, 3);
  });

  test('an argument too large for the main thread is decoded all the same', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const arg = 'x'.repeat(60_000);
    const wasm = moduleOf({ 'icp:private ballast': 'y'.repeat(400_000) });
    await bench.ok('install_code', installation(text(canister.id), wasm, { install: null }, arg));
    assert.equal(Buffer.from(canister.heap.subarray(0, arg.length)).toString(), arg);
  });
});

describe('uninstall_code', () => {
  test('empties the canister and its chunk store; the operator may', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const id = text(canister.id);
    await bench.ok('install_code', installation(id, CLASSICAL));
    await bench.ok('upload_chunk', { canister_id: id, chunk: base64('abc') });
    await bench.ok('uninstall_code', { canister_id: id }, { sender: STRANGER, isAdmin: true });
    assert.equal(canister.code, undefined);
    assert.deepEqual(await bench.ok('stored_chunks', { canister_id: id }), []);
    const info = await bench.ok<Info>(
      'canister_info',
      { canister_id: id, num_requested_changes: 1 },
      bench.from(canister),
    );
    assert.deepEqual(info.recent_changes[0]?.details, { code_uninstall: null });
  });
});

describe('the chunk store', () => {
  const chunkOf = (bytes: Uint8Array) => ({ hash: base64(sha256(bytes)) });

  test('keeps chunks under their SHA-256, for controllers and the canister itself', async () => {
    const bench = new ManagementBench();
    const canister = bench.canister();
    const argument = { canister_id: text(canister.id) };
    const a = Buffer.from('first');
    const b = Buffer.from('second');
    assert.deepEqual(await bench.ok('upload_chunk', { ...argument, chunk: base64(a) }), chunkOf(a));
    assert.deepEqual(
      await bench.ok('upload_chunk', { ...argument, chunk: base64(b) }, bench.from(canister)),
      chunkOf(b),
    );
    await bench.ok('upload_chunk', { ...argument, chunk: base64(a) });
    assert.deepEqual(await bench.ok('stored_chunks', argument), [chunkOf(a), chunkOf(b)]);
    await bench.ok('clear_chunk_store', argument, bench.from(canister));
    assert.deepEqual(await bench.ok('stored_chunks', argument), []);
  });

  test('takes chunks of 1 MiB, a hundred of them', async () => {
    const bench = new ManagementBench();
    const argument = { canister_id: text(bench.canister().id) };
    const chunk = base64(new Uint8Array(1 << 20));
    await bench.ok('upload_chunk', { ...argument, chunk });
    const large = await bench.refused('upload_chunk', { ...argument, chunk: base64(new Uint8Array((1 << 20) + 1)) });
    assert.match(large.message, /1048577 bytes: at most 1048576/);
    for (let index = 1; index < 100; index++)
      await bench.ok('upload_chunk', { ...argument, chunk: base64(`${index}`) });
    assert.match(
      (await bench.refused('upload_chunk', { ...argument, chunk: base64('one more') })).message,
      /100 of 100 chunks/,
    );
    await bench.ok('upload_chunk', { ...argument, chunk });
  });

  test('all stores of the host together are bounded, and deleting a canister makes room', async () => {
    const bench = new ManagementBench({ storedBytesMax: 1000 });
    const [one, two] = [bench.canister(), bench.canister()];
    const upload = (id: Uint8Array, fill: number) => ({
      canister_id: text(id),
      chunk: base64(new Uint8Array(600).fill(fill)),
    });
    await bench.ok('upload_chunk', upload(one.id, 1));
    const full = await bench.refused('upload_chunk', upload(two.id, 2));
    assert.deepEqual([full.code, full.message.slice(0, 6)], [1, 'IC0101']);
    await bench.host.stop(one);
    await bench.ok('delete_canister', { canister_id: text(one.id) });
    await bench.ok('upload_chunk', upload(two.id, 2));
  });
});

describe('install_chunked_code', () => {
  async function uploaded(bench: ManagementBench, id: string, wasm: Uint8Array) {
    const hashes: { readonly hash: string }[] = [];
    for (let at = 0; at < wasm.length; at += 20) {
      const chunk = base64(wasm.subarray(at, at + 20));
      hashes.push(await bench.ok<{ readonly hash: string }>('upload_chunk', { canister_id: id, chunk }));
    }
    return { chunk_hashes_list: hashes, wasm_module_hash: base64(sha256(wasm)), arg: '', mode: { install: null } };
  }

  test('joins the chunks in their order, from its own store or another one', async () => {
    const bench = new ManagementBench();
    const [target, store] = [bench.canister(), bench.canister()];
    const argument = { ...(await uploaded(bench, text(store.id), ENHANCED_2)), target_canister: text(target.id) };
    const elsewhere = await bench.refused('install_chunked_code', argument);
    assert.match(elsewhere.message, /the chunk store has no chunk/);
    await bench.ok('install_chunked_code', { ...argument, store_canister: text(store.id) });
    assert.deepEqual(Buffer.from(target.code?.wasm ?? []), Buffer.from(ENHANCED_2));
    await uploaded(bench, text(target.id), ENHANCED_2);
    await bench.ok('install_chunked_code', { ...argument, mode: { reinstall: null } });
  });

  test('a hash that is not that of the whole is refused, and so is another order', async () => {
    const bench = new ManagementBench();
    const target = bench.canister();
    const argument = { ...(await uploaded(bench, text(target.id), ENHANCED_2)), target_canister: text(target.id) };
    const wrong = await bench.refused('install_chunked_code', {
      ...argument,
      wasm_module_hash: base64(sha256(ENHANCED)),
    });
    assert.equal(wrong.code, 4);
    assert.match(wrong.message, new RegExp(Buffer.from(sha256(ENHANCED_2)).toString('hex')));
    const short = await bench.refused('install_chunked_code', { ...argument, wasm_module_hash: 'AAAA' });
    assert.match(short.message, /a SHA-256 has 32/);
    const turned = { ...argument, chunk_hashes_list: argument.chunk_hashes_list.toReversed() };
    await bench.refused('install_chunked_code', turned);
    assert.equal(target.code, undefined);
  });

  test('the store has to be the sender or controlled by it', async () => {
    const bench = new ManagementBench();
    const store = bench.canister();
    const target = bench.host.create({ id: undefined, balance: 0n, settings: { controllers: [STRANGER, store.id] } });
    const argument = {
      ...(await uploaded(bench, text(store.id), CLASSICAL)),
      target_canister: text(target.id),
      store_canister: text(store.id),
    };
    assert.equal((await bench.refused('install_chunked_code', argument, { sender: STRANGER })).code, 5);
    await bench.ok('install_chunked_code', argument, bench.from(store));
  });

  test('a module of more than 100 MiB is refused before it is put together', async () => {
    const bench = new ManagementBench();
    const target = text(bench.canister().id);
    const { hash } = await bench.ok<{ hash: string }>('upload_chunk', {
      canister_id: target,
      chunk: base64(new Uint8Array(1 << 20)),
    });
    const list = (length: number) => Array.from({ length }, () => ({ hash }));
    const argument = { target_canister: target, wasm_module_hash: hash, arg: '', mode: { install: null } };
    const tooLarge = await bench.refused('install_chunked_code', { ...argument, chunk_hashes_list: list(101) });
    assert.match(tooLarge.message, /more than 104857600 bytes/);
  });
});
