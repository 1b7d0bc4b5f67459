/**
 * `svc/contracts/management-backend`: the suite that a keeper of canisters has to pass for the management canister.
 * Permissions are not the backend's business, and nothing here asks for one.
 */
import assert from 'node:assert/strict';
import { ServerError } from '../../../kernel/index.ts';
import type { CodeChange } from '../../../subsystems/execution/index.ts';
import type { HostedCanister, HostedCode, ManagementBackend } from '../../../subsystems/management/index.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

export interface MadeBackend {
  /** A backend with hooks attached, and started. It ends with the test, and may serve several. */
  readonly backend: ManagementBackend;
  /** A module with a mutable global, and an argument with which it can be installed. */
  readonly wasm: Uint8Array;
  readonly argument: Uint8Array;
  /** A module and an argument whose installation traps. */
  readonly trapping: { readonly wasm: Uint8Array; readonly argument: Uint8Array };
  /**
   * Opens a call context of a canister that has `wasm`; the context stays open until the returned function is called.
   */
  readonly openCall: (canister: HostedCanister) => Promise<() => void>;
  /** Canisters with which `ManagementHooks.forget` was called. */
  readonly forgotten: readonly HostedCanister[];
}

const CALLER = Uint8Array.of(4);
const ALICE = Uint8Array.of(1, 1);
const BOB = Uint8Array.of(2, 2);

