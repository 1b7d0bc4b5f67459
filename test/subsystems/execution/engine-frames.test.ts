/** Composite queries that wait for their calls: the state that they see, and their effects. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc, { cases } from '../../support/properties.ts';
import { FULL_LIMIT, type OutgoingCall, type Response } from '../../../subsystems/ic/index.ts';
import { CALL_BLOB, perform } from './call-scripts.ts';
import { faultOf, replyOf, type TestResult, type Width, WIDTHS } from './engine-fixture.ts';
import { BLOB_AT, type Call, encodeScript, HEAP_BYTES, RESULTS_AT, ScriptCanister, slotAt } from './script-canister.ts';

const REPLY: Response = { kind: 'reply', data: new Uint8Array([1]) };
const FREE_AT = 0x20_0000;
/** Beginning of a page without any writes near it. */
const UNTOUCHED_AT = 0x3f_1000;

/** Runs a composite query that makes the calls and then waits for one call of its own. */
function suspend(
  c: ScriptCanister,
  scripts: Readonly<Record<number, readonly Call[]>>,
  calls: readonly Call[],
): Suspended {
  const result = c.runKeeping(scripts, [...calls, ...perform(c.width, { reject: 1, cleanup: 2 })], CALL_BLOB, {
    kind: 'query',
  });
  return suspended(result);
}

interface Suspended {
  readonly call: OutgoingCall;
  readonly frame: number;
}

function suspended({ step }: TestResult): Suspended {
  const [call] = step.calls;
  assert.ok(step.fault === undefined && step.frame > 0 && call !== undefined, step.fault?.message ?? 'no frame');
  return { call, frame: step.frame };
}

function reading(calls: readonly Call[]): readonly Call[] {
  return [...calls, ['msg_reply_data_append', RESULTS_AT, 8 * calls.length], ['msg_reply']];
}

function numbers(result: TestResult): readonly bigint[] {
  const data = replyOf(result);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  return Array.from({ length: data.length / 8 }, (_, k) => view.getBigUint64(8 * k, true));
}

