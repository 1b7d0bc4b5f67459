/**
 * Depth to which actors may recurse: real Motoko, both persistence modes, on a real server with the default stack.
 * Covers the depth that Motoko's own test of the stack demands, and upgrades of long linked lists. A deeper recursion
 * is a trap that leaves no trace.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileMotoko } from '../support/motoko.ts';
import { startServer } from '../support/server.ts';

/** Levels of `?((), List)` that Motoko's max-stack test demands at least. */
const LIST_LEVELS = 31_001;
const CALL_LEVELS = 10_001;
const STABLE_NODES = 12_000;
/** More levels than 4 MiB can ever hold. */
const TOO_DEEP = 1_000_000;

const SOURCE = `
import Prim "mo:⛔";
persistent actor {
  type List = ?((), List);
  type Node = { value : Nat; next : ?Node };
  var nodes : ?Node = null;

  func build(n : Nat) : List {
    var list : List = null;
    var i = 0;
    while (i < n) { list := ?((), list); i += 1 };
    list
  };
  func length(from : List) : Nat {
    var list = from;
    var i = 0;
    loop { switch list { case null { return i }; case (?((), tail)) { list := tail; i += 1 } } }
  };
  func down(n : Nat) : Nat { if (n == 0) 0 else 1 + down(n - 1) };

  public func serialise(n : Nat) : async Nat {
    let bytes = to_candid (build(n));
    bytes.size()
  };
  public func deserialise(n : Nat) : async Nat {
    // A list of units is what Motoko takes for an attack by its size.
    Prim.setCandidLimits<system>({ numerator = 1_000; denominator = 1; bias = 1_000_000_000 });
    let bytes = to_candid (build(n));
    let ?list : ?List = from_candid bytes else Prim.trap("not a list");
    length(list)
  };
  public func depth(n : Nat) : async Nat { down(n) };
  public func growAndRecurse(n : Nat) : async Nat { nodes := ?{ value = n; next = nodes }; down(n) };
  public func grow(n : Nat) : async () {
    var i = 0;
    while (i < n) { nodes := ?{ value = i; next = nodes }; i += 1 }
  };
  public query func count() : async Nat {
    var list = nodes;
    var i = 0;
    loop { switch list { case null { return i }; case (?node) { list := node.next; i += 1 } } }
  };
}`;

for (const persistence of ['enhanced', 'classical'] as const) {
  describe(`Motoko, ${persistence} persistence`, () => {
    test('recurses as deep as its own tests ask for, deeper is a trap, and long lists survive upgrades', async (t) => {
      const { wasm } = await compileMotoko(SOURCE, { persistence });
      const server = await startServer(t, { args: ['--executors', '1'], manifest: '{ "actors": {} }' });
      assert.equal((await server.post('/install/deep', wasm)).status, 200);
      const call = (method: string, levels: number): Promise<{ status: number; body: string }> =>
        server.post(`/call-json/deep/${method}`, `[${levels}]`);

      assert.equal((await call('serialise', LIST_LEVELS)).status, 200);
      assert.deepEqual(await call('deserialise', LIST_LEVELS), { status: 200, body: `[${LIST_LEVELS}]` });
      assert.deepEqual(await call('depth', CALL_LEVELS), { status: 200, body: `[${CALL_LEVELS}]` });

      assert.equal((await call('grow', STABLE_NODES)).status, 200);
      for (const method of ['growAndRecurse', 'serialise', 'deserialise']) {
        const deeper = await call(method, TOO_DEEP);
        assert.equal(deeper.status, 400, deeper.body);
        assert.match(deeper.body, /stack overflow/);
      }
      assert.equal((await server.post('/query-json/deep/count')).body, `[${STABLE_NODES}]`);

      const upgraded = await server.post('/upgrade/deep', wasm);
      assert.equal(upgraded.status, 200, upgraded.body);
      assert.equal((await server.post('/query-json/deep/count')).body, `[${STABLE_NODES}]`);
      assert.deepEqual(await call('depth', CALL_LEVELS), { status: 200, body: `[${CALL_LEVELS}]` });
    });

    test('ends at the same depth cold and warm', async (t) => {
      const { wasm } = await compileMotoko(SOURCE, { persistence });
      const server = await startServer(t, { args: ['--executors', '1'], manifest: '{ "actors": {} }' });
      for (const actor of ['one', 'two']) assert.equal((await server.post(`/install/${actor}`, wasm)).status, 200);
      const fits = async (actor: string, levels: number): Promise<boolean> =>
        (await server.post(`/call-json/${actor}/depth`, `[${levels}]`)).status === 200;
      // The search makes the first actor's code hot; the second actor's code was compiled just now, from the same
      // module.
      let [most, over] = [CALL_LEVELS, TOO_DEEP];
      while (over - most > 1) {
        const middle = (most + over) >> 1;
        if (await fits('one', middle)) most = middle;
        else over = middle;
      }
      assert.deepEqual([await fits('two', most), await fits('two', over)], [true, false], `${most} levels`);
      for (let k = 0; k < 200; k++) assert.ok(await fits('two', 500));
      assert.deepEqual([await fits('two', most), await fits('two', over)], [true, false], `${most} levels, warm`);
    });
  });
}
