/**
 * Rules of messages, calls and memory, one by one, shown by actors that run scripts (`laboratory.ts`). README.md lists
 * where each rule is tested.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Call, RESULTS_AT, scriptModule } from '../../subsystems/execution/script-canister.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { compileActor, type Host, PERSISTENCE, sharedHost, STRANGER } from './host.ts';
import { Laboratory, NOTHING, outgoing, replyWith, script, type Subject, WIDTH } from './laboratory.ts';

const PAGE = 65_536;
/** The script module begins with 64 pages, 4 MiB. */
const HEAP_PAGES = 64;
const LOW_MEMORY_SLOT = 23;
const HOST_ARGS = ['--timer-ms', '10', '--heartbeat-ms', '0'];

const open = async (): Promise<Laboratory> => Laboratory.open(await sharedHost({ args: HOST_ARGS }));
const REPLY: readonly Call[] = [['msg_reply']];
const grow = (pages: number): readonly Call[] => [['heap_grow', pages], ...REPLY];
/** Each run of a hook or callback with these calls leaves one page more of stable memory. */
const COUNT: readonly Call[] = [['stable64_grow', 1]];
const counted = (subject: Subject): Promise<bigint> => subject.ask(['stable64_size']);

suite('memory limits', () => {
  test('the low-memory hook runs once when the rest falls below the threshold, and again after it was above', async () => {
    const lab = await open();
    const subject = await lab.subject(script([], { [LOW_MEMORY_SLOT]: COUNT }));
    const runs = async (expected: bigint): Promise<void> => {
      await lab.host.until(async () => assert.equal(await counted(subject), expected));
      await sleep(20);
      assert.equal(await counted(subject), expected);
    };
    await subject.set({ wasm_memory_limit: (HEAP_PAGES + 16) * PAGE, wasm_memory_threshold: 8 * PAGE });
    await subject.run(grow(8));
    await runs(0n);
    assert.equal((await subject.fails([['heap_grow', 1], ['unreachable']])).code, 5);
    await subject.run(grow(1), { isQuery: true });
    await runs(0n);
    await subject.run(grow(1));
    await runs(1n);
    await subject.run(grow(1));
    await runs(1n);
    await subject.set({ wasm_memory_threshold: 0 });
    await subject.set({ wasm_memory_threshold: 8 * PAGE });
    await runs(2n);
  });

  for (const limit of [{}, { wasm_memory_limit: 0 }]) {
    const which = 'wasm_memory_limit' in limit ? 'of 0' : 'that is not set';
    test(`with a limit ${which} the low-memory hook is measured by 4 GiB, and nothing is refused`, async () => {
      const lab = await open();
      const subject = await lab.subject(script([], { [LOW_MEMORY_SLOT]: COUNT }));
      await subject.set({ ...limit, wasm_memory_threshold: 2 ** 32 - (HEAP_PAGES + 8) * PAGE });
      await subject.run(grow(8));
      await sleep(50);
      assert.equal(await counted(subject), 0n);
      await subject.run(grow(1));
      await lab.host.until(async () => assert.equal(await counted(subject), 1n));
      await subject.run(grow(1));
      await sleep(50);
      assert.equal(await counted(subject), 1n, 'once');
    });
  }

  for (const persistence of PERSISTENCE) {
    test(`Motoko's lowmemory runs without a limit, ${persistence === 'enhanced' ? '64' : '32'}-bit`, async () => {
      const lab = await open();
      const { wasm } = await compileMotoko(
        `import VarArray "mo:core/VarArray";
        persistent actor {
          var lows = 0;
          transient var kept : [[var Nat]] = [];
          system func lowmemory<system>() : async* () { lows += 1 };
          public func keep(n : Nat) : async () { kept := [VarArray.repeat<Nat>(0, n)] };
          public query func low() : async Nat { lows };
        }`,
        { persistence },
      );
      const subject = await lab.create();
      const { code, data } = await subject.tryChange('install', NOTHING, wasm);
      assert.equal(code, 0, data.toString());
      const heapBytes = async (): Promise<number> =>
        (await lab.host.inspect()).find(({ name }) => name === subject.actor.name)?.heapBytes ?? 0;
      await subject.set({ wasm_memory_threshold: 2 ** 32 - (await heapBytes()) - 16 * PAGE });
      await lab.host.call(subject.actor, 'keep', [10]);
      await sleep(50);
      assert.equal(await lab.host.query(subject.actor, 'low'), 0);
      await lab.host.call(subject.actor, 'keep', [4_000_000]);
      await lab.host.until(async () => assert.equal(await lab.host.query(subject.actor, 'low'), 1));
    });
  }

  test('another state has its own low-memory hook to run', async () => {
    const lab = await open();
    const subject = await lab.subject(script([], { [LOW_MEMORY_SLOT]: COUNT }));
    const taken = async (): Promise<Uint8Array> =>
      ((await subject.manage('take_canister_snapshot')) as { id: Uint8Array }).id;
    const load = (id: Uint8Array): Promise<unknown> => subject.manage('load_canister_snapshot', { snapshot_id: id });
    const runs = async (expected: bigint): Promise<void> => {
      await lab.host.until(async () => assert.equal(await counted(subject), expected));
      await sleep(20);
      assert.equal(await counted(subject), expected);
    };
    await subject.set({ wasm_memory_limit: (HEAP_PAGES + 16) * PAGE, wasm_memory_threshold: 8 * PAGE });
    const small = await taken();
    await subject.run(grow(9));
    await runs(1n);
    const large = await taken();
    await load(large);
    await runs(1n);
    // From there memory gets low within one step.
    await load(small);
    assert.equal(await counted(subject), 0n);
    await subject.run(grow(9));
    await runs(1n);
    // Memory is low from the first moment on.
    await load(small);
    await load(large);
    await runs(2n);
  });

  test('a stopped canister gets its low-memory hook when it is started', async () => {
    const lab = await open();
    const status: readonly Call[] = [['canister_status'], ['heap_copy', 0x9000, 0x8000, 8]];
    const subject = await lab.subject(script([], { [LOW_MEMORY_SLOT]: [...status, ...COUNT] }));
    await subject.manage('stop_canister');
    await subject.set({ wasm_memory_limit: HEAP_PAGES * PAGE, wasm_memory_threshold: PAGE });
    await sleep(50);
    await subject.manage('start_canister');
    await lab.host.until(async () => assert.equal(await counted(subject), 1n));
    assert.equal(await subject.ask(['load8', 0x9000]), 1n, 'it was running');
    await subject.manage('stop_canister');
    await subject.manage('start_canister');
    assert.equal(await counted(subject), 1n);
    // Other code has a hook of its own to run.
    await subject.manage('uninstall_code');
    await subject.change('install', script([], { [LOW_MEMORY_SLOT]: COUNT }));
    await lab.host.until(async () => assert.equal(await counted(subject), 1n));
  });

  test('wasm_memory_limit: updates, init and post_upgrade that leave more are undone; queries and callbacks are exempt', async () => {
    const lab = await open();
    const subject = await lab.subject();
    const limit = (HEAP_PAGES + 6) * PAGE;
    await subject.set({ wasm_memory_limit: limit });
    const refused = await subject.fails([['stable64_grow', 1], ...grow(7)]);
    assert.deepEqual([refused.status, refused.code], [400, 5]);
    assert.match(refused.message, new RegExp(`exceeded its current Wasm memory limit of ${limit} bytes`));
    assert.equal(await counted(subject), 0n);
    assert.equal(await subject.ask(['heap_grow', 0]), BigInt(HEAP_PAGES));
    await subject.run(grow(7), { isQuery: true });
    await subject.run(grow(6));

    const upgraded = await subject.tryChange('upgrade', script([['heap_grow', 7]]));
    assert.match(upgraded.data.toString(), /Wasm memory limit/);
    assert.equal(await subject.ask(['heap_grow', 0]), BigInt(HEAP_PAGES + 6), 'the upgrade changed nothing');
    const reinstalled = await subject.tryChange('reinstall', script([['heap_grow', 7]]));
    assert.match(reinstalled.data.toString(), /Wasm memory limit/);
    await subject.change('reinstall', script([['heap_grow', 6]]));

    const { calls, ...rest } = outgoing(subject.id, 'look', { payload: REPLY, scripts: { 0: grow(1) } });
    await subject.run(calls, rest);
    assert.equal(await subject.ask(['heap_grow', 0]), BigInt(HEAP_PAGES + 7), 'the callback kept what it grew');
    assert.match((await subject.fails(REPLY)).message, /Wasm memory limit/);
    await subject.set({ wasm_memory_limit: 0 });
    await subject.run(grow(100));
  });
});