export function describeManagementBackend(
  name: string,
  make: (context: SuiteContext) => Promise<MadeBackend>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    test('a new canister is empty, runs, and is found by its id, always as the same object', async (t) => {
      const { backend } = await make(t);
      const one = create(backend);
      const other = create(backend, 7n);
      assert.deepEqual([one.status, one.code, one.heapBytes, one.stableBytes], ['running', undefined, 0, 0]);
      assert.equal(one.id.length, 10);
      assert.notDeepEqual(one.id, other.id);
      assert.equal(backend.find(one.id.slice()), one);
      assert.equal(other.balance, 7n);
      assert.deepEqual(one.controllers, [ALICE]);
      assert.equal(backend.find(Uint8Array.of(9, 9, 9)), undefined);
      const ids = backend.list().map(({ id }) => hexOf(id));
      assert.deepEqual(ids, ids.toSorted());
      assert.ok(ids.includes(hexOf(one.id)) && ids.includes(hexOf(other.id)));
    });

    test('an id is given once: not while it is in use, and not when its canister is gone', async (t) => {
      const { backend } = await make(t);
      const { id } = create(backend);
      const again = (): HostedCanister =>
        backend.create({ id: id.slice(), balance: undefined, settings: { controllers: [ALICE] } });
      assert.throws(again, isInvalid);
      const found = backend.find(id);
      assert.ok(found !== undefined);
      await backend.stop(found);
      await backend.remove(found);
      assert.throws(again, isInvalid);
      assert.equal(backend.find(id), undefined);
    });

    test('settings that are given count at once, others stay, and the version goes up by one', async (t) => {
      const { backend } = await make(t);
      const it = create(backend);
      const { version } = it;
      backend.configure(it, { controllers: [ALICE, BOB], environment: new Map([['A', '1']]) });
      assert.deepEqual([it.controllers, [...it.environment], it.version], [[ALICE, BOB], [['A', '1']], version + 1]);
      backend.configure(it, { environment: new Map([['B', '2']]) });
      assert.deepEqual([it.controllers, [...it.environment]], [[ALICE, BOB], [['B', '2']]]);
      backend.configure(it, {});
      assert.equal(it.version, version + 3);
    });

    test('changes of a canister take turns, after one that fails too, and another canister does not wait', async (t) => {
      const { backend } = await make(t);
      const [one, other] = [create(backend), create(backend)];
      const steps: string[] = [];
      let end = (): void => undefined;
      const first = backend.inTurn(one, async () => {
        steps.push('first');
        await new Promise<void>((resolve) => (end = resolve));
        steps.push('first has ended');
        throw new Error('it fails');
      });
      const second = backend.inTurn(one, async () => {
        steps.push('second');
        return 2;
      });
      assert.equal(await backend.inTurn(other, async () => steps.push('other')), 2);
      assert.deepEqual(steps, ['first', 'other']);
      end();
      await assert.rejects(first, /it fails/);
      assert.equal(await second, 2);
      assert.deepEqual(steps, ['first', 'other', 'first has ended', 'second']);
    });

    test('a module is prepared once, and what is none is refused as invalid', async (t) => {
      const { backend, wasm } = await make(t);
      const module = await backend.prepare(wasm);
      assert.equal((await backend.prepare(wasm.slice())).hash, module.hash);
      for (const bytes of [new Uint8Array(0), Buffer.from('no module'), wasm.subarray(0, 7)])
        await assert.rejects(backend.prepare(bytes), isInvalid);
    });

    test('code is installed, and one that traps leaves what was there', async (t) => {
      const made = await make(t);
      const { backend, trapping } = made;
      const it = create(backend);
      const { version } = it;
      const bad = { module: await backend.prepare(trapping.wasm), wasm: trapping.wasm };
      const install = { mode: 'install', argument: trapping.argument, caller: CALLER } as const;
      assert.equal((await backend.change(it, bad, install))?.code, 5);
      assert.deepEqual([it.code, it.version], [undefined, version]);
      const code = await installed(made, it);
      assert.equal(it.code?.module.hash, code.module.hash);
      assert.equal(hexOf(it.code?.wasm ?? new Uint8Array(0)), hexOf(made.wasm));
      assert.equal(it.version, version + 1);
      assert.ok((await backend.change(it, bad, { ...install, mode: 'reinstall' })) !== undefined);
      assert.deepEqual([it.code?.module.hash, it.version], [code.module.hash, version + 1]);
    });

    test('what is uninstalled has no code and no memory, and keeps its balance and settings', async (t) => {
      const made = await make(t);
      const { backend } = made;
      const it = create(backend);
      await installed(made, it);
      const { version, balance } = it;
      await backend.uninstall(it);
      assert.deepEqual([it.code, it.heapBytes, it.stableBytes, it.version], [undefined, 0, 0, version + 1]);
      assert.deepEqual([it.controllers, it.balance, backend.logs(it).length], [[ALICE], balance, 0]);
      await installed(made, it);
    });

    test('it stops at once where no call is open, and starts again', async (t) => {
      const { backend } = await make(t);
      const it = create(backend);
      const { version } = it;
      assert.equal(await backend.stop(it), 'stopped');
      assert.equal(it.status, 'stopped');
      assert.ok(it.version > version);
      assert.equal(await backend.stop(it), 'stopped', 'a second time');
      const stopped = it.version;
      await backend.start(it);
      assert.deepEqual([it.status, it.version], ['running', stopped + 1]);
      await backend.start(it);
      assert.deepEqual([it.status, it.version], ['running', stopped + 2], 'running already: the version alone');
    });

    test('it stops when the last call has ended, and who waits is told if it is started instead', async (t) => {
      const made = await make(t);
      const { backend } = made;
      const it = create(backend, 10n ** 13n);
      await installed(made, it);
      const close = await made.openCall(it);
      const stopping = backend.stop(it);
      assert.equal(it.status, 'stopping');
      await backend.start(it);
      assert.equal(await stopping, 'started');
      const again = backend.stop(it);
      assert.equal(it.status, 'stopping');
      close();
      assert.equal(await again, 'stopped');
      assert.equal(it.status, 'stopped');
    });

    test('what is removed is forgotten, by the management canister, too', async (t) => {
      const { backend, forgotten } = await make(t);
      const it = create(backend);
      await backend.stop(it);
      await backend.remove(it);
      assert.equal(backend.find(it.id), undefined);
      assert.ok(!backend.list().includes(it));
      assert.equal(forgotten.filter((canister) => canister === it).length, 1);
    });

    test('cycles are added, and the canister has them', async (t) => {
      const { backend } = await make(t);
      const it = create(backend, 100n);
      assert.equal(await backend.addCycles(it, 23n), 123n);
      assert.equal(it.balance, 123n);
    });

    test('a state is captured as a copy, and put into any canister', async (t) => {
      const made = await make(t);
      const { backend } = made;
      const it = create(backend);
      await installed(made, it);
      const image = await backend.capture(it);
      const { heap } = image;
      assert.ok(heap.length > 0 && heap.length === it.heapBytes);
      assert.equal(image.module?.hash, it.code?.module.hash);
      const mark = heap.findIndex((byte) => byte === 0);
      heap[mark] = 77;
      assert.equal((await backend.capture(it)).heap[mark], 0, 'its buffers are the caller’s');
      const { version } = it;
      await backend.restore(it, { image, wasm: made.wasm, timerNs: undefined, lowMemoryHook: undefined });
      assert.equal(it.version, version + 1);
      heap[mark] = 78;
      assert.equal((await backend.capture(it)).heap[mark], 77, 'what was put back is a copy');
      const other = create(backend);
      await backend.restore(other, { image, wasm: made.wasm, timerNs: 0n, lowMemoryHook: undefined });
      assert.deepEqual([other.code?.module.hash, other.heapBytes], [it.code?.module.hash, it.heapBytes]);
      const empty = await backend.capture(create(backend));
      assert.deepEqual([empty.module, empty.heap.length, empty.stablePages], [undefined, 0, 0]);
      await backend.restore(it, { image: empty, wasm: undefined, timerNs: undefined, lowMemoryHook: undefined });
      assert.deepEqual([it.code, it.heapBytes], [undefined, 0]);
    });

    test('globals are read and written by the types of their module', async (t) => {
      const made = await make(t);
      const { backend } = made;
      const it = create(backend);
      const { module } = await installed(made, it);
      const image = await backend.capture(it);
      const values = backend.readGlobals(image);
      assert.ok(values.length > 0);
      assert.deepEqual(
        values.map(({ type }) => type),
        module.globals.map(({ type }) => type),
      );
      assert.deepEqual(backend.writeGlobals(module, values), image.globals);
      const changed = values.map(({ type, bits }, at) => ({ type, bits: at === 0 ? 5n : bits }));
      const written = { ...image, globals: backend.writeGlobals(module, changed) };
      assert.deepEqual(backend.readGlobals(written), changed);
      assert.throws(() => backend.writeGlobals(module, values.slice(1)), isInvalid);
      assert.throws(() => backend.writeGlobals(module, [...values, { type: 'i32', bits: 0n }]), isInvalid);
    });
  });
}

function create(backend: ManagementBackend, balance?: bigint): HostedCanister {
  return backend.create({ id: undefined, balance, settings: { controllers: [ALICE] } });
}

async function installed({ backend, wasm, argument }: MadeBackend, canister: HostedCanister): Promise<HostedCode> {
  const code = { module: await backend.prepare(wasm), wasm };
  const change: CodeChange = { mode: 'install', argument, caller: CALLER };
  assert.equal(await backend.change(canister, code, change), undefined);
  return code;
}

function isInvalid(error: unknown): boolean {
  return error instanceof ServerError && error.kind === 'invalid' && error.message !== '';
}

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
