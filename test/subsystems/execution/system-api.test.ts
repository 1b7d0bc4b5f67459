import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DEBUG_BYTES_MAX, DEBUG_LINES_MAX } from '../../../subsystems/execution/engine/system-api/debug-output.ts';
import { NO_FACTS } from '../../../subsystems/ic/index.ts';
import { faultOf, littleEndian, POLICY, replyOf, WIDTHS } from './engine-fixture.ts';
import { ARGUMENT_AT, BLOB_AT, type Call, HEAP_BYTES, RESULTS_AT, ScriptCanister } from './script-canister.ts';

const utf8 = new TextEncoder();
const REPLY: readonly Call[] = [['msg_reply']];

for (const width of WIDTHS) {
  describe(`system API, ${width}-bit`, () => {
    const pointerMax = width === 64 ? 2n ** 64n - 1n : 2n ** 32n - 1n;

    test('the argument and the caller are copied as asked, and nothing beyond them', () => {
      const c = new ScriptCanister(width);
      const hello = utf8.encode('hello');
      assert.deepEqual(
        c.heapAfter([['msg_arg_data_copy', 100, 8 + 1, 3]], 99, 5, hello),
        new Uint8Array([0, ...utf8.encode('ell'), 0]),
      );
      c.canister.caller = utf8.encode('who calls');
      assert.deepEqual(c.results([['msg_caller_size']]), [9n]);
      assert.deepEqual(c.heapAfter([['msg_caller_copy', 0, 4, 5]], 0, 5), utf8.encode('calls'));
      assert.match(
        c.trap([['msg_caller_copy', 0, 4, 6]]),
        /^ic0\.msg_caller_copy: 6 bytes at offset 4 lie beyond the 9 bytes there are$/,
      );
      assert.match(
        c.trap([['msg_caller_copy', HEAP_BYTES - 8, 0, 9]]),
        new RegExp(
          `^ic0\\.msg_caller_copy: 9 bytes at address ${HEAP_BYTES - 8} lie beyond the heap of ${HEAP_BYTES} bytes$`,
        ),
      );
    });

    test('sums of addresses, offsets and sizes do not wrap around', () => {
      const c = new ScriptCanister(width);
      for (const call of [
        ['msg_caller_copy', pointerMax, 0, 1],
        ['msg_caller_copy', 0, pointerMax, 1],
        ['msg_caller_copy', 0, 1, pointerMax],
        ['msg_reply_data_append', pointerMax, 1],
        ['msg_reject', pointerMax, 1],
        ['canister_cycle_balance128', pointerMax],
        ['is_controller', pointerMax, 1],
        ['trap', pointerMax, 1],
      ] satisfies Call[]) {
        assert.match(c.trap([call]), new RegExp(`^ic0\\.${call[0]}: .* lie beyond the`));
      }
    });

    test('every import that writes to the heap is undone: after queries and traps not a byte differs', () => {
      const c = new ScriptCanister(width, { spec: { env: new Map([['k', 'value']]) } });
      c.results(
        [
          ['stable64_grow', 1],
          ['stable64_write', 0, BLOB_AT, 4],
        ],
        utf8.encode('data'),
      );
      // A page with some content that no other part of the message writes.
      const page = 0x20_0000;
      c.results([
        ['store8', page, 0x77],
        ['store8', page + 1, 0x77],
        ['store8', page + 15, 0x77],
      ]);
      const before = c.canister.fingerprint();
      const writes: readonly Call[] = [
        ['msg_arg_data_copy', page, 0, 4],
        ['msg_caller_copy', page, 0, 1],
        ['canister_self_copy', page, 0, 10],
        ['canister_cycle_balance128', page],
        ['cost_call', 0, 0, page],
        ['stable64_read', page, 0, 4],
        ['env_var_name_copy', 0, page, 0, 1],
        ...(width === 32 ? ([['stable_read', page, 0, 4]] as const) : []),
      ];
      for (const call of writes) {
        c.results([call], undefined, 'query');
        assert.equal(c.canister.fingerprint(), before, `${call[0]} in a query`);
        c.trap([call, ['unreachable']]);
        assert.equal(c.canister.fingerprint(), before, `${call[0]} before a trap`);
      }
    });

    test('every import that copies charges for each byte', () => {
      const c = new ScriptCanister(width, { spec: { env: new Map([['k', 'v'.repeat(128)]]) } });
      c.results([['stable64_grow', 1]]);
      const counter: Call = ['performance_counter', 0];
      const costs: readonly (readonly [perByte: bigint, call: (size: number) => Call])[] = [
        [1n, (size) => ['msg_arg_data_copy', 0, 0, size]],
        [1n, (size) => ['root_key_copy', 0, 0, size]],
        [1n, (size) => ['msg_reply_data_append', 0, size]],
        [1n, (size) => ['stable64_read', 0, 0, size]],
        [1n, (size) => ['stable64_write', 0, 0, size]],
        [1n, (size) => ['is_controller', 0, size]],
        [1n, (size) => ['certified_data_set', 0, size]],
        [1n, (size) => ['env_var_value_copy', BLOB_AT, 1, 0, 0, size]],
        [52n, (size) => ['debug_print', 0, size]],
      ];
      for (const [perByte, call] of costs) {
        // The first call dirties its pages; the next two differ by ten bytes.
        const calls: Call[] = [call(15), counter, call(5), counter, call(15), counter];
        const { outcome } = c.run(
          [...calls, ['msg_reply_data_append', RESULTS_AT, 48], ['msg_reply']],
          utf8.encode('k'),
        );
        assert.ok(outcome.kind === 'reply', JSON.stringify(outcome));
        const view = new DataView(outcome.data.buffer, outcome.data.byteOffset + outcome.data.length - 48);
        const at = (index: number): bigint => view.getBigUint64(8 * index, true);
        assert.equal(at(5) - at(3) - (at(3) - at(1)), 10n * perByte, call(0)[0]);
      }
    });

    test('what a trapped copy had to write is not written', () => {
      const c = new ScriptCanister(width);
      const before = c.canister.fingerprint();
      c.trap([
        ['store8', 5, 1],
        ['msg_caller_copy', 0, 0, 2],
      ]);
      assert.equal(c.canister.fingerprint(), before);
    });

    test('auxiliary caller data is empty; there is no deadline', () => {
      const c = new ScriptCanister(width);
      assert.deepEqual(
        c.results([
          ['msg_caller_info_data_size'],
          ['msg_caller_info_signer_size'],
          ['msg_deadline'],
          ['msg_caller_info_data_copy', 0, 0, 0],
        ]),
        [0n, 0n, 0n, 0n],
      );
      assert.match(c.trap([['msg_caller_info_signer_copy', 0, 0, 1]]), /beyond the 0 bytes/);
    });

    test('a reply is what was appended, once', () => {
      const c = new ScriptCanister(width);
      const blob = utf8.encode('abcdef');
      assert.deepEqual(
        replyOf(
          c.run(
            [['msg_reply_data_append', BLOB_AT, 2], ['msg_reply_data_append', BLOB_AT + 4, 2], ['msg_reply']],
            blob,
          ),
        ),
        utf8.encode('abef'),
      );
      assert.deepEqual(replyOf(c.run(REPLY)), new Uint8Array(0));
      assert.equal(
        c.trap([['msg_reply'], ['msg_reply']]),
        'Canister violated contract: ic0.msg_reply: the call is already answered',
      );
      assert.match(
        c.trap([['msg_reply'], ['msg_reply_data_append', 0, 1]]),
        /^Canister violated contract: ic0\.msg_reply_data_append/,
      );
      assert.match(c.trap([['msg_reject', 0, 0], ['msg_reply']]), /already answered/);
    });

    test('a handler that returns without an answer keeps its changes and answers nothing', () => {
      const c = new ScriptCanister(width);
      const message = faultOf(
        c.run([
          ['store8', 3, 42],
          ['msg_reply_data_append', 0, 10],
        ]),
        'noReply',
      );
      assert.equal(message, 'the canister did not reply to the call');
      assert.deepEqual(c.results([['load8', 3]]), [42n]);
    });

    test('a reject carries its text with code 4, keeps the changes, and must be UTF-8', () => {
      const c = new ScriptCanister(width);
      const { outcome } = c.run(
        [
          ['store8', 3, 1],
          ['msg_reply_data_append', 0, 9],
          ['msg_reject', BLOB_AT, 5],
        ],
        utf8.encode('nö!!'),
      );
      assert.ok(outcome.kind === 'reject');
      assert.deepEqual([outcome.code, outcome.message], [4, 'nö!!']);
      assert.deepEqual(c.results([['load8', 3]]), [1n]);
      assert.match(
        c.trap([['msg_reject', BLOB_AT, 2]], new Uint8Array([0xc3, 0x28])),
        /^ic0\.msg_reject: the 2 bytes of text are not valid UTF-8$/,
      );
    });

    test('answers are limited to 2 MiB in replicated execution and 3 MiB in queries', () => {
      const c = new ScriptCanister(width);
      const limits = [
        ['update', 2 << 20],
        ['query', 3 << 20],
      ] as const;
      for (const [kind, limit] of limits) {
        const full = c.run([['msg_reply_data_append', 0, limit], ['msg_reply']], undefined, kind);
        assert.equal(replyOf(full).length, limit);
        const text = `ic0.msg_reply_data_append: application payload size (${limit + 1}) cannot be larger than ${limit}.`;
        assert.equal(
          c.trap(
            [
              ['msg_reply_data_append', 0, limit],
              ['msg_reply_data_append', 0, 1],
            ],
            undefined,
            kind,
          ),
          text,
        );
        assert.match(
          c.trap([['msg_reject', 0, limit + 1]], undefined, kind),
          /^ic0\.msg_reject: application payload size/,
        );
      }
      // A query method reached by an update call is replicated.
      assert.match(
        c.trap([['msg_reply_data_append', 0, (2 << 20) + 1]], undefined, 'update', 'look'),
        /cannot be larger than 2097152/,
      );
      assert.deepEqual(c.results([['in_replicated_execution']]), [1n], 'a large reply leaves the canister well');
    });

    test('the balance is what the canister may spend: less what this execution may cost at most', () => {
      const c = new ScriptCanister(width);
      const reserved = 590_000n + (BigInt(POLICY.instructionLimit) * 4n) / 10n;
      const seen = littleEndian(
        c.heapAfter(
          [
            ['canister_cycle_balance128', 0],
            ['canister_liquid_cycle_balance128', 16],
          ],
          0,
          16,
        ),
      );
      const before = c.canister.state.account.balance;
      assert.equal(littleEndian(c.heapAfter([['canister_liquid_cycle_balance128', 16]], 16, 16)), before - reserved);
      assert.ok(seen > before - reserved);
      assert.equal(
        littleEndian(c.heapAfter([['canister_cycle_balance128', 0]], 0, 16, undefined, 'query')),
        c.canister.state.account.balance,
      );
    });

    test('amounts beyond 64 bits are written whole', () => {
      const balance = 0x0123_4567_89ab_cdef_0011_2233_4455_6677n;
      const c = new ScriptCanister(width, { spec: { balance } });
      const seen = littleEndian(c.heapAfter([['canister_cycle_balance128', 0]], 0, 16, undefined, 'query'));
      assert.equal(seen, c.canister.state.account.balance);
      assert.ok(seen > 2n ** 120n);
      if (width === 32)
        assert.match(
          c.trap([['canister_cycle_balance']]),
          /do not fit into 64 bits; use ic0\.canister_cycle_balance128/,
        );
    });

    test('burning takes at most what may be spent, and a trap gives it back', () => {
      const c = new ScriptCanister(width);
      const before = c.canister.state.account.balance;
      const result = c.run([['cycles_burn128', 0, 1_000_000, 0], ['msg_reply_data_append', 0, 16], ['msg_reply']]);
      assert.equal(littleEndian(replyOf(result)), 1_000_000n);
      assert.ok(result.isBalanceMoved);
      assert.equal(c.canister.state.account.balance, before - 1_000_000n - BigInt(result.outcome.charge));

      const between = c.canister.state.account.balance;
      const trapped = c.run([['cycles_burn128', 0, 1_000_000, 0], ['unreachable']]);
      assert.ok(!trapped.isBalanceMoved);
      assert.equal(c.canister.state.account.balance, between - BigInt(trapped.outcome.charge));

      const all = c.run([
        ['cycles_burn128', 2n ** 64n - 1n, 2n ** 64n - 1n, 0],
        ['cycles_burn128', 0, 1, 16],
        ['msg_reply_data_append', 0, 32],
        ['msg_reply'],
      ]);
      const reserved = 590_000n + (BigInt(POLICY.instructionLimit) * 4n) / 10n;
      const left = between - BigInt(trapped.outcome.charge);
      assert.equal(littleEndian(replyOf(all).subarray(0, 16)), left - reserved);
      assert.equal(littleEndian(replyOf(all).subarray(16)), 0n);
      assert.equal(
        c.canister.state.account.balance,
        reserved - BigInt(all.outcome.charge),
        'what is kept back pays for the execution',
      );
    });

    test('a query method run by an update call may burn, and keeps nothing else', () => {
      const c = new ScriptCanister(width);
      const heap = c.canister.fingerprint();
      const before = c.canister.state.account.balance;
      const result = c.run([['store8', 9, 9], ['cycles_burn128', 0, 5, 0], ['msg_reply']], undefined, 'update', 'look');
      assert.equal(c.canister.state.account.balance, before - 5n - BigInt(result.outcome.charge));
      assert.equal(c.canister.fingerprint(), heap);
    });

    test('nothing comes with a call from outside, so nothing is accepted', () => {
      const c = new ScriptCanister(width);
      assert.deepEqual(
        c.heapAfter(
          [
            ['store8', 0, 255],
            ['msg_cycles_available128', 0],
            ['msg_cycles_accept128', 1, 1, 16],
          ],
          0,
          32,
        ),
        new Uint8Array(32),
      );
      if (width === 32) assert.deepEqual(c.results([['msg_cycles_available'], ['msg_cycles_accept', 7]]), [0n, 0n]);
    });

    test('without metering the canister sees what the replica starts canisters with', () => {
      const c = new ScriptCanister(width, { policy: { isEnabled: false }, spec: { balance: 0n } });
      const seen = c.heapAfter(
        [
          ['canister_cycle_balance128', 0],
          ['cycles_burn128', 0, 5, 32],
          ['canister_cycle_balance128', 16],
        ],
        0,
        32,
      );
      assert.equal(littleEndian(seen.subarray(0, 16)), 100_000_000_000_000n);
      assert.equal(littleEndian(seen.subarray(16)), 99_999_999_999_995n);
      assert.equal(c.canister.state.account.balance, 0n);
    });

    test('stable memory is written, read, and kept by updates only', () => {
      const c = new ScriptCanister(width);
      const blob = utf8.encode('kept');
      assert.deepEqual(
        c.results(
          [['stable64_size'], ['stable64_grow', 3], ['stable64_size'], ['stable64_write', 65_534, BLOB_AT, 4]],
          blob,
        ),
        [0n, 0n, 3n, 0n],
      );
      assert.deepEqual(c.heapAfter([['stable64_read', 200, 65_533, 6]], 200, 6), new Uint8Array([0, ...blob, 0]));
      const kept = c.canister.fingerprint();
      c.results(
        [
          ['stable64_grow', 5],
          ['stable64_write', 0, BLOB_AT, 4],
        ],
        blob,
        'query',
      );
      c.results(
        [
          ['stable64_grow', 5],
          ['stable64_write', 0, BLOB_AT, 4],
        ],
        blob,
        'update',
        'look',
      );
      c.trap([['stable64_grow', 5], ['stable64_write', 65_534, 0, 4096], ['unreachable']]);
      assert.equal(c.canister.state.stable.pages, 3);
      // The version counts the update that read; nothing else may have changed.
      assert.equal(c.canister.fingerprint(), kept);
      assert.deepEqual(
        c.results([
          ['stable64_grow', 2n ** 63n],
          ['stable64_grow', 8_192_000 - 3],
          ['stable64_grow', 1],
        ]),
        [2n ** 64n - 1n, 3n, 2n ** 64n - 1n],
      );
    });

    test('stable memory is bounded on both sides; nothing is nowhere out of bounds', () => {
      const c = new ScriptCanister(width);
      c.results([['stable64_grow', 1]]);
      const text = 'stable memory out of bounds: 2 bytes at offset 65535 of 65536 bytes';
      assert.equal(c.trap([['stable64_write', 65_535, 0, 2]]), `ic0.stable64_write: ${text}`);
      assert.equal(c.trap([['stable64_read', 0, 65_535, 2]]), `ic0.stable64_read: ${text}`);
      for (const call of [
        ['stable64_write', 2n ** 64n - 1n, 0, 2],
        ['stable64_write', 0, 0, 2n ** 64n - 1n],
        ['stable64_write', 0, 2n ** 64n - 1n, 2],
        ['stable64_write', 0, HEAP_BYTES - 1, 2],
        ['stable64_read', HEAP_BYTES - 1, 0, 2],
        ['stable64_read', 2n ** 32n, 0, 1],
        ['stable64_read', 0, 2n ** 64n - 4n, 8],
      ] satisfies Call[]) {
        assert.match(c.trap([call]), /out of bounds|lie beyond the heap/);
      }
      c.results([
        ['stable64_write', 2n ** 64n - 1n, 2n ** 63n, 0],
        ['stable64_read', 2n ** 64n - 1n, 2n ** 63n, 0],
      ]);
    });

    test('the first write to 4 KiB of stable memory in a message costs 1,000 instructions more than the next', () => {
      const c = new ScriptCanister(width);
      c.results([['stable64_grow', 2]]);
      const counter: Call = ['performance_counter', 0];
      for (const { offset, size, pages } of [
        { offset: 0, size: 8, pages: 1n },
        { offset: 4096, size: 4096, pages: 1n },
        { offset: 4000, size: 5000, pages: 3n },
      ]) {
        const write: Call = ['stable64_write', offset, 0, size];
        const [a = 0n, , b = 0n, , d = 0n] = c.results([counter, write, counter, write, counter]);
        assert.equal(b - a - (d - b), pages * 1000n, `${size} bytes at ${offset}`);
      }
    });

    test('one query may write 1 GiB of stable memory, and no more', () => {
      const c = new ScriptCanister(width);
      const pages = 16_385;
      const message = c.trap(
        [
          ['heap_grow', pages],
          ['stable64_grow', pages],
          ['stable64_write', 0, 0, pages * 65_536],
        ],
        undefined,
        'query',
      );
      assert.equal(
        message,
        'ic0.stable64_write: memory access limit exceeded: one message may write at most 1024 MiB of stable memory pages',
      );
    });

    test('a write that the thread has no room for is a trap that says so, and leaves nothing behind', () => {
      const c = new ScriptCanister(width, { stableBytesMax: 1 << 20 });
      c.results(
        [
          ['stable64_grow', 100],
          ['stable64_write', 0, BLOB_AT, 4],
        ],
        utf8.encode('kept'),
      );
      const before = c.canister.fingerprint();
      assert.match(
        c.trap([['stable64_write', 0, 0, 2 << 20]]),
        /^ic0\.stable64_write: stable memory cannot be written: one executor thread holds at most 1 MiB/,
      );
      assert.equal(c.canister.state.stable.storedBytes, 4096);
      assert.equal(c.canister.fingerprint(), before);
    });

    if (width === 32) {
      test('the older stable memory imports stop at 4 GiB and refuse a larger memory', () => {
        const c = new ScriptCanister(32);
        const minusOne = 0xffff_ffffn;
        assert.deepEqual(
          c.results([['stable_grow', 65_537], ['stable_grow', 2], ['stable_size'], ['stable_grow', 0xffff_ffffn]]),
          [minusOne, 0n, 2n, minusOne],
        );
        c.results([['stable_write', 131_070, BLOB_AT, 2]], utf8.encode('hi'));
        assert.deepEqual(
          c.heapAfter([['stable_read', 0, 131_068, 4]], 0, 4),
          new Uint8Array([0, 0, ...utf8.encode('hi')]),
        );
        assert.match(c.trap([['stable_write', 131_071, 0, 2]]), /stable_write: stable memory out of bounds/);
        assert.deepEqual(c.results([['stable_grow', 65_534], ['stable_size'], ['stable_grow', 1]]), [
          2n,
          65_536n,
          minusOne,
        ]);
        c.results([['stable64_grow', 1]]);
        for (const call of [
          ['stable_size'],
          ['stable_grow', 0],
          ['stable_read', 0, 0, 1],
          ['stable_write', 0, 0, 1],
        ] satisfies Call[]) {
          assert.match(c.trap([call]), /larger than 4 GiB \(65537 pages\); use the 64-bit/);
        }
      });
    }

    test('time is one instant for a message, in nanoseconds, and never goes back', () => {
      const c = new ScriptCanister(width);
      c.canister.nowMs = 1_800_000_000_123.456;
      const [first, second] = c.results([['time'], ['time']]);
      assert.equal(first, 1_800_000_000_123_456_000n);
      assert.equal(second, first);
      c.canister.nowMs -= 1000;
      assert.deepEqual(c.results([['time']]), [first]);
      assert.deepEqual(c.results([['time']], undefined, 'query'), [first]);
    });

    test('the performance counter grows with work and counts bytes; there are two of them', () => {
      const c = new ScriptCanister(width);
      const counter: Call = ['performance_counter', 0];
      const [a = 0n, , b = 0n, , d = 0n] = c.results([
        counter,
        ['msg_arg_data_copy', 0, 0, 10],
        counter,
        ['msg_arg_data_copy', 0, 0, 1010],
        counter,
      ]);
      assert.ok(a > 0n && b > a);
      assert.equal(d - b - (b - a), 1000n);
      const [execution = 0n, call = 0n] = c.results([counter, ['performance_counter', 1]]);
      assert.ok(call > execution && call - execution < 2000n);
      assert.match(c.trap([['performance_counter', 2]]), /^ic0\.performance_counter: there is no counter 2/);
      assert.match(c.trap([['performance_counter', -1]]), /no counter 4294967295/);
    });

    test('the canister knows its id, its status, its version and its place', () => {
      const c = new ScriptCanister(width);
      assert.deepEqual(c.heapAfter([['canister_self_copy', 0, 0, 10]], 0, 10), c.canister.state.id);
      assert.deepEqual(
        c.results([
          ['canister_self_size'],
          ['canister_status'],
          ['subnet_self_size'],
          ['root_key_size'],
          ['in_replicated_execution'],
        ]),
        [10n, 1n, 29n, 133n, 1n],
      );
      assert.equal(c.heapAfter([['subnet_self_copy', 0, 28, 1]], 0, 1)[0], 2, 'a self-authenticating principal');
      assert.deepEqual(c.heapAfter([['root_key_copy', 0, 0, 3]], 0, 3), new Uint8Array([0x30, 0x81, 0x82]));
      assert.deepEqual(c.results([['in_replicated_execution']], undefined, 'query'), [0n]);
      assert.deepEqual(c.results([['in_replicated_execution']], undefined, 'update', 'look'), [1n]);
      const [version = 0n] = c.results([['canister_version']]);
      assert.deepEqual(c.results([['canister_version']], undefined, 'query'), [version + 1n]);
      c.trap([['unreachable']]);
      assert.deepEqual(c.results([['canister_version']]), [version + 1n]);
    });

    test('controllers are known by their bytes', () => {
      const controllers = [utf8.encode('admin'), new Uint8Array(29).fill(7)];
      const c = new ScriptCanister(width, { spec: { controllers } });
      const ask = (bytes: Uint8Array): bigint | undefined =>
        c.results([['is_controller', BLOB_AT, bytes.length]], bytes)[0];
      assert.equal(ask(utf8.encode('admin')), 1n);
      assert.equal(ask(utf8.encode('admi')), 0n);
      assert.equal(ask(new Uint8Array(29).fill(7)), 1n);
      assert.equal(ask(new Uint8Array(0)), 0n);
      assert.match(c.trap([['is_controller', 0, 30]]), /30 bytes are not a principal/);
    });

    test('certified data counts when the update returns, has at most 32 bytes, and no certificate', () => {
      const c = new ScriptCanister(width);
      const blob = utf8.encode('0123456789abcdef0123456789abcdefX');
      c.results(
        [
          ['certified_data_set', BLOB_AT, 3],
          ['certified_data_set', BLOB_AT, 32],
        ],
        blob,
      );
      assert.deepEqual(c.canister.state.certifiedData, blob.subarray(0, 32));
      c.trap([['certified_data_set', BLOB_AT, 1], ['unreachable']], blob);
      assert.equal(c.canister.state.certifiedData.length, 32);
      assert.equal(
        c.trap([['certified_data_set', BLOB_AT, 33]], blob),
        'ic0_certified_data_set failed because the passed data must be no larger than 32 bytes. Found 33 bytes.',
      );
      assert.deepEqual(c.results([['data_certificate_present']], undefined, 'query'), [0n]);
      assert.match(c.trap([['data_certificate_size']], undefined, 'query'), /there is no data certificate/);
    });

    test('with a placeholder queries find a certificate, and updates find none', () => {
      const c = new ScriptCanister(width);
      c.canister.state.facts = { ...NO_FACTS, hasCertificate: true };
      const placeholder = Buffer.from('d9d9f7a264747265658100697369676e617475726540', 'hex');
      assert.deepEqual(c.results([['data_certificate_present'], ['data_certificate_size']], undefined, 'query'), [
        1n,
        BigInt(placeholder.length),
      ]);
      assert.match(
        c.trap([['data_certificate_copy', BLOB_AT, 1, placeholder.length]], undefined, 'query'),
        /22 bytes at offset 1 lie beyond the 22 bytes there are/,
      );
      assert.deepEqual(c.results([['data_certificate_present']]), [0n]);
    });

    test('environment variables are listed in the order of their names and found by name', () => {
      const env = new Map([
        ['b', 'second'],
        ['a', 'first'],
        ['ö', 'last'],
        ['PUBLIC_CANISTER_ID:x', 'aaaaa-aa'],
      ]);
      const c = new ScriptCanister(width, { spec: { env } });
      assert.deepEqual(
        c.results(
          [['env_var_count'], ['env_var_name_size', 0], ['env_var_name_size', 3], ['env_var_value_size', BLOB_AT, 1]],
          utf8.encode('b'),
        ),
        [4n, 20n, 2n, 6n],
      );
      assert.deepEqual(c.heapAfter([['env_var_name_copy', 1, 0, 0, 1]], 0, 1), utf8.encode('a'));
      assert.deepEqual(
        c.heapAfter([['env_var_value_copy', BLOB_AT, 1, 0, 2, 3]], 0, 3, utf8.encode('a')),
        utf8.encode('rst'),
      );
      assert.deepEqual(
        c.results(
          [
            ['env_var_name_exists', BLOB_AT, 1],
            ['env_var_name_exists', BLOB_AT, 2],
          ],
          utf8.encode('ab'),
        ),
        [1n, 0n],
      );
      assert.match(c.trap([['env_var_name_size', 4]]), /no environment variable 4, there are 4/);
      assert.match(c.trap([['env_var_value_size', BLOB_AT, 2]], utf8.encode('zz')), /no environment variable 'zz'/);
      assert.match(c.trap([['env_var_name_exists', 0, 129]]), /129 bytes are more than the 128 allowed/);
      assert.match(c.trap([['env_var_name_exists', BLOB_AT, 1]], new Uint8Array([0xff])), /not valid UTF-8/);
    });

    test('nothing has a price, and unknown keys and curves are told apart', () => {
      const c = new ScriptCanister(width);
      const fill: Call[] = Array.from({ length: 16 }, (_, i) => ['store8', i, 255]);
      for (const call of [
        ['cost_call', 1, 1, 0],
        ['cost_create_canister', 0],
        ['cost_http_request', 1, 1, 0],
        ['cost_http_request_v2', 0, 1, 0],
      ] satisfies Call[]) {
        assert.deepEqual(c.heapAfter([...fill, call], 0, 16), new Uint8Array(16));
      }
      const key = utf8.encode('key_1nope');
      for (const name of ['cost_sign_with_ecdsa', 'cost_sign_with_schnorr', 'cost_vetkd_derive_key'] as const) {
        assert.deepEqual(
          c.results(
            [
              [name, BLOB_AT, 5, 0, 0],
              [name, BLOB_AT, 5, 9, 0],
              [name, BLOB_AT + 5, 4, 0, 0],
              [name, BLOB_AT, 5, -1, 0],
            ],
            key,
          ),
          [0n, 1n, 2n, 1n],
        );
      }
      assert.deepEqual(
        c.results(
          [
            ['cost_sign_with_schnorr', BLOB_AT, 5, 1, 0],
            ['cost_sign_with_ecdsa', BLOB_AT, 5, 1, 0],
          ],
          key,
        ),
        [0n, 1n],
      );
    });

    test('debug prints are collected in order, never trap, and are bounded', () => {
      const c = new ScriptCanister(width);
      const blob = utf8.encode('onetwo');
      const result = c.run(
        [['debug_print', BLOB_AT, 3], ['debug_print', pointerMax, 1], ['debug_print', BLOB_AT + 3, 3], ['msg_reply']],
        blob,
      );
      assert.deepEqual(result.debug, ['one', '(debug_print message out of memory bounds)', 'two']);
      assert.deepEqual(c.run(REPLY).debug, []);
      assert.deepEqual(c.run([['debug_print', BLOB_AT, 3], ['msg_reply']], blob, 'query').debug, ['one']);

      const long = c.run([['debug_print', 0, 40_000], ['msg_reply']]).debug;
      assert.equal(long.length, 1);
      assert.ok(long[0]?.endsWith('… (7232 more bytes)'));

      const many = c.run([
        ...Array.from({ length: 600 }, (): Call => ['debug_print', ARGUMENT_AT, 1000]),
        ['msg_reply'],
      ]).debug;
      assert.ok(many.length <= DEBUG_LINES_MAX + 1);
      assert.ok(many.join('').length <= DEBUG_BYTES_MAX + 200, 'bounded in bytes');
      assert.match(many.at(-1) ?? '', /more debug prints of this message were dropped/);
    });

    test('a trap carries its text to the caller and to the log, and undoes the message', () => {
      const c = new ScriptCanister(width);
      const before = c.canister.fingerprint();
      const result = c.run(
        [['debug_print', BLOB_AT, 2], ['store8', 1, 1], ['msg_reply'], ['trap', BLOB_AT, 7]],
        utf8.encode('no more'),
      );
      const text = "Canister called `ic0.trap` with message: 'no more'";
      assert.equal(faultOf(result, 'trap'), text);
      assert.deepEqual(result.debug, ['no', text]);
      assert.deepEqual(result.records, ['no', '[TRAP]: no more']);
      assert.equal(c.canister.fingerprint(), before);
      assert.ok(faultOf(c.run([['trap', 0, 100_000]]), 'trap').length < 20_000, 'long texts are cut');
    });

    test('the log tells of traps, as the replica does: not of broken contracts and limits', () => {
      const c = new ScriptCanister(width);
      const recordsOf = (calls: readonly Call[]): readonly string[] => c.run(calls).records;
      assert.deepEqual(recordsOf([['unreachable']]), ['[TRAP]: unreachable']);
      assert.deepEqual(recordsOf([['trap', BLOB_AT, 0]]), ['[TRAP]: (no message)']);
      assert.deepEqual(recordsOf([['msg_reply'], ['msg_reply']]), []);
      assert.deepEqual(recordsOf([['accept_message']]), []);
      c.canister.state.heapBytesMax = 1;
      assert.deepEqual(recordsOf([['msg_reply']]), []);
    });
  });
}