for (const width of WIDTHS) {
  describe(`suspended composite queries, ${width}-bit`, () => {
    test('it sees its own writes after the call, and the canister none of them', () => {
      const c = new ScriptCanister(width);
      c.results([
        ['stable64_grow', 1],
        ['global_set', 5],
      ]);
      const before = c.canister.fingerprint();
      const { heapBytes } = c.canister.instance;
      const own: readonly Call[] = [
        ['store8', FREE_AT, 1],
        ['global_set', 6],
        ['stable64_grow', 1],
        ['stable64_write', 65_536, BLOB_AT, 4],
        ['heap_grow', 2],
        ['store8', HEAP_BYTES + 65_536, 9],
      ];
      const look: readonly Call[] = [
        ['load8', FREE_AT],
        ['global_get'],
        ['stable64_size'],
        ['stable64_read', FREE_AT + 8, 65_536, 4],
        ['load8', FREE_AT + 8],
        ['load8', HEAP_BYTES + 65_536],
        ['load8', HEAP_BYTES + 1],
        ['heap_grow', 0],
      ];
      const { call, frame } = suspend(c, { 0: reading(look) }, own);
      assert.equal(c.canister.fingerprint(), before);
      const answered = c.canister.respond(call, REPLY, { frame });
      const pages = BigInt(HEAP_BYTES / 65_536) + 2n;
      assert.deepEqual(numbers(answered), [1n, 6n, 2n, 0n, BigInt(CALL_BLOB[0] ?? 0), 9n, 0n, pages]);
      assert.deepEqual([answered.step.frame, answered.step.charge], [0, 0]);
      assert.equal(c.canister.fingerprint(), before);
      assert.equal(c.canister.instance.heapBytes, heapBytes);
      assert.equal(c.canister.engine.frameBytesStored, 0);
    });

    test('it goes on seeing the canister as it was, whatever that commits meanwhile', () => {
      const c = new ScriptCanister(width);
      // The store crosses the border of two pages; only its second part touches the second page.
      c.results([
        ['stable64_grow', 1],
        ['store8', FREE_AT + 4096, 3],
        ['store8', FREE_AT + 70_000, 4],
        ['global_set', 5],
      ]);
      const look: readonly Call[] = [
        ['load8', FREE_AT],
        ['load8', FREE_AT + 4096],
        ['load8', FREE_AT + 70_000],
        ['global_get'],
        ['stable64_size'],
        ['stable64_read', FREE_AT + 8, 100, 1],
        ['load8', FREE_AT + 8],
        ['load8', UNTOUCHED_AT],
      ];
      const { call, frame } = suspend(c, { 0: reading(look) }, [['store8', FREE_AT, 1]]);
      const other = suspend(c, { 0: reading(look) }, [['store8', FREE_AT, 2]]);
      c.results(
        [
          ['store8', FREE_AT, 8],
          ['store64', FREE_AT + 4090, 0x0908_0706_0504_0302n],
          ['store64', UNTOUCHED_AT - 3, -1],
          ['global_set', 8],
          ['stable64_grow', 1],
          ['stable64_write', 100, BLOB_AT, 4],
        ],
        CALL_BLOB,
      );
      c.results(
        [
          ['store8', FREE_AT + 70_000, 9],
          ['stable64_write', 65_536, BLOB_AT, 4],
        ],
        CALL_BLOB,
      );
      const after = c.canister.fingerprint();
      assert.deepEqual(numbers(c.canister.respond(call, REPLY, { frame })), [1n, 3n, 4n, 5n, 1n, 0n, 0n, 0n]);
      assert.deepEqual(numbers(c.canister.respond(other.call, REPLY, { frame: other.frame })), [
        2n,
        3n,
        4n,
        5n,
        1n,
        0n,
        0n,
        0n,
      ]);
      assert.equal(c.canister.fingerprint(), after);
      assert.equal(c.canister.engine.frameBytesStored, 0);
    });

    test('a callback that does not answer waits on, with all that was written so far, under the same number', () => {
      const c = new ScriptCanister(width);
      const scripts: Record<number, readonly Call[]> = {
        0: [['store8', FREE_AT + 1, 2], ...perform(width, { reply: 3 })],
        3: reading([
          ['load8', FREE_AT],
          ['load8', FREE_AT + 1],
        ]),
      };
      const started = c.runKeeping(
        scripts,
        [['store8', FREE_AT, 1], ...perform(width), ...perform(width, { reply: 4 })],
        CALL_BLOB,
        { kind: 'query' },
      );
      const [first, silent] = started.step.calls;
      assert.ok(first !== undefined && silent !== undefined);
      const { frame } = started.step;
      // The callback makes no calls and does not answer: another call is still open.
      const nothing = c.canister.respond(silent, REPLY, { frame });
      assert.deepEqual([nothing.step.fault, nothing.step.frame, nothing.step.calls.length], [undefined, frame, 0]);
      const second = c.canister.respond(first, REPLY, { frame });
      assert.equal(second.step.frame, frame);
      const [call] = second.step.calls;
      assert.ok(call !== undefined);
      assert.deepEqual(numbers(c.canister.respond(call, REPLY, { frame })), [1n, 2n]);
    });

    test('whoever answers drops the calls, and a query without calls and answer waits for nothing', () => {
      const c = new ScriptCanister(width);
      const { step } = c.run([...perform(width), ['msg_reply']], CALL_BLOB, 'query', 'compose');
      assert.deepEqual([step.answer?.kind, step.calls.length, step.frame], ['reply', 0, 0]);
      const idle = c.run([['store8', 0, 1]], undefined, 'query', 'compose').step;
      assert.deepEqual([idle.fault, idle.answer, idle.frame], [undefined, undefined, 0]);
      assert.equal(c.canister.engine.frameBytesStored, 0);
      assert.equal(c.canister.state.openCalls.total, 0);
    });

    test('a callback that traps ends the evaluation; its cleanup runs on the state before it and leaves no trace', () => {
      const c = new ScriptCanister(width);
      const before = c.canister.fingerprint();
      const scripts: Record<number, readonly Call[]> = {
        0: [['store8', FREE_AT, 66], ['unreachable']],
        2: [
          ['debug_print', FREE_AT, 1],
          ['stable64_grow', 1],
        ],
      };
      const { call, frame } = suspend(c, scripts, [['store8', FREE_AT, 65]]);
      const result = c.canister.respond(call, REPLY, { frame });
      assert.match(faultOf(result, 'trap'), /unreachable/);
      assert.deepEqual(result.debug.slice(1), ['A']);
      assert.deepEqual([result.step.frame, c.canister.engine.frameBytesStored], [0, 0]);
      assert.equal(c.canister.fingerprint(), before);
    });

    test('a cleanup that traps as well is told of beside the callback', () => {
      const c = new ScriptCanister(width);
      const { call, frame } = suspend(c, { 0: [['unreachable']], 2: [['msg_reply']] }, []);
      const result = c.canister.respond(call, REPLY, { frame });
      assert.match(
        faultOf(result, 'trap'),
        /^unreachable\n\ncall_on_cleanup also failed:\n\nCanister violated contract: "ic0_msg_reply" cannot be executed in composite cleanup mode$/,
      );
      assert.deepEqual(result.records, ['[TRAP]: unreachable']);
    });

    test('cycles cannot be put on its calls; a query that traps leaves nothing open', () => {
      const c = new ScriptCanister(width);
      assert.match(
        c.trap(perform(width, { cycles: 1 }), CALL_BLOB, 'query', 'compose'),
        /"ic0_call_cycles_add128" cannot be executed in composite query mode/,
      );
      c.trap([...perform(width), ['unreachable']], CALL_BLOB, 'query', 'compose');
      assert.deepEqual([c.canister.state.openCalls.total, c.canister.engine.frameBytesStored], [0, 0]);
    });

    test('a frame ends with its code, with a heap grown past it, and when it is given up', () => {
      const c = new ScriptCanister(width);
      const scripts: Record<number, readonly Call[]> = { 0: [['msg_reply']] };
      const gone = (query: Suspended, text: RegExp): void => {
        const result = c.canister.respond(query.call, REPLY, { frame: query.frame });
        assert.match(faultOf(result, 'unavailable'), text);
        assert.equal(result.step.fault?.code, 2);
        assert.equal(c.canister.engine.frameBytesStored, 0);
      };
      const dropped = suspend(c, scripts, []);
      assert.equal(c.canister.execute({ kind: 'dropFrame', frame: dropped.frame }).step.fault, undefined);
      gone(dropped, /is gone/);
      const outgrown = suspend(c, scripts, []);
      c.results([['heap_grow', 1]]);
      gone(outgrown, /has grown/);
      const upgraded = suspend(c, scripts, []);
      assert.equal(c.canister.upgrade({ argument: encodeScript(width, []) }).step.fault, undefined);
      gone(upgraded, /is gone/);
      const kept = suspend(c, scripts, []);
      assert.notEqual(c.canister.upgrade({ argument: encodeScript(width, [['unreachable']]) }).step.fault, undefined);
      replyOf(c.canister.respond(kept.call, REPLY, { frame: kept.frame }));
    });

    test('frames are bounded in bytes: the query that does not fit is rejected by name', () => {
      const c = new ScriptCanister(width, { frameBytesMax: 256 * 1024 });
      const large = c.run([['heap_copy', FREE_AT, 0, 300 * 1024], ...perform(width)], CALL_BLOB, 'query', 'compose');
      assert.match(
        faultOf(large, 'unavailable'),
        /composite queries that wait for their calls hold \d+ of at most 262144 bytes in one executor thread, and \d+ of/,
      );
      assert.deepEqual([large.step.calls.length, large.step.frame, c.canister.engine.frameBytesStored], [0, 0, 0]);
      // Memory that a commit adds counts, too.
      const { call, frame } = suspend(c, { 0: [['msg_reply']] }, []);
      c.results([['heap_copy', FREE_AT, 0, 300 * 1024]]);
      assert.equal(c.canister.engine.frameBytesStored, 0);
      assert.match(faultOf(c.canister.respond(call, REPLY, { frame }), 'unavailable'), /is gone/);
    });

    test('any number of writes and commits, anywhere: the query’s view is its beginning plus its own writes', () => {
      fc.assert(
        fc.property(history, (rounds) => holdsFor(width, rounds)),
        { numRuns: cases(60) },
      );
    });
  });
}

