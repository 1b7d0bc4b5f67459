/** Real Motoko, in both persistence modes: the modules for which this host exists. */
import assert from 'node:assert/strict';
import { before as beforeAll, describe, test } from 'node:test';
import { compileMotoko } from '../../support/motoko.ts';
import { EMPTY_ARGS, faultOf, replyOf, TestCanister } from './engine-fixture.ts';

const SOURCE = `
import Prim "mo:⛔";
import Nat "mo:core/Nat";
import Nat64 "mo:core/Nat64";
import Map "mo:core/Map";
import Text "mo:core/Text";
import Time "mo:core/Time";
import Debug "mo:core/Debug";
import Cycles "mo:core/Cycles";
import Region "mo:core/Region";
import VarArray "mo:core/VarArray";

persistent actor Counter {
  var n : Nat = 0;
  let notes = Map.empty<Text, Nat>();
  let region = Region.new();

  public func inc() : async Nat { n += 1; n };
  public func add(k : Nat) : async Nat { n += k; n };
  public query func get() : async Nat { n };
  public query func change() : async Nat { n += 1000; n };
  public func put(key : Text) : async Nat { Map.add(notes, Text.compare, key, n); Map.size(notes) };
  public func boom() : async () { n += 100; assert false };
  public func spin() : async () { while (true) { n += 1 } };
  public func deep(k : Nat) : async Nat { func f(i : Nat) : Nat { if (i == 0) 0 else 1 + f(i - 1) }; f(k) };
  public func allocate(k : Nat) : async Nat { VarArray.repeat<Nat>(7, k).size() };
  public func print(t : Text) : async () { Debug.print(t # "!"); Debug.print("done") };
  public shared ({ caller }) func whoami() : async Principal { caller };
  public query func now() : async Int { Time.now() };
  public func store(x : Nat64) : async Nat64 {
    if (Region.size(region) == 0) { ignore Region.grow(region, 2) };
    let old = Region.loadNat64(region, 65_530);
    Region.storeNat64(region, 65_530, x);
    old
  };
  public func storeAndTrap(x : Nat64) : async () {
    ignore Region.grow(region, 3);
    Region.storeNat64(region, 65_530, x);
    Region.storeNat64(region, 200_000, x);
    assert x == 0
  };
  public func balance() : async Nat { Cycles.balance() };
  public func burn(k : Nat) : async Nat { Cycles.burn<system>(k) };
  public func refuse() : async () { n += 1; throw error("not today") };
  func error(t : Text) : Error { Prim.error(t) };
  system func heartbeat() : async () {};
};
`;

/** Encodes one nat, text or nat64 in Candid. */
function natArgument(value: number): Uint8Array {
  const bytes = [0x44, 0x49, 0x44, 0x4c, 0, 1, 0x7d];
  let rest = value;
  do {
    const low = rest % 128;
    rest = Math.floor(rest / 128);
    bytes.push(rest > 0 ? low | 0x80 : low);
  } while (rest > 0);
  return new Uint8Array(bytes);
}
function textArgument(value: string): Uint8Array {
  const text = new TextEncoder().encode(value);
  return new Uint8Array([0x44, 0x49, 0x44, 0x4c, 0, 1, 0x71, text.length, ...text]);
}
function nat64Argument(value: bigint): Uint8Array {
  const bytes = new Uint8Array([0x44, 0x49, 0x44, 0x4c, 0, 1, 0x78, 0, 0, 0, 0, 0, 0, 0, 0]);
  new DataView(bytes.buffer).setBigUint64(7, value, true);
  return bytes;
}
/** Returns the number in a reply of one nat. */
function nat(reply: Uint8Array): bigint {
  assert.deepEqual([...reply.subarray(0, 7)], [0x44, 0x49, 0x44, 0x4c, 0, 1, 0x7d]);
  return reply.subarray(7).reduceRight((value, byte) => (value << 7n) | BigInt(byte & 0x7f), 0n);
}

