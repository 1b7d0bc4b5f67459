/** Actors that lay siege: each one does something that could delay others. */
import assert from 'node:assert/strict';
import type { send } from './http-client.ts';
import { compileMotoko } from './motoko.ts';
import { wat } from './wat.ts';

/** Methods: a storm of calls, a loop without end, a heap that grows. */
export const HOSTILE = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "canister_self_size" (func $size (result i32)))
  (import "ic0" "canister_self_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "call_new" (func $new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_perform" (func $perform (result i32)))
  (memory 1) (data (i32.const 100) "storm")
  (table 1 funcref) (elem (i32.const 0) $nothing)
  (func $nothing (param i32))
  ;; A million calls to itself, of which 500 can be open.
  (func (export "canister_update storm") (local $k i32)
    (call $copy (i32.const 0) (i32.const 0) (call $size))
    (local.set $k (i32.const 1000000))
    (loop $l
      (call $new (i32.const 0) (call $size) (i32.const 100) (i32.const 5) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
      (drop (call $perform))
      (br_if $l (local.tee $k (i32.sub (local.get $k) (i32.const 1)))))
    (call $reply))
  (func (export "canister_update spin") (loop $l (i32.store (i32.const 0) (i32.const 1)) (br $l)))
  ;; 16 MiB more each time, all of it written.
  (func (export "canister_update grow") (local $from i32) (local $at i32)
    (local.set $from (memory.grow (i32.const 256)))
    (if (i32.eq (local.get $from) (i32.const -1)) (then unreachable))
    (local.set $at (i32.shl (local.get $from) (i32.const 16)))
    (memory.fill (local.get $at) (i32.const 1) (i32.const 16777216))
    (call $reply)))`);

/** Bytes of the heap of GIANT, and of its stable memory. */
const GIANT_BYTES = 2 ** 30;
const STABLE_BYTES = 2 ** 28;
const PAGE_BYTES = 65_536;

/**
 * Touches its whole heap of 1 GiB in every message except `page`: few instructions, much memory. Methods with the
 * suffix `_and_trap` have all of that undone.
 */
const GIANT = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $write (param i64 i64 i64)))
  (import "ic0" "stable64_read" (func $read (param i64 i64 i64)))
  (memory ${GIANT_BYTES / PAGE_BYTES})
  (global $round (mut i32) (i32.const 0))
  (func (export "canister_init") (drop (call $grow (i64.const ${STABLE_BYTES / PAGE_BYTES}))))
  (func $next (result i32) (global.set $round (i32.add (global.get $round) (i32.const 1))) (global.get $round))
  (func $fill (memory.fill (i32.const 0) (call $next) (i32.const ${GIANT_BYTES})))
  (func $sparse (local $at i32) (local $value i32)
    (local.set $value (call $next))
    (loop $l
      (i32.store (local.get $at) (local.get $value))
      (br_if $l (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 4096))) (i32.const ${GIANT_BYTES})))))
  (func $copy
    (i32.store (i32.const 0) (call $next))
    (memory.copy (i32.const ${GIANT_BYTES / 2}) (i32.const 0) (i32.const ${GIANT_BYTES / 2})))
  (func (export "canister_update fill") (call $fill) (call $reply))
  (func (export "canister_update fill_and_trap") (call $fill) unreachable)
  (func (export "canister_update sparse") (call $sparse) (call $reply))
  (func (export "canister_update sparse_and_trap") (call $sparse) unreachable)
  (func (export "canister_update copy") (call $copy) (call $reply))
  (func (export "canister_update stable")
    (call $write (i64.const 0) (i64.const 0) (i64.const ${STABLE_BYTES}))
    (call $read (i64.const ${GIANT_BYTES / 2}) (i64.const 0) (i64.const ${STABLE_BYTES}))
    (call $reply))
  (func (export "canister_update stable_and_trap")
    (call $write (i64.const 0) (i64.const 0) (i64.const ${STABLE_BYTES}))
    unreachable))`);

/** Updates of GIANT. */
const GIANT_METHODS = ['fill', 'fill_and_trap', 'sparse', 'sparse_and_trap', 'copy', 'stable', 'stable_and_trap'];