suite('calls', () => {
  test('inspection is for clients: calls of other actors and queries go past it', async () => {
    const lab = await open();
    const subject = await lab.create();
    // The module's inspection runs the message's script, too, and may not reply.
    const { code } = await subject.tryChange('install', NOTHING, scriptModule(WIDTH));
    assert.equal(code, 0);
    assert.match((await subject.fails(REPLY)).message, /inspect/);
    assert.equal((await lab.forward(subject.id, 'run', script(REPLY))).code, 0);
    await subject.run(REPLY, { isQuery: true });
  });

  test('one-way calls with callbacks that are no functions arrive, and leave nothing open', async () => {
    const lab = await open();
    const [a, b] = [await lab.subject(), await lab.subject()];
    const { calls, ...rest } = outgoing(b.id, 'run', { payload: COUNT, callback: 0xffff_ffff });
    await a.run([...calls, ...COUNT, ...REPLY], rest);
    await lab.host.until(async () => assert.equal(await counted(b), 1n));
    await a.manage('stop_canister');
    await a.manage('start_canister');
    assert.equal(await counted(a), 1n);
  });

  test('a best-effort call of 0 seconds times out with code 6, its cycles are lost; the callee sees a deadline', async () => {
    const lab = await open();
    const holder = await holderOn(lab.host);
    const a = await lab.subject();
    const before = await lab.host.balance(a.actor);
    const answer: readonly Call[] = [['msg_reject_code'], ['msg_cycles_refunded128', 0x9000], ...replyWith(0x8000, 8)];
    const { calls, ...rest } = outgoing(holder.id, 'hold', {
      timeoutSeconds: 0,
      cycles: 7_000_000_000,
      scripts: { 1: answer },
    });
    assert.equal((await a.run(calls, rest)).readBigUInt64LE(0), 6n);
    assert.deepEqual(await a.run(replyWith(0x9000, 16)), Buffer.alloc(16), 'nothing was refunded');
    await holder.release();
    assert.ok(before - (await lab.host.balance(a.actor)) > 7_000_000_000n);

    const b = await lab.subject();
    const tells: readonly Call[] = [['msg_deadline'], ...replyWith(0x8000, 8)];
    const hears: readonly Call[] = [['msg_arg_data_copy', 0x9000, 0, 8], ...replyWith(0x9000, 8)];
    for (const timeout of [{ timeoutSeconds: 60 }, {}]) {
      const call = outgoing(b.id, 'run', { payload: tells, scripts: { 0: hears }, ...timeout });
      const deadline = (await a.run(call.calls, call)).readBigUInt64LE(0);
      assert.equal(deadline > 0n, 'timeoutSeconds' in timeout);
    }
  });

  test('minimum_incoming_canister_call_cycles: others must attach them, clients and the canister itself need not', async () => {
    const lab = await open();
    const subject = await lab.subject();
    await subject.set({ minimum_incoming_canister_call_cycles: 1_000 });
    const payload = script(REPLY);
    const short = await lab.forward(subject.id, 'run', payload, 999n);
    assert.deepEqual([short.code, short.refunded], [5, 999n]);
    const enough = await lab.forward(subject.id, 'run', payload, 1_000n);
    assert.deepEqual([enough.code, enough.refunded], [0, 1_000n]);
    await subject.run(REPLY);
    const self = outgoing(subject.id, 'run', { payload: REPLY, scripts: { 0: REPLY } });
    await subject.run(self.calls, self);
  });

  test('msg_caller: the client, the calling canister, the one of the context in callbacks and cleanup, the management canister for hooks', async () => {
    const lab = await open();
    const at = 0x9000;
    const remember = (slot: number): readonly Call[] => [
      ['msg_caller_size'],
      // The size is the script's first result, kept where no other script writes.
      ['heap_copy', at + 64 * slot, 0x8000, 8],
    ];
    const subject = await lab.subject(script(remember(0)));
    const sizeAt = async (slot: number): Promise<bigint> => subject.ask(['load8', at + 64 * slot]);
    assert.equal(await sizeAt(0), 10n, 'init: the proxy');
    const copied: readonly Call[] = [['msg_caller_copy', at + 512, 0, 1], ...replyWith(at + 512, 1)];
    assert.deepEqual(await subject.run(copied), Buffer.of(4), 'anonymous');
    const stranger = await subject.ask(['msg_caller_size']);
    assert.equal(stranger, 1n);
    assert.equal(await subject.result(['msg_caller_size'], { caller: STRANGER }), 3n, 'a named client');
    const asked = await lab.forward(subject.id, 'run', script([['msg_caller_copy', at, 0, 10], ...replyWith(at, 10)]));
    assert.deepEqual(asked.data, Buffer.from(lab.proxy.id));

    const callback: readonly Call[] = [['msg_caller_copy', at, 0, 1], ...replyWith(at, 1)];
    const call = outgoing(subject.id, 'look', { payload: REPLY, scripts: { 0: callback } });
    assert.deepEqual(await subject.run(call.calls, call), Buffer.of(4));
    const cleaned = outgoing(subject.id, 'look', {
      payload: REPLY,
      cleanup: 2,
      scripts: { 0: [['unreachable']], 2: remember(2) },
    });
    await subject.fails(cleaned.calls, cleaned);
    assert.equal(await sizeAt(2), 1n, 'cleanup');

    await subject.run(REPLY, { scripts: { 21: remember(4), [LOW_MEMORY_SLOT]: remember(5) } });
    // Marks that a hook would have to overwrite.
    await subject.run([['store8', at + 64 * 4, 9], ['store8', at + 64 * 5, 9], ...REPLY]);
    await subject.run([['global_timer_set', 1], ...REPLY]);
    await subject.set({ wasm_memory_limit: HEAP_PAGES * PAGE, wasm_memory_threshold: PAGE });
    await lab.host.until(async () => assert.deepEqual([await sizeAt(4), await sizeAt(5)], [0n, 0n], 'hooks'));
  });

  test('canister_version: one more for each update, callback and change, none for queries and traps', async () => {
    const lab = await open();
    const subject = await lab.subject(script([['canister_version']]));
    const version = (): Promise<bigint> => subject.ask(['canister_version']);
    let last = await version();
    const steps = async (expected: bigint, what: string, work: () => Promise<unknown>): Promise<void> => {
      await work();
      const now = await version();
      assert.equal(now - last, expected, what);
      last = now;
    };
    await steps(0n, 'a query', () => subject.run(REPLY, { isQuery: true }));
    await steps(1n, 'an update', () => subject.run(REPLY));
    await steps(0n, 'a trap', () => subject.fails([['unreachable']]));
    const call = outgoing(lab.proxy.id, 'absent', { scripts: { 1: REPLY } });
    await steps(2n, 'an update and its callback', () => subject.run(call.calls, call));
    await steps(1n, 'settings', () => subject.set({ wasm_memory_threshold: 1 }));
    await steps(1n, 'an upgrade', () => subject.change('upgrade'));
    await steps(1n, 'a reinstallation', () => subject.change('reinstall'));
    await steps(0n, 'an upgrade that traps', async () => {
      assert.equal((await subject.tryChange('upgrade', script([['unreachable']]))).code, 5);
    });
    await subject.manage('stop_canister');
    await subject.manage('start_canister');
    assert.ok((await version()) >= last + 2n, 'stopping and starting');
    const { version: told } = (await subject.manage('canister_status')) as { version: bigint };
    assert.equal(told, await version());
  });

  test('canister_version never goes back, whatever the settings do while messages run', async () => {
    const lab = await open();
    const subject = await lab.subject();
    const seen: bigint[] = [];
    const updates = (async () => {
      for (let round = 0; round < 100; round++) seen.push(await subject.result(['canister_version']));
    })();
    for (let round = 0; round < 20; round++) await subject.set({ wasm_memory_threshold: round });
    await updates;
    assert.ok(
      seen.every((version, index) => index === 0 || version > (seen[index - 1] ?? 0n)),
      seen.join(' '),
    );
  });
});