for (const persistence of ['enhanced', 'classical'] as const) {
  describe(`Motoko, ${persistence} persistence`, () => {
    let wasm: Uint8Array = new Uint8Array(0);
    beforeAll(async () => {
      wasm = (await compileMotoko(SOURCE, { persistence })).wasm;
    });
    const create = (policy = {}): TestCanister => new TestCanister({ bytes: wasm, policy });

    test('installs, counts, and answers queries that leave no trace', () => {
      const c = create();
      assert.equal(c.installed.outcome.kind, 'reply');
      assert.equal(c.module.info.pointerWidth, persistence === 'enhanced' ? 64 : 32);
      assert.deepEqual(
        [1, 2, 3].map(() => nat(replyOf(c.update('inc')))),
        [1n, 2n, 3n],
      );
      assert.equal(nat(replyOf(c.update('add', natArgument(5)))), 8n);
      const before = c.fingerprint();
      assert.equal(nat(replyOf(c.query('change'))), 1008n);
      assert.equal(nat(replyOf(c.update('change'))), 1008n);
      assert.equal(nat(replyOf(c.query('get'))), 8n);
      assert.equal(c.fingerprint(), before);
      assert.equal(nat(replyOf(c.update('inc'))), 9n, 'Motoko would trap here if a query had left its mark');
    });

    test('a failed assertion is a trap with its place, rolled back byte for byte', () => {
      const c = create();
      replyOf(c.update('inc'));
      const before = c.fingerprint();
      for (let i = 0; i < 3; i++) assert.match(faultOf(c.update('boom'), 'trap'), /assertion failed at .*Main\.mo:\d+/);
      assert.equal(c.fingerprint(), before);
      assert.equal(nat(replyOf(c.update('inc'))), 2n);
    });

    test('an endless loop ends at the limit and the counter stays', () => {
      const c = create({ instructionLimit: 50_000_000 });
      replyOf(c.update('inc'));
      const before = c.fingerprint();
      assert.match(faultOf(c.update('spin'), 'limit'), /exceeded the limit of 50000000 instructions/);
      assert.equal(c.fingerprint(), before);
      assert.equal(nat(replyOf(c.query('get'))), 1n);
    });

    test('deep recursion is a trap, and shallow recursion is none', () => {
      const c = create();
      // The test runs in the main thread, whose stack is a fraction of an executor's.
      assert.equal(nat(replyOf(c.update('deep', natArgument(100)))), 100n);
      const before = c.fingerprint();
      assert.match(faultOf(c.update('deep', natArgument(10_000_000)), 'trap'), /stack/i);
      assert.equal(c.fingerprint(), before);
    });

    test('a message that grows the heap and traps leaves it as it was; one that returns keeps it', () => {
      const c = create({ instructionLimit: 30_000_000 });
      const bytes = c.instance.heapBytes;
      const before = c.fingerprint();
      assert.equal(c.update('allocate', natArgument(5_000_000)).outcome.kind, 'limit');
      assert.equal(c.fingerprint(), before);
      assert.equal(nat(replyOf(c.update('allocate', natArgument(1_000_000)))), 1_000_000n);
      assert.ok(c.instance.heapBytes > bytes);
      assert.equal(nat(replyOf(c.update('inc'))), 1n);
    });

    test('stable memory through a region is kept by updates and undone by traps', () => {
      const c = create();
      assert.equal(replyOf(c.update('store', nat64Argument(77n))).at(-8), 0);
      const before = c.fingerprint();
      assert.match(faultOf(c.update('storeAndTrap', nat64Argument(5n)), 'trap'), /assertion failed/);
      assert.equal(c.fingerprint(), before);
      assert.equal(replyOf(c.update('store', nat64Argument(78n))).at(-8), 77);
    });

    test('prints reach the log in order, those of a trapped message too', () => {
      const c = create();
      assert.deepEqual(c.update('print', textArgument('hello')).debug, ['hello!', 'done']);
      const { debug } = c.update('boom');
      assert.equal(debug.length, 1);
      assert.match(debug[0] ?? '', /assertion failed/);
    });

    test('caller, time and cycles are the message’s', () => {
      const c = create();
      c.caller = new Uint8Array([1, 2, 3, 2]);
      assert.deepEqual(replyOf(c.update('whoami')).subarray(-4), c.caller);
      const { balance } = c.state.account;
      assert.ok(nat(replyOf(c.update('balance'))) < balance);
      const before = c.state.account.balance;
      const burned = c.update('burn', natArgument(12_345));
      assert.equal(nat(replyOf(burned)), 12_345n);
      assert.equal(c.state.account.balance, before - 12_345n - BigInt(burned.outcome.charge));
      c.nowMs = 1_800_000_000_500;
      const int = replyOf(c.query('now'))
        .subarray(7)
        .reduceRight((value, byte) => (value << 7n) | BigInt(byte & 0x7f), 0n);
      assert.equal(int, 1_800_000_000_500_000_000n);
    });

    test('a thrown error rejects and keeps the changes before it', () => {
      const c = create();
      const { outcome } = c.update('refuse');
      assert.ok(
        outcome.kind === 'reject' && outcome.code === 4 && outcome.message === 'not today',
        JSON.stringify(outcome),
      );
      assert.equal(nat(replyOf(c.query('get'))), 1n);
    });

    test('bad Candid is a trap', () => {
      const c = create();
      assert.equal(c.update('add', new Uint8Array([1, 2, 3])).outcome.kind, 'trap');
      assert.equal(c.update('add', EMPTY_ARGS).outcome.kind, 'trap');
      assert.equal(nat(replyOf(c.update('inc'))), 1n);
    });

    test('the same messages count the same instructions in every canister and every run', () => {
      const history = (): readonly number[] => {
        const c = create();
        const keys = ['a', 'b', 'cc', 'a', 'ddd'];
        const outcomes = [
          c.installed,
          ...keys.map((key) => c.update('put', textArgument(key))),
          c.update('inc'),
          c.query('get'),
          c.update('boom'),
        ];
        return outcomes.map(({ outcome }) => outcome.instructions);
      };
      const first = history();
      assert.ok(first.every((count) => count > 500));
      assert.deepEqual(history(), first);
    });
  });
}