/** Makes an actor of a module, takes snapshots of it and loads them. */
const KEEPER = `
persistent actor {
  transient let management = actor "aaaaa-aa" : actor {
    create_canister : { settings : ?{} } -> async { canister_id : Principal };
    install_code : { mode : { #install }; canister_id : Principal; wasm_module : Blob; arg : Blob } -> async ();
    take_canister_snapshot : { canister_id : Principal; replace_snapshot : ?Blob } -> async { id : Blob };
    load_canister_snapshot : { canister_id : Principal; snapshot_id : Blob } -> async ();
  };
  var snapshot : ?Blob = null;
  public func make(wasm_module : Blob) : async Principal {
    let { canister_id } = await management.create_canister({ settings = null });
    await management.install_code({ mode = #install; canister_id; wasm_module; arg = to_candid () });
    canister_id;
  };
  public func take(canister_id : Principal) : async () {
    snapshot := ?(await management.take_canister_snapshot({ canister_id; replace_snapshot = snapshot })).id;
  };
  public func load(canister_id : Principal) : async () {
    let ?snapshot_id = snapshot else return;
    await management.load_canister_snapshot({ canister_id; snapshot_id });
  };
}`;

type Answer = Awaited<ReturnType<typeof send>>;
type Post = (path: string, body: string | Uint8Array) => Promise<Answer>;

/** An actor of 1 GiB that runs all of its updates in turns, and an actor that takes and loads snapshots of it. */
export class Giant {
  /** Rounds that have ended. */
  rounds = 0;
  /** Methods in the order in which they were called, with the moment of each, by `performance.now()`. */
  readonly #begun: { readonly method: string; readonly atMs: number }[] = [];
  readonly #post: Post;
  readonly #principal: string;
  readonly #first = Promise.withResolvers<void>();

  private constructor(post: Post, principal: string) {
    this.#post = post;
    this.#principal = principal;
  }

  static async make(post: Post): Promise<Giant> {
    const { wasm } = await compileMotoko(KEEPER);
    const installed = await post('/install/keeper', wasm);
    assert.equal(installed.status, 200, installed.text);
    const made = await post('/call-json/keeper/make', JSON.stringify([[...GIANT]]));
    assert.equal(made.status, 200, made.text);
    const [principal] = made.json() as [string];
    return new Giant(post, principal);
  }

  /** Resolves when each update and each snapshot has been done once, or when the work has ended. */
  get firstRound(): Promise<void> {
    return this.#first.promise;
  }

  /** Works until `isOver`. All of the first round has to succeed; later, other actors may have taken the memory. */
  async work(isOver: () => boolean): Promise<void> {
    try {
      while (!isOver()) {
        for (const method of GIANT_METHODS) {
          this.#begin(method);
          const answer = await this.#post(`/call/${this.#principal}/${method}`, '');
          if (isOver()) return;
          this.#check(method, answer, method.endsWith('_and_trap') ? 400 : 200);
        }
        for (const method of ['take', 'load']) {
          this.#begin(method);
          const answer = await this.#post(`/call-json/keeper/${method}`, JSON.stringify([this.#principal]));
          if (isOver()) return;
          this.#check(method, answer, 200);
        }
        this.rounds++;
        this.#first.resolve();
      }
    } catch (error) {
      if (!isOver()) throw error;
    } finally {
      this.#first.resolve();
    }
  }

  /** Returns the method that the giant was executing at that moment. */
  methodAt(atMs: number): string {
    return this.#begun.findLast((each) => each.atMs <= atMs)?.method ?? 'nothing';
  }

  /** Text with each method of the first round that has begun, and the seconds that it took. */
  get times(): string {
    const first = this.#begun.slice(0, GIANT_METHODS.length + 2);
    const nowMs = performance.now();
    const secondsOf = (at: number): number =>
      ((this.#begun[at + 1]?.atMs ?? nowMs) - (first[at]?.atMs ?? nowMs)) / 1000;
    return first.map(({ method }, at) => `${method} ${secondsOf(at).toFixed(1)} s`).join(', ');
  }

  #begin(method: string): void {
    this.#begun.push({ method, atMs: performance.now() });
  }

  #check(method: string, { status, text }: Answer, expected: number): void {
    const allowed = this.rounds === 0 ? [expected] : [200, 400, 503];
    assert.ok(allowed.includes(status), `${method} of the giant answered ${status}: ${text}`);
  }
}
