/** Calls to other canisters, their callbacks, system tasks and inspection, as the engine sees them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect as show } from 'node:util';
import { chargeOf } from '../../../subsystems/metering/index.ts';
import { CALL_BYTES_MAX } from '../../../subsystems/execution/engine/system-api/outgoing-draft.ts';
import { OPEN_CALLS_PER_CALLEE_MAX } from '../../../subsystems/execution/engine/open-calls.ts';
import { CALLBACK_BYTES, type OutgoingCall, type Response } from '../../../subsystems/ic/index.ts';
import { blobWith, CALL_BLOB, CALLEE, construct, METHOD, PAYLOAD, perform, TEXT_AT } from './call-scripts.ts';
import { faultOf, littleEndian, POLICY, replyOf, type TestResult, WIDTHS } from './engine-fixture.ts';
import { BLOB_AT, type Call, encodeScript, HOOK_SLOTS, RESULTS_AT, ScriptCanister } from './script-canister.ts';

const utf8 = new TextEncoder();
const REPLY: Response = { kind: 'reply', data: utf8.encode('an answer') };
const REJECT: Response = { kind: 'reject', code: 5, message: 'nö' };

function onlyCall(result: Pick<TestResult, 'step'>): OutgoingCall {
  const [call, ...others] = result.step.calls;
  assert.ok(call !== undefined && others.length === 0, show(result.step));
  return call;
}

/** Returns the unsigned numbers of 8 bytes in a reply. */
function numbers(result: TestResult): readonly bigint[] {
  const data = replyOf(result);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  return Array.from({ length: data.length / 8 }, (_, k) => view.getBigUint64(8 * k, true));
}

/** Returns the calls with a reply of their results. */
function answering(calls: readonly Call[]): readonly Call[] {
  return [...calls, ['msg_reply_data_append', RESULTS_AT, 8 * calls.length], ['msg_reply']];
}

