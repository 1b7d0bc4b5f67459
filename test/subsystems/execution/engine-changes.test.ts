/** Installation, upgrades, removal and restored state: each happens wholly or not at all. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CodeChange } from '../../../subsystems/execution/index.ts';
import { chargeOf } from '../../../subsystems/metering/index.ts';
import { CALL_BLOB, perform } from './call-scripts.ts';
import {
  ANONYMOUS,
  assemble,
  faultOf,
  load,
  newEngine,
  POLICY,
  replyOf,
  TestCanister,
  type Width,
  WIDTHS,
} from './engine-fixture.ts';
import { BLOB_AT, type Call, encodeScript, HOOK_SLOTS, RESULTS_AT, ScriptCanister } from './script-canister.ts';

const PRE = HOOK_SLOTS.canister_pre_upgrade;
const utf8 = new TextEncoder();

/**
 * Makes one of two generations of a module with data at 0, a global, a start function that marks byte 8 and a hook that
 * marks byte 9.
 */
function generation(width: Width, data: string, global: number, limits = '1'): string {
  return `(module
    (import "ic0" "msg_reply" (func $reply))
    (import "ic0" "msg_reply_data_append" (func $append (param PTR PTR)))
    (memory %index ${limits})
    (global $g (mut i64) (i64.const ${global}))
    (data (PTR.const 0) "${data}")
    (func $start (i32.store8 (PTR.const 8) (i32.add (i32.load8_u (PTR.const 8)) (i32.const 1))))
    (start $start)
    (func (export "canister_init") (i32.store8 (PTR.const 9) (i32.const 1)))
    (func (export "canister_post_upgrade") (i32.store8 (PTR.const 9) (i32.const 2)))
    (func (export "canister_update touch")
      (i32.store8 (PTR.const 10) (i32.const 77)) (global.set $g (i64.const 99)) (call $reply))
    (func (export "canister_query state")
      (i64.store (PTR.const 16) (global.get $g))
      (call $append (PTR.const 0) (PTR.const 24)) (call $reply)))`;
}

function stateOf(c: TestCanister): { data: string; start: number; hook: number; kept: number; global: number } {
  const bytes = replyOf(c.query('state'));
  const data = Buffer.from(bytes.subarray(0, 3)).toString();
  return { data, start: bytes[8] ?? -1, hook: bytes[9] ?? -1, kept: bytes[10] ?? -1, global: bytes[16] ?? -1 };
}

