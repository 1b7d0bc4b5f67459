/** Motoko programs that await, keep timers and get upgraded, in both persistence modes. */
import assert from 'node:assert/strict';
import { before as beforeAll, describe, test } from 'node:test';
import type { Response } from '../../../subsystems/ic/index.ts';
import type { LoadedModule } from '../../../subsystems/execution/pool/module-loader.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { CallDriver } from './call-driver.ts';
import { EMPTY_ARGS, faultOf, load, replyOf, TestCanister } from './engine-fixture.ts';

const TELLER = `
import Error "mo:core/Error";
import Timer "mo:core/Timer";
import Cycles "mo:core/Cycles";
import Debug "mo:core/Debug";

persistent actor Teller {
  var n : Nat = 0;
  var log : Text = "";
  transient let vault : actor { deposit : shared () -> async Nat; refuse : shared () -> async (); look : shared query () -> async Nat } =
    actor ("VAULT");
  transient let nobody : actor { hello : shared () -> async () } = actor ("aaaaa-aa");

  public func add() : async Nat { n += 1; n };
  public func twice() : async Nat { let a = await add(); let b = await add(); a * 100 + b };
  public func trapAfterAwait() : async () { n += 10; ignore await add(); n += 1000; assert false };
  public func cleanUp() : async () {
    try { n += 10; ignore await add(); n += 1000; assert false } finally { log #= "finally;" }
  };
  public func caught() : async Text {
    try { await vault.refuse(); "no" } catch (e) { Error.message(e) # (switch (Error.code(e)) { case (#canister_reject) ":reject"; case (_) ":other" }) }
  };
  public func trapElsewhere() : async Text { try { await trapAfterAwait(); "no" } catch (e) { Error.message(e) } };
  public func pay() : async Nat { let kept = await (with cycles = 5_000) vault.deposit(); kept * 10_000 + Cycles.refunded() };
  public func both() : async Nat { let a = vault.look(); let b = add(); (await a) * 100 + (await b) };
  public composite query func compose() : async Nat { n += 1; let a = await vault.look(); n += 1; let b = await vault.look(); n * 10_000 + a * 100 + b };
  public func history() : async Text { log };
  public query func get() : async Nat { n };
  public func arm() : async () { ignore Timer.setTimer<system>(#seconds 2, func () : async () { n += 500; log #= "tick;" }) };
  system func heartbeat() : async () { n += 7 };
};`;

const VAULT = `
import Cycles "mo:core/Cycles";
import Error "mo:core/Error";
persistent actor Vault {
  var calls : Nat = 0;
  public func deposit() : async Nat { calls += 1; Cycles.accept<system>(2_000) };
  public func refuse() : async () { throw Error.reject("not today") };
  public query func look() : async Nat { calls += 40; calls };
};`;

/** Three programs: the second can read the first's state, the third cannot. */
const GENERATIONS = [
  `persistent actor { var n : Nat = 1; var words = ["a"]; public func inc() : async Nat { n += 1; n }; public query func get() : async Nat { n * 10 + words.size() } }`,
  `persistent actor { var n : Nat = 100; var words = ["a"]; var more : Nat = 3; public query func get() : async Nat { n * 10 + words.size() + more } }`,
  `persistent actor { var n : Nat = 100; var words = ["a"]; system func postupgrade() { n += 1; assert n == 0 }; public query func get() : async Nat { n } }`,
  `persistent actor { var n : Text = ""; public query func get() : async Text { n } }`,
] as const;

const VAULT_ID = new Uint8Array([0x80, 0, 0, 0, 0, 0x10, 0, 7, 1, 1]);

function nat(response: Response): bigint {
  assert.ok(response.kind === 'reply', JSON.stringify(response));
  assert.deepEqual([...response.data.subarray(0, 7)], [0x44, 0x49, 0x44, 0x4c, 0, 1, 0x7d]);
  return response.data.subarray(7).reduceRight((value, byte) => (value << 7n) | BigInt(byte & 0x7f), 0n);
}
function text(response: Response): string {
  assert.ok(response.kind === 'reply', JSON.stringify(response));
  return Buffer.from(response.data.subarray(8)).toString();
}

