import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import type { ModuleInfo, ModuleStore } from '../../../subsystems/execution/index.ts';
import { PreparedModules } from '../../../subsystems/canisters/prepared-modules.ts';

const INFO: Omit<ModuleInfo, 'hash'> = {
  pointerWidth: 32,
  methods: new Map(),
  entries: new Map(),
  globals: [],
  globalsBytes: 0,
  metadata: new Map(),
  candid: undefined,
  candidArgs: undefined,
};
const BYTES_MAX = 100;

const wasmOf = (text: string, bytes = 10): Uint8Array => new Uint8Array(Buffer.from(text.padEnd(bytes)));
const hashOf = (wasm: Uint8Array): string => createHash('sha256').update(wasm).digest('hex');
const keyOf = (wasm: Uint8Array): Uint8Array => Buffer.from(hashOf(wasm), 'hex');

/** Modules that are held, by their hash; those that begin with `bad` are refused. */
class FakeModules implements ModuleStore {
  readonly prepared: string[] = [];
  readonly kept = new Map<string, number>();
  expected = 0;

  prepare(bytes: Uint8Array): Promise<ModuleInfo> {
    const hash = hashOf(bytes);
    this.prepared.push(hash);
    if (Buffer.from(bytes).toString().startsWith('bad'))
      return Promise.reject(new ServerError('invalid', 'module-invalid', 'it is bad'));
    return Promise.resolve({ ...INFO, hash });
  }

  describe(bytes: Uint8Array): Promise<ModuleInfo> {
    return this.prepare(bytes);
  }

  complete(): Promise<void> {
    return Promise.resolve();
  }

  storedIs(): void {}

  keep({ hash }: ModuleInfo): Disposable {
    this.kept.set(hash, (this.kept.get(hash) ?? 0) + 1);
    return { [Symbol.dispose]: () => void this.kept.delete(hash) };
  }

  expect(kept = 0): void {
    this.expected = kept;
  }
}

function make(): { readonly modules: PreparedModules; readonly store: FakeModules; readonly logged: string[] } {
  const store = new FakeModules();
  const logged: string[] = [];
  const modules = new PreparedModules(store, { info: (line) => void logged.push(line) }, BYTES_MAX);
  return { modules, store, logged };
}

/** Does the same as a waiting storage; returns the number of wanted modules. */
async function look(modules: PreparedModules, there: readonly Uint8Array[]): Promise<number> {
  const byKey = new Map(there.map((wasm) => [hashOf(wasm), wasm]));
  const wanted = modules.wanted([...byKey.keys()].map((hash) => Buffer.from(hash, 'hex')));
  for (const key of wanted) await modules.take(key, byKey.get(Buffer.from(key).toString('hex')) ?? wasmOf(''));
  return wanted.length;
}

test('modules are prepared once, kept while they are there, and let go with the last look that has them', async () => {
  const { modules, store } = make();
  const [one, two] = [wasmOf('one'), wasmOf('two')];
  assert.equal(await look(modules, [one, two]), 2);
  assert.equal(await look(modules, [one, two]), 0);
  assert.deepEqual([store.prepared.length, store.kept.size, store.expected], [2, 2, 2]);
  const code = await modules.of(hashOf(one));
  assert.deepEqual([code?.module.hash, code?.wasm], [hashOf(one), one]);
  assert.equal(await look(modules, [two]), 0);
  assert.deepEqual([[...store.kept.keys()], await modules.of(hashOf(one))], [[hashOf(two)], undefined]);
  modules.clear();
  assert.deepEqual([store.kept.size, modules.count], [0, 0]);
});

test('their bytes have a bound, and what was passed over comes when there is room', async () => {
  const { modules, store } = make();
  const [large, small, other] = [wasmOf('large', 80), wasmOf('small', 30), wasmOf('other', 20)];
  assert.equal(await look(modules, [large, small, other]), 3);
  assert.deepEqual([...store.kept.keys()], [hashOf(large), hashOf(other)]);
  assert.equal(await look(modules, [large, small, other]), 0, 'what has no room is not read again');
  assert.equal(await look(modules, [small, other]), 1);
  assert.deepEqual([...store.kept.keys()], [hashOf(other), hashOf(small)]);
});

test('what is refused or damaged is not there, and is not tried again', async () => {
  const { modules, store, logged } = make();
  const bad = wasmOf('bad');
  assert.equal(await look(modules, [bad]), 1);
  await modules.take(keyOf(wasmOf('right')), wasmOf('wrong'));
  assert.equal(await modules.of(hashOf(wasmOf('right'))), undefined);
  assert.equal(await modules.of(hashOf(bad)), undefined);
  assert.equal(await look(modules, [bad, wasmOf('right')]), 0);
  assert.equal(store.kept.size, 0);
  assert.match(logged.join(), /cannot be prepared: it is bad/);
});

test('one that goes while it is being prepared is not kept', async () => {
  const { modules, store } = make();
  const one = wasmOf('one');
  modules.wanted([keyOf(one)]);
  const taking = modules.take(keyOf(one), one);
  modules.wanted([]);
  await taking;
  assert.deepEqual([store.kept.size, modules.count], [0, 0]);
});