for (const width of WIDTHS) {
  describe(`code changes, ${width}-bit`, () => {
    test('keep: the heap stays as it is, data segments are not applied, start runs on it, globals are new', () => {
      const c = new TestCanister({ bytes: assemble(width, generation(width, 'old', 1)) });
      assert.deepEqual(stateOf(c), { data: 'old', start: 1, hook: 1, kept: 0, global: 1 });
      replyOf(c.update('touch'));
      const memory = c.instance.heap().buffer;
      const kept = c.upgrade({ keepsHeap: true, module: load(assemble(width, generation(width, 'new', 2))) });
      assert.equal(kept.step.fault, undefined);
      assert.deepEqual(stateOf(c), { data: 'old', start: 2, hook: 2, kept: 77, global: 2 });
      assert.ok(c.instance.heap().buffer === memory, 'the very memory');
      replyOf(c.update('touch'));
      assert.deepEqual(stateOf(c), { data: 'old', start: 2, hook: 2, kept: 77, global: 99 });
    });

    test('replace and reinstall: everything in the heap is new', () => {
      const c = new TestCanister({ bytes: assemble(width, generation(width, 'old', 1)) });
      replyOf(c.update('touch'));
      const module = load(assemble(width, generation(width, 'new', 2)));
      assert.equal(c.upgrade({ module }).step.fault, undefined);
      assert.deepEqual(stateOf(c), { data: 'new', start: 1, hook: 2, kept: 0, global: 2 });
      assert.equal(c.install(undefined, module).step.fault, undefined);
      assert.deepEqual(stateOf(c), { data: 'new', start: 1, hook: 1, kept: 0, global: 2 });
    });

    test('keep with other limits: a larger minimum grows the heap, another maximum copies it, a smaller one is refused', () => {
      const create = (): TestCanister => {
        const c = new TestCanister({ bytes: assemble(width, generation(width, 'old', 1, '3')) });
        replyOf(c.update('touch'));
        return c;
      };
      for (const [limits, pages] of [
        ['5', 5],
        ['1', 3],
        ['1 9', 3],
        ['4 9', 4],
      ] as const) {
        const c = create();
        const module = load(assemble(width, generation(width, 'new', 2, limits)));
        assert.equal(c.upgrade({ keepsHeap: true, module }).step.fault, undefined, limits);
        assert.deepEqual(stateOf(c), { data: 'old', start: 2, hook: 2, kept: 77, global: 2 });
        assert.equal(c.instance.heapBytes, pages * 65_536);
      }
      const c = create();
      const before = c.fingerprint();
      const small = load(assemble(width, generation(width, 'new', 2, '1 2')));
      assert.match(
        faultOf(c.upgrade({ keepsHeap: true, module: small }), 'trap'),
        /3 pages cannot be kept.* at most 2/,
      );
      const otherWidth = width === 64 ? 32 : 64;
      const other = load(assemble(otherWidth, generation(otherWidth, 'new', 2)));
      assert.match(
        faultOf(c.upgrade({ keepsHeap: true, module: other }), 'trap'),
        new RegExp(`heap of a ${width}-bit module cannot be kept for a ${otherWidth}-bit one`),
      );
      assert.equal(c.fingerprint(), before);
      assert.equal(c.upgrade({ module: other }).step.fault, undefined, 'on a fresh heap it can');
      assert.deepEqual(stateOf(c), { data: 'new', start: 1, hook: 2, kept: 0, global: 2 });
    });

    const effects: readonly Call[] = [
      ['store8', 100, 1],
      ['store8', 3_900_000, 1],
      ['global_set', 66],
      ['stable64_grow', 3],
      ['stable64_write', 7, 0, 10_000],
      ['certified_data_set', 0, 5],
      ['global_timer_set', 4321],
      ['cycles_burn128', 0, 1000, 200],
      ['heap_grow', 2],
    ];
    /** Makes a canister with all kinds of state, and with the given pre_upgrade. */
    const prepared = (pre: readonly Call[]): ScriptCanister => {
      const c = new ScriptCanister(width, { policy: { instructionLimit: 10_000_000 }, stableBytesMax: 64 << 20 });
      replyOf(
        c.runKeeping(
          { [PRE]: pre },
          [
            ['stable64_grow', 1],
            ['stable64_write', 100, BLOB_AT, 4],
            ['certified_data_set', BLOB_AT, 4],
            ['global_set', 5],
            ['global_timer_set', 1234],
            ['msg_reply'],
          ],
          utf8.encode('data'),
        ),
      );
      return c;
    };

    for (const keepsHeap of [true, false]) {
      const how = keepsHeap ? 'keep' : 'replace';
      test(`${how}: a trap in either hook, or in growth, brings everything back to the byte`, () => {
        for (const [pre, post, skipsPreUpgrade] of [
          [[...effects, ['unreachable']], [], false],
          [effects, [...effects, ['unreachable']], false],
          [[], [...effects, ['trap', 0, 3]], true],
          [effects, [...effects, ['spin']], false],
        ] as readonly (readonly [readonly Call[], readonly Call[], boolean])[]) {
          const c = prepared(pre);
          const { state, engine } = c.canister;
          const before = c.canister.fingerprint();
          const { installed, timerNs } = state;
          const { balance } = state.account;
          const stored = engine.stableBytesStored;
          const argument = encodeScript(width, post);
          const result = c.canister.change({
            mode: 'upgrade',
            keepsHeap,
            skipsPreUpgrade,
            argument,
            caller: ANONYMOUS,
          });
          assert.ok(result.step.fault !== undefined);
          assert.equal(c.canister.fingerprint(), before);
          assert.equal(state.installed, installed);
          assert.equal(state.timerNs, timerNs);
          assert.equal(engine.stableBytesStored, stored);
          assert.equal(state.account.balance, balance - BigInt(result.step.charge), 'burned cycles are back');
          assert.equal(result.isBalanceMoved, false);
          assert.equal(result.step.timerNs, undefined);
          // The canister works: its changes are kept, and those of traps are not.
          assert.deepEqual(c.results([['global_get'], ['store8', 55, 5]])[0], 5n);
          const after = c.canister.fingerprint();
          c.trap([['store8', 55, 6], ['global_set', 6], ['unreachable']]);
          assert.equal(c.canister.fingerprint(), after);
        }
      });

      test(`${how}: what the hooks did counts, but for the timer of pre_upgrade`, () => {
        const c = prepared([
          ['stable64_write', 104, BLOB_AT, 4],
          ['certified_data_set', BLOB_AT, 3],
          ['global_timer_set', 4321],
          ['cycles_burn128', 0, 1000, 200],
          ['canister_version'],
        ]);
        const { state } = c.canister;
        const { version } = state;
        const { balance } = state.account;
        const argument = encodeScript(width, [
          ['stable64_read', 300, 100, 8],
          ['canister_version'],
          ['global_timer_set', 0],
        ]);
        const result = c.canister.upgrade({ keepsHeap, argument });
        assert.equal(result.step.fault, undefined);
        assert.deepEqual([result.step.timerNs, state.timerNs], [0n, 0n]);
        assert.equal(state.account.balance, balance - 1000n - BigInt(result.step.charge));
        assert.ok(result.isBalanceMoved);
        assert.ok(
          result.step.charge >= chargeOf(POLICY, result.step.instructions) + POLICY.cyclesPerMessage,
          'two messages',
        );
        assert.deepEqual(state.certifiedData, utf8.encode('dat'));
        assert.equal(state.version, version + 1);
        assert.deepEqual(c.heapAfter([], 300, 8), utf8.encode('datadata'));
        const timer = encodeScript(width, [['global_timer_set', 77]]);
        assert.equal(c.canister.upgrade({ keepsHeap, argument: timer, skipsPreUpgrade: true }).step.timerNs, 77n);
        assert.deepEqual(state.certifiedData, utf8.encode('dat'), 'kept where no hook sets it');
      });
    }

    test('hooks see the old version before and the new one after, and the status as configured', () => {
      const c = prepared([['canister_version'], ['canister_status']]);
      const { engine, state } = c.canister;
      engine.configure(state, {
        status: 'stopped',
        version: 40,
        controllers: [utf8.encode('me')],
        env: new Map([['k', 'v']]),
      });
      const argument = encodeScript(width, [
        ['canister_version'],
        ['canister_status'],
        ['heap_copy', 600, RESULTS_AT, 16],
      ]);
      const result = c.canister.change({
        mode: 'upgrade',
        keepsHeap: true,
        skipsPreUpgrade: true,
        argument,
        caller: ANONYMOUS,
      });
      assert.equal(result.step.fault, undefined);
      const seen = c.heapAfter([], 600, 16);
      assert.deepEqual([seen[0], seen[8]], [41, 3]);
      const old = prepared([['canister_version'], ['canister_status'], ['heap_copy', 600, RESULTS_AT, 16]]);
      engine.configure(old.canister.state, { version: 40 });
      assert.equal(old.canister.upgrade({ keepsHeap: true, argument: encodeScript(width, []) }).step.fault, undefined);
      assert.equal(old.heapAfter([], 600, 1)[0], 40);
      assert.deepEqual(c.results([['env_var_count'], ['canister_status']]), [1n, 3n]);
      assert.ok(state.isController(utf8.encode('me')));
      engine.configure(state, { status: 'running' });
      assert.deepEqual(c.results([['env_var_count'], ['canister_status']]), [1n, 1n], 'what is left out stays');
    });

    test('pre_upgrade has its own context, and can be skipped', () => {
      const c = prepared([['accept_message']]);
      assert.match(
        faultOf(c.canister.upgrade(), 'trap'),
        /"ic0_accept_message" cannot be executed in pre upgrade mode/,
      );
      const argument = encodeScript(width, [['accept_message']]);
      assert.match(
        faultOf(c.canister.upgrade({ skipsPreUpgrade: true, argument }), 'trap'),
        /cannot be executed in init mode/,
      );
      assert.equal(
        c.canister.upgrade({ skipsPreUpgrade: true, argument: encodeScript(width, []) }).step.fault,
        undefined,
      );
    });

    test('each part of an upgrade has the whole limit and a price', () => {
      const spin = (n: number): readonly Call[] => Array.from({ length: n }, () => ['stable64_grow', 0] as const);
      const c = prepared(spin(60));
      const argument = encodeScript(width, spin(60));
      const free = c.canister.upgrade({ argument }).step;
      assert.equal(free.fault, undefined);
      const { instructions } = free;
      const tight = new ScriptCanister(width, { policy: { instructionLimit: Math.ceil(instructions * 0.75) } });
      replyOf(tight.runKeeping({ [PRE]: spin(60) }, [['msg_reply']]));
      assert.equal(
        tight.canister.upgrade({ argument }).step.fault,
        undefined,
        'neither needs more than three quarters',
      );
      const tighter = new ScriptCanister(width, { policy: { instructionLimit: Math.ceil(instructions * 0.3) } });
      tighter.canister.upgrade();
      assert.equal(faultOf(tighter.canister.upgrade({ argument }), 'limit').includes('exceeded the limit'), true);
    });

    test('an upgrade of nothing, and of a dry canister, changes nothing', () => {
      const c = new ScriptCanister(width);
      const { engine, state, module } = c.canister;
      const { account } = state;
      account.add(-account.balance);
      assert.equal(c.canister.upgrade().outcome.kind, 'outOfCycles');
      account.add(10n ** 14n);
      engine.uninstall(state);
      const change: CodeChange = {
        mode: 'upgrade',
        keepsHeap: false,
        skipsPreUpgrade: false,
        argument: new Uint8Array(0),
        caller: ANONYMOUS,
      };
      const { step } = engine.change(state, module.code, change, 0);
      assert.deepEqual([step.fault?.kind, step.fault?.code], ['unavailable', 5]);
    });

    test('open calls survive a change of code: their callbacks run on the new table', () => {
      const c = new ScriptCanister(width);
      const script: readonly Call[] = [['msg_arg_data_size'], ['msg_reply_data_append', RESULTS_AT, 8], ['msg_reply']];
      const [call] = c.runKeeping({ 0: script }, perform(width), CALL_BLOB).step.calls;
      assert.ok(call !== undefined);
      assert.equal(c.canister.upgrade({ keepsHeap: true, argument: encodeScript(width, []) }).step.fault, undefined);
      assert.equal(c.canister.state.openCalls.total, 1);
      const answered = c.canister.respond(call, { kind: 'reply', data: new Uint8Array(6) });
      assert.equal(replyOf(answered)[0], 6);
      assert.equal(c.canister.state.openCalls.total, 0);
    });

    test('a reinstallation may end open calls: none counts any more, and one that fails ends none', () => {
      const c = new ScriptCanister(width);
      c.runKeeping({}, perform(width), CALL_BLOB);
      const reinstall = (script: readonly Call[]): CodeChange => {
        const argument = encodeScript(width, script);
        return { mode: 'reinstall', endsCalls: true, argument, caller: ANONYMOUS };
      };
      const { openCalls } = c.canister.state;
      assert.equal(c.canister.change(reinstall([['unreachable']])).step.fault?.kind, 'trap');
      assert.equal(openCalls.total, 1);
      assert.equal(c.canister.change(reinstall([])).step.fault, undefined);
      assert.deepEqual([openCalls.total, openCalls.entries()], [0, []]);
    });

    test('uninstalling drops code, state, certified data and timer, and gives back what they held', () => {
      const c = prepared([]);
      const { engine, state } = c.canister;
      const { version } = state;
      engine.uninstall(state);
      assert.deepEqual(
        [
          state.installed,
          state.stable.pages,
          state.certifiedData.length,
          state.timerNs,
          state.version,
          engine.stableBytesStored,
        ],
        [undefined, 0, 0, 0n, version + 1, 0],
      );
      assert.equal(c.canister.install(encodeScript(width, [])).step.fault, undefined);
      assert.deepEqual(c.results([['stable64_size'], ['global_get']]), [0n, 7n]);
    });

    test('what was captured comes back byte for byte, here and in another engine, and nothing runs', () => {
      const c = prepared([]);
      c.results([
        ['heap_grow', 1],
        ['stable64_grow', 40],
        ['stable64_write', 2_000_000, BLOB_AT, 5000],
        ['global_set', 123_456_789_012n],
      ]);
      const { engine, state, module } = c.canister;
      const print = c.canister.fingerprint();
      const image = engine.capture(state);
      assert.equal(image.stablePages, 41);
      assert.ok(image.stable.every(({ bytes }) => bytes.length <= 1 << 20));
      c.results([
        ['store8', 1, 1],
        ['stable64_write', 0, 0, 70_000],
        ['global_set', 1],
        ['heap_grow', 5],
        ['certified_data_set', 0, 1],
      ]);
      const { version, timerNs } = state;
      assert.equal(engine.restore(state, module.code, image), undefined);
      assert.deepEqual([state.version, state.timerNs], [version, timerNs], 'the caller decides about these');
      engine.configure(state, { version: version - 1 });
      assert.equal(state.version, version, 'it never goes back');
      state.version = version - 1;
      assert.equal(c.canister.fingerprint(), print);
      assert.deepEqual(engine.capture(state), image);

      const other = newEngine();
      const moved = other.createCanister({ id: state.id, balance: 10n ** 14n, controllers: [], env: new Map() });
      assert.equal(other.restore(moved, module.code, image), undefined);
      assert.deepEqual(other.capture(moved), image);
      // The canister goes on, and a trap is undone as usual.
      assert.deepEqual(c.results([['global_get'], ['load8', BLOB_AT]])[0], 123_456_789_012n);
      const after = c.canister.fingerprint();
      c.trap([['store8', 3_000_000, 1], ['heap_grow', 1], ['global_set', 2], ['unreachable']]);
      assert.equal(c.canister.fingerprint(), after);
      assert.equal(
        other.restore(moved, undefined, { ...image, heap: new Uint8Array(0), globals: new Uint8Array(0) }),
        undefined,
      );
      assert.equal(moved.installed, undefined);
    });

    test('state that does not fit the module is refused with the reason, and nothing changes', () => {
      const c = prepared([]);
      const { engine, state, module } = c.canister;
      const image = engine.capture(state);
      const before = c.canister.fingerprint();
      const { code } = module;
      const refused = [
        engine.restore(state, code, { ...image, heap: new Uint8Array(100) }),
        engine.restore(state, code, { ...image, heap: new Uint8Array(65_536) }),
        engine.restore(state, code, { ...image, globals: new Uint8Array(3) }),
        engine.restore(state, code, { ...image, stablePages: 2 ** 40 }),
        engine.restore(state, code, { ...image, stablePages: 0 }),
        engine.restore(state, undefined, image),
      ];
      const large = { ...image, stablePages: 8000, stable: [{ offset: 0, bytes: new Uint8Array(80 << 20) }] };
      assert.throws(() => engine.restore(state, code, large), /one executor thread holds at most 64 MiB/);
      const reasons = [
        /100 bytes is not a whole number of pages/,
        /the heap has 1 pages, the module takes 64 to/,
        /3 bytes of globals/,
        /more than 8192000/,
        /lie beyond a stable memory of 0 pages/,
        /no module that they belong to/,
      ];
      assert.deepEqual(
        refused.map((reason, k) => reasons[k]?.test(reason ?? '')),
        reasons.map(() => true),
        refused.join('\n'),
      );
      assert.equal(c.canister.fingerprint(), before);
    });
  });
}