for (const persistence of ['enhanced', 'classical'] as const) {
  describe(`Motoko that awaits, ${persistence} persistence`, () => {
    let teller: Uint8Array = new Uint8Array(0);
    let vault: Uint8Array = new Uint8Array(0);
    let generations: readonly LoadedModule[] = [];
    beforeAll(async () => {
      const { Principal } = await import('@dfinity/principal');
      const id = Principal.fromUint8Array(VAULT_ID).toText();
      teller = (await compileMotoko(TELLER.replace('VAULT', id), { persistence })).wasm;
      vault = (await compileMotoko(VAULT, { persistence })).wasm;
      const compiled: LoadedModule[] = [];
      for (const source of GENERATIONS) compiled.push(load((await compileMotoko(source, { persistence })).wasm));
      generations = compiled;
    });
    const create = (): { driver: CallDriver; c: TestCanister; v: TestCanister; call: (method: string) => Response } => {
      const driver = new CallDriver();
      const c = driver.add(new TestCanister({ bytes: teller }));
      const v = driver.add(new TestCanister({ bytes: vault, spec: { id: VAULT_ID } }));
      // Runs the timers that Motoko arms at its start.
      driver.run();
      return { driver, c, v, call: (method) => driver.call(c, method, EMPTY_ARGS) };
    };
    const get = (c: TestCanister): bigint => nat({ kind: 'reply', data: replyOf(c.query('get')) });

    test('self-calls run one after the other, and the answer comes from a callback', () => {
      const { c, call } = create();
      assert.equal(nat(call('twice')), 102n);
      assert.equal(get(c), 2n);
      assert.equal(c.state.openCalls.total, 0);
    });

    test('a trap after an await rolls back to the await, and the caller hears of it', () => {
      const { c, call } = create();
      const response = call('trapAfterAwait');
      assert.ok(response.kind === 'reject' && response.code === 5 && /assertion failed/.test(response.message));
      assert.equal(get(c), 11n);
      assert.match(text(call('trapElsewhere')), /assertion failed/);
      assert.equal(get(c), 22n);
    });

    test('finally runs as the cleanup of a callback that trapped', () => {
      const { c, call } = create();
      assert.equal(call('cleanUp').kind, 'reject');
      assert.equal(get(c), 11n);
      assert.equal(text(call('history')), 'finally;');
      assert.equal(
        c.upgrade({ keepsHeap: persistence === 'enhanced' }).step.fault,
        undefined,
        'no continuation is left behind',
      );
    });

    test('errors are caught with code and text; calls to nobody are rejected', () => {
      const { call } = create();
      assert.equal(text(call('caught')), 'not today:reject');
    });

    test('cycles: what is not accepted comes back, and none is lost', () => {
      const { driver, c, v, call } = create();
      const before = c.state.account.balance + v.state.account.balance;
      const first = driver.steps.length;
      assert.equal(nat(call('pay')), 20_003_000n);
      const charges = driver.steps.slice(first).reduce((sum, { charge }) => sum + charge, 0);
      assert.equal(c.state.account.balance + v.state.account.balance, before - BigInt(charges));
    });

    test('two calls at once, one of them to a query method, which leaves no trace', () => {
      const { v, call } = create();
      assert.equal(nat(call('both')), 4001n);
      assert.equal(nat(call('both')), 4002n);
      const before = v.fingerprint();
      assert.equal(nat(call('both')), 4003n);
      assert.equal(v.fingerprint(), before);
    });

    test('a composite query keeps its own state across awaits, and none of it stays', () => {
      const { c, v, call } = create();
      assert.equal(nat(call('add')), 1n);
      const before = c.fingerprint();
      let result = c.query('compose');
      for (let rounds = 0; result.step.frame !== 0; rounds++) {
        assert.ok(rounds < 2);
        const [outgoing] = result.step.calls;
        assert.ok(outgoing !== undefined);
        const answer = v.query(outgoing.method, outgoing.payload).step.answer;
        assert.ok(answer !== undefined);
        result = c.respond(outgoing, answer, { frame: result.step.frame });
      }
      assert.equal(nat({ kind: 'reply', data: replyOf(result) }), 34_040n);
      assert.equal(c.fingerprint(), before);
      assert.equal(c.engine.frameBytesStored, 0);
      assert.equal(nat(call('add')), 2n);
    });

    test('a heartbeat sends itself a message, in which the code runs', () => {
      const { driver, c } = create();
      const beat = driver.system(c, 'canister_heartbeat');
      assert.equal(beat.step.calls[0]?.method, '__motoko_async_helper');
      assert.equal(get(c), 7n);
    });

    test('a timer arms the global timer, which fires through the hook', () => {
      const { driver, c, call } = create();
      call('arm');
      const armed = driver.steps.findLast(({ timerNs }) => timerNs !== undefined)?.timerNs ?? 0n;
      assert.equal(armed, (BigInt(c.nowMs) + 2000n) * 1_000_000n);
      assert.equal(c.state.timerNs, armed);
      c.nowMs += 3000;
      driver.system(c, 'canister_global_timer');
      assert.equal(get(c), 500n);
      assert.equal(text(call('history')), 'tick;');
    });

    test('an upgrade keeps what is stable; new variables start as written', () => {
      const [first, second] = generations;
      assert.ok(first !== undefined && second !== undefined);
      const c = new TestCanister({ bytes: vault });
      assert.equal(c.install(EMPTY_ARGS, first).step.fault, undefined);
      for (let k = 0; k < 4; k++) replyOf(c.update('inc'));
      assert.equal(get(c), 51n);
      assert.equal(c.upgrade({ keepsHeap: persistence === 'enhanced', module: second }).step.fault, undefined);
      assert.equal(get(c), 54n);
      assert.equal(
        c.upgrade({ keepsHeap: persistence === 'enhanced' }).step.fault,
        undefined,
        'once more, the same module',
      );
      assert.equal(get(c), 54n);
      if (persistence === 'enhanced') {
        assert.equal(c.upgrade({ keepsHeap: false }).step.fault, undefined);
        assert.equal(get(c), 1004n, 'on a fresh heap there is nothing to keep');
      }
    });

    test('an upgrade whose post_upgrade traps, or whose types do not fit, is as if it had not been', () => {
      const [first, , failing, incompatible] = generations;
      assert.ok(first !== undefined && failing !== undefined && incompatible !== undefined);
      const c = new TestCanister({ bytes: vault });
      assert.equal(c.install(EMPTY_ARGS, first).step.fault, undefined);
      replyOf(c.update('inc'));
      const before = c.fingerprint();
      const keepsHeap = persistence === 'enhanced';
      assert.match(faultOf(c.upgrade({ keepsHeap, module: failing }), 'trap'), /assertion failed/);
      assert.equal(c.fingerprint(), before);
      if (keepsHeap) {
        // The enhanced runtime checks the types by itself; the classical one relies on the check before the upgrade.
        assert.equal(c.upgrade({ keepsHeap, module: incompatible }).outcome.kind, 'trap');
        assert.equal(c.fingerprint(), before);
      }
      assert.deepEqual([nat({ kind: 'reply', data: replyOf(c.update('inc')) }), get(c)], [3n, 31n]);
    });

    test('captured between two messages and put in place elsewhere, it counts on', () => {
      const { c, call } = create();
      nat(call('twice'));
      const image = c.engine.capture(c.state);
      const other = new TestCanister({ bytes: teller });
      assert.equal(other.engine.restore(other.state, c.module.code, image), undefined);
      assert.equal(get(other), 2n);
      assert.equal(nat({ kind: 'reply', data: replyOf(other.update('add')) }), 3n);
      assert.equal(get(c), 2n);
    });
  });
}