for (const width of WIDTHS) {
  describe(`calls, ${width}-bit`, () => {
    test('a performed call leaves with the step, whole and in order; nothing is answered yet', () => {
      const c = new ScriptCanister(width);
      const { step } = c.run(
        [...perform(width), ...perform(width, { timeoutSeconds: 7, calleeBytes: 0 }), ['store8', 9, 9]],
        CALL_BLOB,
      );
      assert.deepEqual([step.fault, step.answer, step.calls.length], [undefined, undefined, 2]);
      const [first, second] = step.calls;
      assert.ok(first !== undefined && second !== undefined);
      assert.deepEqual(first.callee, CALLEE);
      assert.deepEqual([first.method, Buffer.from(first.payload).toString()], [METHOD, PAYLOAD]);
      assert.deepEqual([first.cycles, first.timeoutSeconds, first.callbacks.length], [0n, undefined, CALLBACK_BYTES]);
      assert.deepEqual([second.callee.length, second.timeoutSeconds], [0, 7]);
      assert.deepEqual(c.results([['load8', 9]]), [9n], 'what the execution wrote is kept');
    });

    test('a call that was not performed, or performed before a trap, was never made', () => {
      const c = new ScriptCanister(width);
      const before = c.canister.state.account.balance;
      const cycles = 1_000_000;
      const constructed = c.run(construct(width, { cycles }), CALL_BLOB);
      assert.equal(constructed.step.calls.length, 0);
      const trapped = c.run([...perform(width, { cycles }), ['unreachable']], CALL_BLOB);
      assert.deepEqual([trapped.outcome.kind, trapped.step.calls.length], ['trap', 0]);
      const replaced = c.run([...construct(width, { cycles }), ...perform(width)], CALL_BLOB);
      assert.equal(onlyCall(replaced).cycles, 0n, 'a new call_new discards the call under construction');
      const paid = before - c.canister.state.account.balance;
      const charges = [constructed, trapped, replaced].reduce((sum, { step }) => sum + step.charge, 0);
      assert.equal(paid, BigInt(charges), 'all cycles are back');
      assert.equal(c.canister.state.openCalls.total, 1);
    });

    test('the rules of construction trap: each call once, none without a call, not after call_perform', () => {
      const c = new ScriptCanister(width);
      const none = 'no call is under construction';
      for (const call of [
        ['call_on_cleanup', 0, 0],
        ['call_data_append', 0, 0],
        ['call_with_best_effort_response', 1],
        ['call_perform'],
        ['call_cycles_add128', 0, 1],
        ...(width === 32 ? ([['call_cycles_add', 1]] as const) : []),
      ] satisfies Call[]) {
        const text = `Canister violated contract: ic0.${call[0]}: ${none}`;
        assert.equal(c.trap([call]), text);
        assert.equal(c.trap([...perform(width), call], CALL_BLOB), text);
      }
      assert.match(
        c.trap([...construct(width, { cleanup: 1 }), ['call_on_cleanup', 0, 0]], CALL_BLOB),
        /has a cleanup already/,
      );
      const timed = construct(width, { timeoutSeconds: 1 });
      assert.match(c.trap([...timed, ['call_with_best_effort_response', 1]], CALL_BLOB), /has a timeout already/);
      assert.match(c.trap([['call_new', 0, 30, 0, 0, 0, 0, 0, 0]]), /30 bytes are more than the 29 allowed/);
      assert.match(
        c.trap([['call_new', 0, 1, 0, 20_001, 0, 0, 0, 0]]),
        /Size of method_name 20001 exceeds the allowed limit of 20000\./,
      );
      assert.match(c.trap([['call_new', 2 ** 31, 10, 0, 0, 0, 0, 0, 0]]), /lie beyond the heap/);
    });

    test('name and payload together have at most 10 MiB', () => {
      const c = new ScriptCanister(width);
      const rest = CALL_BYTES_MAX - METHOD.length;
      const half = rest / 2;
      const fill: readonly Call[] = [
        ['heap_grow', 100],
        ['call_new', BLOB_AT, 1, BLOB_AT + 10, METHOD.length, 0, 0, 0, 0],
        ['call_data_append', 0, half],
        ['call_data_append', 0, half],
      ];
      const full = c.run([...fill, ['call_perform']], CALL_BLOB);
      assert.equal(onlyCall(full).payload.length, rest);
      assert.match(
        c.trap([...fill, ['call_data_append', 0, 1]], CALL_BLOB),
        /10485761 bytes of method name and payload are more than the 10485760 allowed/,
      );
    });

    test('one execution sends at most 256 MiB: call_perform answers 2 for what would be more', () => {
      const c = new ScriptCanister(width);
      const large: readonly Call[] = [
        ['call_new', BLOB_AT, 1, BLOB_AT + 10, METHOD.length, 0, 0, 0, 0],
        ['call_data_append', 0, CALL_BYTES_MAX - METHOD.length],
        ['call_perform'],
      ];
      const calls = [['heap_grow', 100] as const, ...Array.from({ length: 26 }, () => large).flat()];
      const sent = c.run(answering([...calls, ...perform(width)]), CALL_BLOB);
      const answers = numbers(sent);
      assert.deepEqual([answers[75], answers[78], answers.at(-1)], [0n, 2n, 0n]);
      assert.equal(sent.step.calls.length, 26, '25 large ones and the small one');
    });

    test('bounded waits are cut to 300 s, names are decoded lossily', () => {
      const c = new ScriptCanister(width);
      assert.equal(onlyCall(c.run(perform(width, { timeoutSeconds: 301 }), CALL_BLOB)).timeoutSeconds, 300);
      assert.equal(onlyCall(c.run(perform(width, { timeoutSeconds: -1 }), CALL_BLOB)).timeoutSeconds, 300);
      assert.equal(onlyCall(c.run(perform(width, { timeoutSeconds: 0 }), CALL_BLOB)).timeoutSeconds, 0);
      const blob = CALL_BLOB.slice();
      blob[CALLEE.length] = 0xff;
      assert.equal(onlyCall(c.run(perform(width), blob)).method, '\ufffdethod');
    });

    test('the reply callback gets the reply, the caller of its context, and answers it', () => {
      const c = new ScriptCanister(width);
      const caller = utf8.encode('whoever');
      const callback = answering([
        ['msg_arg_data_size'],
        ['msg_arg_data_copy', 100, 0, 9],
        ['msg_caller_size'],
        ['msg_reject_code'],
        ['msg_deadline'],
        ['in_replicated_execution'],
      ]);
      const call = onlyCall(c.runKeeping({ 0: callback }, perform(width), CALL_BLOB));
      const context = { caller, deadlineNs: 77n };
      const answered = c.canister.respond(call, REPLY, { context });
      assert.deepEqual(numbers(answered), [9n, 0n, 7n, 0n, 77n, 1n]);
      assert.deepEqual(c.heapAfter([], 100, 9), utf8.encode('an answer'));
      assert.equal(answered.step.charge, chargeOf(POLICY, answered.step.instructions));
    });

    test('the reject callback gets code and text, and no argument', () => {
      const c = new ScriptCanister(width);
      const callback = answering([['msg_reject_code'], ['msg_reject_msg_size'], ['msg_reject_msg_copy', 100, 0, 3]]);
      const scripts = { 0: [['unreachable'] as const], 1: callback, 2: [['msg_arg_data_size'] as const] };
      const { step } = c.runKeeping(
        scripts,
        [...perform(width, { reject: 1 }), ...perform(width, { reject: 2 })],
        CALL_BLOB,
      );
      const [first, second] = step.calls;
      assert.ok(first !== undefined && second !== undefined);
      assert.deepEqual(numbers(c.canister.respond(first, REJECT)), [5n, 3n, 0n]);
      assert.deepEqual(c.heapAfter([], 100, 3), utf8.encode('nö'));
      assert.match(
        faultOf(c.canister.respond(second, REJECT), 'trap'),
        /"ic0_msg_arg_data_size" cannot be executed in reject/,
      );
    });

    test('the text of a reject is copied whole if it has more than a piece', () => {
      const c = new ScriptCanister(width);
      const message = 'x'.repeat(1.5 * 2 ** 20);
      const callback = answering([['msg_reject_msg_copy', 0x10_0000, 0, message.length]]);
      const { step } = c.runKeeping({ 1: callback }, perform(width, { reject: 1 }), CALL_BLOB);
      replyOf(c.canister.respond(onlyCall({ step }), { ...REJECT, message }));
      assert.ok(Buffer.from(message).equals(c.heapAfter([], 0x10_0000, message.length)));
    });

    test('equal calls leave equal callbacks, whatever was called before', () => {
      const c = new ScriptCanister(width);
      const first = onlyCall(c.run(perform(width), CALL_BLOB)).callbacks;
      c.runKeeping({ 1: [] }, perform(width, { cleanup: 1 }), CALL_BLOB);
      assert.deepEqual(onlyCall(c.run(perform(width), CALL_BLOB)).callbacks, first);
    });

    test('environments come back bit for bit', () => {
      const c = new ScriptCanister(width);
      const env = width === 64 ? 2n ** 64n - 3n : 2n ** 32n - 3n;
      // The callback function reads the script at its environment: one out of bounds shows the value that arrived.
      const fun = ['call_new', BLOB_AT, 1, BLOB_AT, 0] as const;
      const { step } = c.run([[...fun, 1, env, 1, env], ['call_perform']], CALL_BLOB);
      const [call] = step.calls;
      assert.ok(call !== undefined);
      const view = new DataView(call.callbacks.buffer, call.callbacks.byteOffset);
      assert.equal(view.getBigUint64(8, true), env);
      assert.equal(view.getBigUint64(24, true), env);
    });

    test('a bad function type is a trap when the response comes, a bad index is none and leaves no word, and neither is looked at before', () => {
      const c = new ScriptCanister(width);
      const pointerMax = width === 64 ? 2n ** 64n - 1n : 2n ** 32n - 1n;
      const cases = [
        [pointerMax, 'noCallback', /non-existent Wasm function \d+ from table 0/],
        [100_000n, 'noCallback', /non-existent Wasm function 100000 from table 0/],
        [0n, 'trap', /function signature mismatch/],
      ] as const;
      for (const [fun, kind, text] of cases) {
        const result = c.run(
          [['call_new', BLOB_AT, 1, BLOB_AT, 1, fun, 0, fun, 0], ['call_perform'], ['msg_reply']],
          CALL_BLOB,
        );
        replyOf(result);
        const before = c.canister.fingerprint();
        const ended = c.canister.respond(onlyCall(result), REPLY);
        assert.match(faultOf(ended, 'trap'), text);
        assert.equal(ended.step.fault?.kind, kind);
        const lines = kind === 'trap' ? 1 : 0;
        assert.deepEqual([ended.debug.length, ended.records.length], [lines, lines]);
        assert.equal(c.canister.fingerprint(), before);
      }
    });

    test('a callback that traps is undone, its cleanup is kept, and the step has the callback’s fault', () => {
      const c = new ScriptCanister(width);
      const scripts: Record<number, readonly Call[]> = {
        0: [['store8', 5, 1], ['debug_print', TEXT_AT, 1], ...perform(width), ['msg_reply'], ['unreachable']],
        1: [
          ['store8', 6, 2],
          ['msg_reject_code'],
          ['global_timer_set', 123],
          ['debug_print', TEXT_AT + 1, 1],
          ['in_replicated_execution'],
        ],
      };
      const call = onlyCall(c.runKeeping(scripts, perform(width, { cleanup: 1 }), blobWith('ab')));
      const version = c.canister.state.version;
      const { step, debug } = c.canister.respond(call, REPLY);
      assert.deepEqual([step.fault?.kind, step.fault?.code], ['trap', 5]);
      assert.match(step.fault?.message ?? '', /unreachable/);
      assert.deepEqual([step.answer, step.calls.length, step.timerNs], [undefined, 0, 123n]);
      assert.deepEqual([debug[0], debug[2]], ['a', 'b']);
      assert.equal(c.canister.state.version, version + 1);
      assert.equal(c.canister.state.openCalls.total, 0, 'the call made in vain is not open');
      assert.deepEqual(
        c.results([
          ['load8', 5],
          ['load8', 6],
          ['global_timer_set', 0],
        ]),
        [0n, 2n, 123n],
      );
      assert.equal(step.charge, chargeOf(POLICY, step.instructions), 'both are paid for as one message');
    });

    test('a cleanup that traps is undone, too, and nothing else happens', () => {
      const c = new ScriptCanister(width);
      const scripts: Record<number, readonly Call[]> = {
        0: [
          ['store8', 5, 1],
          ['trap', TEXT_AT, 5],
        ],
        1: [
          ['store8', 6, 2],
          ['trap', TEXT_AT + 5, 6],
        ],
      };
      const call = onlyCall(c.runKeeping(scripts, perform(width, { cleanup: 1 }), blobWith('firstsecond')));
      const before = c.canister.fingerprint();
      const { step, debug, records } = c.canister.respond(call, REPLY);
      const [first, second] = ['first', 'second'].map((text) => `Canister called \`ic0.trap\` with message: '${text}'`);
      assert.deepEqual([step.fault?.kind, step.fault?.code], ['calledTrap', 5]);
      assert.equal(step.fault?.message, `${first}\n\ncall_on_cleanup also failed:\n\n${second}`);
      assert.deepEqual(debug, [first, second]);
      assert.deepEqual(records, ['[TRAP]: first', '[TRAP]: second']);
      assert.equal(c.canister.fingerprint(), before);
    });

    test('no cleanup runs where none is registered, or where the callback returns', () => {
      const c = new ScriptCanister(width);
      const scripts: Record<number, readonly Call[]> = {
        0: [['unreachable']],
        1: [['store8', 6, 2]],
        2: [['msg_reply']],
      };
      const { step } = c.runKeeping(
        scripts,
        [...perform(width), ...perform(width, { reply: 2, cleanup: 1 })],
        CALL_BLOB,
      );
      for (const call of step.calls) c.canister.respond(call, REPLY);
      assert.deepEqual(c.results([['load8', 6]]), [0n]);
    });

    test('a callback that runs into the limit leaves 5 % of it for the cleanup', () => {
      const c = new ScriptCanister(width, { policy: { instructionLimit: 2_000_000 } });
      const scripts: Record<number, readonly Call[]> = {
        0: [['spin']],
        1: [
          ['store8', 6, 2],
          ['performance_counter', 1],
        ],
        2: [['spin']],
      };
      const calls = [...perform(width, { cleanup: 1 }), ...perform(width, { cleanup: 2 })];
      const [first, second] = c.runKeeping(scripts, calls, CALL_BLOB).step.calls;
      assert.ok(first !== undefined && second !== undefined);
      const text = 'Canister exceeded the limit of 1900000 instructions for single message execution.';
      const cleaned = c.canister.respond(first, REPLY, { context: { instructions: 5_000_000 } });
      assert.equal(faultOf(cleaned, 'limit'), text);
      const [, , counted] = c.results([
        ['load8', 6],
        ['store8', 0, 0],
        ['load8', RESULTS_AT],
      ]);
      assert.ok(counted !== undefined);
      assert.ok(cleaned.step.instructions > 1_900_000 && cleaned.step.instructions < 1_950_000);
      assert.equal(c.canister.respond(second, REPLY).step.instructions, 2_000_000, 'and no more than the limit in all');
    });

    test('a call is answered once: not after an answer of the same context, and not where nobody asked', () => {
      const c = new ScriptCanister(width);
      const [a, b] = c.runKeeping({ 0: [['msg_reply']] }, [...perform(width), ...perform(width)], CALL_BLOB).step.calls;
      assert.ok(a !== undefined && b !== undefined);
      assert.equal(c.canister.respond(a, REPLY).outcome.kind, 'reply');
      assert.match(
        faultOf(c.canister.respond(b, REPLY, { context: { canAnswer: false } }), 'trap'),
        /ic0\.msg_reply: the call is already answered, or was none that wants an answer/,
      );
    });

    test('no cycle is lost: attached, accepted, refunded', () => {
      const c = new ScriptCanister(width);
      const { account } = c.canister.state;
      const scripts: Record<number, readonly Call[]> = {
        0: [['msg_cycles_refunded128', 0], ['msg_reply_data_append', 0, 16], ['msg_reply']],
        1: [['msg_cycles_refunded128', 0], ['unreachable']],
      };
      const before = account.balance;
      const calls = [...perform(width, { cycles: 700 }), ...perform(width, { cycles: 300, reply: 1 })];
      const sent = c.runKeeping(scripts, calls, CALL_BLOB);
      assert.ok(sent.isBalanceMoved);
      assert.equal(account.balance, before - 1000n - BigInt(sent.step.charge));
      const [first, second] = sent.step.calls;
      assert.ok(first !== undefined && second !== undefined);
      assert.deepEqual([first.cycles, second.cycles], [700n, 300n]);
      // The callee, here the same canister, accepts a part.
      const between = account.balance;
      const accepted = c.run(
        [
          ['msg_cycles_accept128', 0, 500, 0],
          ['msg_cycles_available128', 16],
          ['msg_reply_data_append', 0, 32],
          ['msg_reply'],
        ],
        CALL_BLOB,
      );
      assert.equal(littleEndian(replyOf(accepted)), 0n, 'from outside nothing comes');
      const callee = c.canister.run(
        'update',
        'run',
        encodeScript(width, [
          ['msg_cycles_accept128', 0, 500, 0],
          ['msg_cycles_available128', 16],
          ['msg_reply_data_append', 0, 32],
          ['msg_reply'],
        ]),
        { cyclesAvailable: 700n },
      );
      assert.equal(littleEndian(replyOf(callee).subarray(0, 16)), 500n);
      assert.equal(littleEndian(replyOf(callee).subarray(16)), 200n);
      assert.equal(callee.step.cyclesAccepted, 500n);
      assert.equal(account.balance, between + 500n - BigInt(callee.step.charge) - BigInt(accepted.step.charge));
      const refunding = account.balance;
      const refunded = c.canister.respond(first, REPLY, { refunded: 200n });
      assert.ok(refunded.isBalanceMoved);
      assert.equal(littleEndian(replyOf(refunded)), 200n);
      assert.equal(account.balance, refunding + 200n - BigInt(refunded.step.charge));
      const trapping = account.balance;
      const trapped = c.canister.respond(second, REPLY, { refunded: 300n });
      assert.equal(trapped.outcome.kind, 'trap');
      assert.ok(trapped.isBalanceMoved);
      assert.equal(account.balance, trapping + 300n - BigInt(trapped.step.charge), 'also when the callback traps');
    });

    test('what was accepted before a trap is not accepted; what is accepted after the answer, in the same message, is', () => {
      const c = new ScriptCanister(width);
      const run = (calls: readonly Call[]): TestResult =>
        c.canister.run('update', 'run', encodeScript(width, calls), { cyclesAvailable: 9n });
      const { balance } = c.canister.state.account;
      const trapped = run([['msg_cycles_accept128', 0, 9, 0], ['unreachable']]);
      assert.deepEqual([trapped.step.cyclesAccepted, trapped.isBalanceMoved], [0n, false]);
      assert.equal(c.canister.state.account.balance, balance - BigInt(trapped.step.charge));
      for (const answer of ['msg_reply', 'msg_reject'] as const) {
        const before = c.canister.state.account.balance;
        const late = run([
          ['msg_cycles_accept128', 0, 2, 0],
          answer === 'msg_reply' ? [answer] : [answer, 0, 0],
          ['msg_cycles_available128', 16],
          ['heap_copy', 0x9000, 16, 16],
          ['msg_cycles_accept128', 0, 100, 0],
          ['msg_cycles_available128', 16],
          ['heap_copy', 0x9010, 16, 16],
        ]);
        assert.equal(late.step.cyclesAccepted, 9n, answer);
        assert.equal(c.canister.state.account.balance, before + 9n - BigInt(late.step.charge));
        const seen = replyOf(c.run([['msg_reply_data_append', 0x9000, 32], ['msg_reply']]));
        assert.deepEqual([littleEndian(seen.subarray(0, 16)), littleEndian(seen.subarray(16))], [7n, 0n], answer);
      }
    });

    test('more cycles than are liquid cannot be put on a call; what was put there is not in the balance', () => {
      const c = new ScriptCanister(width);
      const added: readonly Call[] = [
        ['canister_liquid_cycle_balance128', 0],
        ...construct(width, { cycles: 1_000_000_000 }),
        ['canister_liquid_cycle_balance128', 16],
      ];
      const seen = replyOf(c.run([...added, ['msg_reply_data_append', 0, 32], ['msg_reply']], CALL_BLOB));
      assert.equal(littleEndian(seen.subarray(0, 16)) - littleEndian(seen.subarray(16)), 1_000_000_000n);
      assert.match(
        c.trap([...construct(width), ['call_cycles_add128', 1, 0]], CALL_BLOB),
        /^ic0\.call_cycles_add128: 18446744073709551616 cycles are more than the \d+ that can be put on a call$/,
      );
    });

    test(`call_perform answers 2 once ${OPEN_CALLS_PER_CALLEE_MAX} calls to a callee are open, and its cycles come back`, () => {
      const c = new ScriptCanister(width);
      const open: OutgoingCall[] = [];
      for (let k = 0; k < OPEN_CALLS_PER_CALLEE_MAX; k += 25) {
        const { step } = c.run(Array.from({ length: 25 }, () => perform(width)).flat(), CALL_BLOB);
        open.push(...step.calls);
      }
      assert.equal(open.length, OPEN_CALLS_PER_CALLEE_MAX);
      const { balance } = c.canister.state.account;
      const construction = perform(width, { cycles: 5 });
      const full = c.run(answering(construction), CALL_BLOB);
      assert.equal(numbers(full).at(-1), 2n);
      assert.equal(full.step.calls.length, 0);
      assert.equal(c.canister.state.account.balance, balance - BigInt(full.step.charge));
      // Another callee has a queue of its own, and a trapped execution does not use any of it.
      assert.equal(numbers(c.run(answering(perform(width, { calleeBytes: 0 })), CALL_BLOB)).at(-1), 0n);
      const [first] = open;
      assert.ok(first !== undefined);
      c.canister.respond(first, REPLY);
      c.run([...perform(width), ['unreachable']], CALL_BLOB);
      assert.equal(numbers(c.run(answering(perform(width)), CALL_BLOB)).at(-1), 0n);
      assert.equal(numbers(c.run(answering(perform(width)), CALL_BLOB)).at(-1), 2n);
      c.canister.engine.uninstall(c.canister.state);
      assert.equal(c.canister.state.openCalls.total, 0);
    });

    test('a canister that could not pay for the response gets 2; one that is dry still gets its responses', () => {
      const c = new ScriptCanister(width);
      const { account } = c.canister.state;
      const callback = answering(perform(width));
      const call = onlyCall(c.runKeeping({ 0: callback }, perform(width), CALL_BLOB));
      account.add(1_000_000n - account.balance);
      assert.equal(numbers(c.run(answering(perform(width)), CALL_BLOB)).at(-1), 2n);
      account.add(10n - account.balance);
      assert.ok(account.isDry);
      const answered = c.canister.respond(call, REPLY);
      assert.equal(numbers(answered).at(-1), 2n);
      assert.equal(account.balance, 0n);
    });

    test('a response to a canister without code brings its refund and nothing else', () => {
      const c = new ScriptCanister(width);
      const call = onlyCall(c.run(perform(width, { cycles: 50 }), CALL_BLOB));
      c.canister.engine.uninstall(c.canister.state);
      const { balance } = c.canister.state.account;
      const result = c.canister.respond(call, REPLY, { refunded: 50n });
      assert.deepEqual([result.outcome.kind, result.isBalanceMoved], ['unavailable', true]);
      assert.equal(c.canister.state.account.balance, balance + 50n);
    });

    test('performance counter 1 goes on where the context’s earlier executions ended', () => {
      const c = new ScriptCanister(width);
      const counters = answering([
        ['performance_counter', 0],
        ['performance_counter', 1],
      ]);
      const call = onlyCall(c.runKeeping({ 0: counters }, perform(width), CALL_BLOB));
      const [own = 0n, whole = 0n] = numbers(c.canister.respond(call, REPLY, { context: { instructions: 1_000_000 } }));
      assert.ok(own < 100_000n && whole > 1_000_000n + own && whole < 1_000_000n + own + 2000n);
    });

    test('each kind of task runs in its own context', () => {
      const c = new ScriptCanister(width);
      const probe: readonly Call[] = [['accept_message']];
      const scripts = { 0: probe, 20: probe, 21: probe, 2: [['unreachable']] as const, 3: probe };
      const modeOf = (result: TestResult, line = 0): string =>
        /cannot be executed in (.*) mode/.exec(result.debug[line] ?? '')?.[1] ??
        `${result.outcome.kind}: ${result.debug.join()}`;
      const calls = [...perform(width), ...perform(width), ...perform(width, { reply: 2, cleanup: 3 })];
      const [a, b, d] = c.runKeeping(scripts, calls, CALL_BLOB).step.calls;
      assert.ok(a !== undefined && b !== undefined && d !== undefined);
      const composite = (): { call: OutgoingCall; frame: number } => {
        const started = c.run(perform(width, { cleanup: 3 }), CALL_BLOB, 'query', 'compose');
        return { call: onlyCall(started), frame: started.step.frame };
      };
      const respond = (response: Response): TestResult => {
        const { call, frame } = composite();
        return c.canister.respond(call, response, { frame });
      };
      assert.deepEqual(
        [
          modeOf(c.run(probe)),
          modeOf(c.run(probe, undefined, 'update', 'look')),
          modeOf(c.run(probe, undefined, 'query', 'look')),
          modeOf(c.run(probe, undefined, 'query', 'compose')),
          modeOf(c.canister.respond(a, REPLY)),
          modeOf(c.canister.respond(b, REJECT)),
          modeOf(c.canister.respond(d, REPLY), 1),
          modeOf(respond(REPLY)),
          modeOf(respond(REJECT)),
          modeOf(respond(REJECT), 1),
          modeOf(c.canister.system('canister_heartbeat')),
          modeOf(c.canister.system('canister_global_timer')),
          modeOf(c.canister.install(encodeScript(width, probe))),
          modeOf(inspect(c, [['msg_reply']])),
        ],
        [
          'update',
          'replicated query',
          'non replicated query',
          'composite query',
          'reply callback',
          'reject callback',
          'cleanup',
          'composite reply callback',
          'composite reject callback',
          'composite cleanup',
          'system task',
          'system task',
          'init',
          'inspect message',
        ],
      );
    });

    test('system tasks call, keep what they write, are paid for, and have the management canister as caller', () => {
      const c = new ScriptCanister(width);
      const slot = HOOK_SLOTS.canister_heartbeat;
      const script: readonly Call[] = [['store8', 7, 7], ['msg_caller_size'], ...perform(width)];
      replyOf(c.runKeeping({ [slot]: script }, [['msg_reply']], CALL_BLOB));
      // The blob to which the script's call refers is the argument of the message before.
      const { balance } = c.canister.state.account;
      const beat = c.canister.system('canister_heartbeat');
      assert.deepEqual([beat.step.fault, beat.step.calls.length, beat.step.answer], [undefined, 1, undefined]);
      assert.equal(c.canister.state.account.balance, balance - BigInt(beat.step.charge));
      assert.ok(beat.step.charge > 590_000);
      assert.deepEqual(
        c.results([
          ['load8', 7],
          ['load8', RESULTS_AT + 8],
        ])[0],
        7n,
      );
      c.canister.state.account.add(-c.canister.state.account.balance);
      assert.equal(c.canister.system('canister_heartbeat').outcome.kind, 'outOfCycles');
    });

    test('the timer is set, read back, undone by a trap, and off before its hook runs', () => {
      const c = new ScriptCanister(width);
      const deadline = 2n ** 64n - 5n;
      const set = c.run(
        answering([
          ['global_timer_set', deadline],
          ['global_timer_set', 50],
          ['global_timer_set', deadline],
        ]),
      );
      assert.deepEqual(numbers(set), [0n, deadline, 50n]);
      assert.equal(set.step.timerNs, deadline);
      const trapped = c.run([['global_timer_set', 9], ['unreachable']]);
      assert.equal(trapped.step.timerNs, undefined);
      assert.equal(c.canister.state.timerNs, deadline);
      const rearm: readonly Call[] = [
        ['global_timer_set', 99],
        ['store8', 3, 1],
      ];
      replyOf(c.runKeeping({ [HOOK_SLOTS.canister_global_timer]: rearm }, [['msg_reply']]));
      const fired = c.canister.system('canister_global_timer');
      assert.equal(fired.step.timerNs, 99n);
      assert.deepEqual(c.heapAfter([], RESULTS_AT + 0, 0), new Uint8Array(0));
      replyOf(
        c.runKeeping({ [HOOK_SLOTS.canister_global_timer]: [['global_timer_set', 5], ['unreachable']] }, [
          ['msg_reply'],
        ]),
      );
      assert.equal(c.canister.system('canister_global_timer').outcome.kind, 'trap');
      assert.deepEqual(c.results([['global_timer_set', 0]]), [0n], 'a trap does not bring it back');
    });

    test('a deadline is seen by updates that have one, not by query methods', () => {
      const c = new ScriptCanister(width);
      const ask = (kind: 'update' | 'query', method: string): bigint | undefined =>
        numbers(
          c.canister.run(kind, method, encodeScript(width, answering([['msg_deadline']])), { deadlineNs: 88n }),
        )[0];
      assert.deepEqual(
        [ask('update', 'run'), ask('update', 'look'), ask('query', 'look'), ask('query', 'compose')],
        [88n, 0n, 0n, 0n],
      );
    });

    test('inspection accepts or does not, is undone and free, and knows the method', () => {
      const c = new ScriptCanister(width);
      const before = c.canister.fingerprint();
      const { balance } = c.canister.state.account;
      const accepted = inspect(c, [['store8', 1, 1], ['stable64_grow', 1], ['accept_message']]);
      assert.deepEqual([accepted.step.fault, accepted.step.isAccepted], [undefined, true]);
      assert.equal(inspect(c, [['msg_method_name_size']]).step.isAccepted, false);
      const named = inspect(c, [['msg_method_name_copy', 0, 0, 4], ['debug_print', 0, 4], ['accept_message']]);
      assert.deepEqual(named.debug, ['näm']);
      assert.match(faultOf(inspect(c, [['accept_message'], ['accept_message']]), 'trap'), /already accepted/);
      const trapped = inspect(c, [['accept_message'], ['unreachable']]);
      assert.deepEqual([trapped.outcome.kind, trapped.step.isAccepted], ['trap', false]);
      assert.equal(c.canister.fingerprint(), before);
      assert.equal(c.canister.state.account.balance, balance);
    });

    test('what a task brings as its limit is a limit', () => {
      const c = new ScriptCanister(width);
      const script = encodeScript(width, [['spin']]);
      const limited = c.canister.run('query', 'compose', script, {}, 500_000);
      assert.match(faultOf(limited, 'limit'), /limit of 500000 instructions/);
      assert.equal(limited.step.instructions, 500_000);
    });
  });
}

function inspect(c: ScriptCanister, calls: readonly Call[]): TestResult {
  return c.canister.execute({
    kind: 'inspect',
    entry: c.canister.entry('canister_inspect_message'),
    method: 'näm',
    argument: encodeScript(c.width, calls),
    caller: c.canister.caller,
  });
}