/** Makes an actor with a method that answers only when told to. */
async function holderOn(host: Host): Promise<{ readonly id: Uint8Array; release(): Promise<void> }> {
  const actor = await host.install('holder', await compileActor('Peer'));
  return {
    id: actor.id,
    release: async () => {
      assert.equal((await host.raw(actor, 'release', NOTHING)).status, 200);
    },
  };
}

suite('states', () => {
  test('a stopping canister refuses calls and queries, and its callbacks run and call on until nothing is open', async () => {
    const lab = await open();
    const holder = await holderOn(lab.host);
    const subject = await lab.subject();
    const first = outgoing(holder.id, 'hold');
    // The callback calls again, a missing method, with the parts that still lie in the heap.
    const again = outgoing(holder.id, 'hol', { reply: 2, reject: 2 });
    const told: readonly Call[] = [['canister_status'], ...replyWith(RESULTS_AT, 8)];
    const pending = subject.run(first.calls, {
      blob: first.blob,
      scripts: { 0: again.calls.filter(([name]) => name !== 'call_data_append'), 2: told },
    });
    await lab.host.until(async () => assert.equal(await subject.ask(['canister_version']), 2n));
    const stopping = subject.manage('stop_canister');
    await lab.host.until(async () => assert.equal(await lab.host.status(subject.actor), 'stopping'));
    assert.match((await subject.fails(REPLY)).message, /stopping/);
    assert.match((await subject.fails(REPLY, { isQuery: true })).message, /stopping/);
    const called = await lab.forward(subject.id, 'run', script(REPLY), 100n);
    assert.deepEqual([called.code, called.refunded], [5, 100n]);
    await holder.release();
    assert.equal((await pending).readBigUInt64LE(0), 2n, 'stopping');
    await stopping;
    assert.equal(await lab.host.status(subject.actor), 'stopped');
  });

  test('stopping what is stopped is no error; a deleted canister is no destination, and refunds', async () => {
    const lab = await open();
    const subject = await lab.subject();
    await subject.manage('stop_canister');
    await subject.manage('stop_canister');
    assert.equal(await lab.host.status(subject.actor), 'stopped');
    const held = await lab.tryManage('delete_canister', { canister_id: subject.principal });
    assert.equal(held.code, 0);
    const gone = await lab.forward(subject.id, 'run', script(REPLY), 5n);
    assert.deepEqual([gone.code, gone.refunded], [3, 5n]);
  });

  test('composite queries reach four methods of the management canister, and no other', async () => {
    const lab = await open();
    const subject = await lab.subject();
    const about = { canister_id: subject.principal };
    assert.equal((await lab.ask('canister_status', about)).code, 0);
    for (const method of ['start_canister', 'stored_chunks', 'uninstall_code']) {
      assert.notEqual((await lab.ask(method, about)).code, 0, method);
    }
    assert.equal((await lab.tryManage('fetch_canister_logs', about)).code !== 0, true, 'and logs only as a query');
    assert.equal(await lab.host.status(subject.actor), 'running');
  });
});