/** Places around the borders of pages: stores of 8 bytes cross them, and so do copies of 1 to 12 bytes. */
const write = fc.record({
  at: fc.tuple(fc.nat(5), fc.integer({ min: -12, max: 12 })).map(([page, by]) => FREE_AT + 4096 + page * 4096 + by),
  length: fc.integer({ min: 1, max: 12 }),
  seed: fc.nat(40),
  how: fc.constantFrom('store' as const, 'copy' as const, 'stable' as const),
});
type Write = typeof write extends fc.Arbitrary<infer T> ? T : never;
const writes = fc.array(write, { maxLength: 4 });
const history = fc.record({
  base: writes,
  first: writes,
  commits: fc.array(writes, { minLength: 1, maxLength: 3 }),
  second: writes,
  later: writes,
});

const REGION_BYTES = 8 * 4096;
const STORED = 0x0807_0605_0403_0201n;
const STORED_BYTES = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]);
const SOURCE = Uint8Array.from({ length: 64 }, (_, k) => k * 3 + 1);

function asCalls(list: readonly Write[]): readonly Call[] {
  return list.map(({ at, length, seed, how }) => {
    if (how === 'store') return ['store64', at, STORED] as const;
    return [
      how === 'copy' ? 'heap_copy' : 'stable64_write',
      how === 'copy' ? at : at - FREE_AT,
      slotAt(30) + seed,
      length,
    ] as const;
  });
}

/** Runs a history with a query in the middle, and the same history on plain arrays. */
function holdsFor(
  width: Width,
  { base, first, commits, second, later }: typeof history extends fc.Arbitrary<infer T> ? T : never,
): void {
  const c = new ScriptCanister(width);
  const model = { heap: new Uint8Array(REGION_BYTES), stable: new Uint8Array(REGION_BYTES) };
  const apply = (target: typeof model, list: readonly Write[]): void => {
    for (const { at, length, seed, how } of list) {
      const bytes = how === 'store' ? STORED_BYTES : SOURCE.subarray(seed, seed + length);
      (how === 'stable' ? target.stable : target.heap).set(bytes, at - FREE_AT);
    }
  };
  const seedBytes: readonly Call[] = [...SOURCE].map((byte, k) => ['store8', slotAt(30) + k, byte]);
  replyOf(c.run([...seedBytes, ['stable64_grow', 1], ...asCalls(base), ['msg_reply']]));
  apply(model, base);
  const view = { heap: model.heap.slice(), stable: model.stable.slice() };
  const scripts: Record<number, readonly Call[]> = {
    0: [...asCalls(second), ...perform(width, { reply: 3 })],
    3: [
      ['msg_reply_data_append', FREE_AT, REGION_BYTES],
      ['stable64_read', FREE_AT, 0, REGION_BYTES],
      ['msg_reply_data_append', FREE_AT, REGION_BYTES],
      ['msg_reply'],
    ],
  };
  let query = suspended(c.runKeeping(scripts, [...asCalls(first), ...perform(width)], CALL_BLOB, { kind: 'query' }));
  apply(view, first);
  for (const list of commits) {
    replyOf(c.run([...asCalls(list), ['msg_reply']]));
    apply(model, list);
  }
  query = suspended(c.canister.respond(query.call, REPLY, { frame: query.frame }));
  apply(view, second);
  replyOf(c.run([...asCalls(later), ['msg_reply']]));
  apply(model, later);
  const seen = replyOf(c.canister.respond(query.call, REPLY, { frame: query.frame }));
  assert.equal(Buffer.compare(seen.subarray(0, REGION_BYTES), view.heap), 0);
  assert.equal(Buffer.compare(seen.subarray(REGION_BYTES), view.stable), 0);
  const committed = c.canister.run('query', 'look', encodeScript(width, scripts[3] ?? []), {}, FULL_LIMIT);
  assert.equal(Buffer.compare(replyOf(committed).subarray(0, REGION_BYTES), model.heap), 0);
  assert.equal(Buffer.compare(replyOf(committed).subarray(REGION_BYTES), model.stable), 0);
  assert.equal(c.canister.engine.frameBytesStored, 0);
}
