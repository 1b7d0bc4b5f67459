/** Reused heaps: one canister must not see any data of another, and nothing else may differ, either. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { inOneGo } from '../../../subsystems/execution/memory/pieces.ts';
import {
  createStores,
  Engine,
  type EngineResult,
  type SharedStores,
} from '../../../subsystems/execution/engine/engine.ts';
import {
  HeapPool,
  type HeapPoolLimits,
  heapPoolLimits,
  type SpareHeap,
} from '../../../subsystems/execution/memory/heap-pool.ts';
import { HeapTally, PAGE as MARK } from '../../../subsystems/execution/memory/heap-tally.ts';
import type { CodeChange } from '../../../subsystems/execution/index.ts';
import { FULL_LIMIT } from '../../../subsystems/ic/index.ts';
import { heapsMade, type Instance } from '../../../subsystems/execution/engine/instance.ts';
import type { PackedCanister } from '../../../subsystems/execution/persistence/packed-canister.ts';
import type { InstrumentedCode } from '../../../subsystems/execution/wire/instrumented-code.ts';
import type { StoredPages } from '../../../subsystems/storage/index.ts';
import { PageCollector } from '../../../subsystems/storage/stored-pages.ts';
import { collectEntries, runsOf } from '../../support/page-entries.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import { ANONYMOUS, assemble, contextOf, load, POLICY, STACK_BYTES, type Width, WIDTHS } from './engine-fixture.ts';

const PAGE = 4096;
const WASM_PAGE = 65_536;
const ZEROS = new Uint8Array(PAGE);
const PAGES_MAX = 24;
const FLAGS = { traps: 1, drops: 2, initializes: 4, isLong: 8, writesStable: 16 } as const;

/**
 * Each entry point does the work that its argument describes, five u32: grows the heap, fills a range, stores across
 * the end of its last page without having touched the next, counts in a global; and the flags, of which one grows the
 * stable memory and writes there.
 */
function worker(width: Width, number: number, pagesMax = PAGES_MAX): InstrumentedCode {
  const at = (k: number): string => `(i32.load (PTR.const ${k * 4}))`;
  const address = (k: number): string => (width === 64 ? `(i64.extend_i32_u ${at(k)})` : at(k));
  const has = (flag: number): string => `(i32.and ${at(4)} (i32.const ${flag}))`;
  return load(
    assemble(
      width,
      `(module
        (import "ic0" "msg_arg_data_size" (func $size (result PTR)))
        (import "ic0" "msg_arg_data_copy" (func $copy (param PTR PTR PTR)))
        (import "ic0" "msg_reply" (func $reply))
        (import "ic0" "msg_reply_data_append" (func $append (param PTR PTR)))
        (import "ic0" "call_new" (func $new (param PTR PTR PTR PTR PTR PTR PTR PTR)))
        (import "ic0" "call_perform" (func $perform (result i32)))
        (import "ic0" "stable64_grow" (func $stable_grow (param i64) (result i64)))
        (import "ic0" "stable64_write" (func $stable_write (param i64 i64 i64)))
        (memory %index 3 ${pagesMax})
        (table %index 1 funcref)
        (elem (PTR.const 0) $answered)
        (global $count (mut i64) (i64.const ${number}))
        (data (PTR.const 100) "first ${number}")
        (data (PTR.const 70000) "second ${number}")
        (data $passive "passive ${number}")
        (func $work (local $i i32) (local $end PTR)
          (call $copy (PTR.const 0) (PTR.const 0) (PTR.const 20))
          (drop (memory.grow ${address(0)}))
          (memory.fill ${address(1)} ${at(3)} ${address(2)})
          (if ${at(2)} (then
            (local.set $end (PTR.sub (PTR.add ${address(1)} ${address(2)}) (PTR.const 1)))
            (i64.store (local.get $end) (i64.const -1))
            (i64.store offset=240 (local.get $end) (i64.const -1))))
          (global.set $count (i64.add (global.get $count) (i64.const 1)))
          (if ${has(FLAGS.initializes)} (then (memory.init $passive ${address(1)} (i32.const 0) (i32.const 5))))
          (if ${has(FLAGS.writesStable)} (then
            (if (i64.eq (call $stable_grow (i64.const 1)) (i64.const -1)) (then unreachable))
            (call $stable_write (i64.extend_i32_u (i32.and ${at(1)} (i32.const 65000))) (i64.const 0) (i64.const 20))))
          (if ${has(FLAGS.drops)} (then (data.drop $passive)))
          (if ${has(FLAGS.isLong)} (then (local.set $i (i32.const 3000000)) (loop $l (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))))
          (if ${has(FLAGS.traps)} (then unreachable)))
        (func $hook (if (PTR.eq (call $size) (PTR.const 20)) (then (call $work))))
        (func $answer (call $append (PTR.const 0) (PTR.const 128)) (call $reply))
        (func $answered (param PTR) (call $answer))
        (func (export "canister_init") (call $hook))
        (func (export "canister_post_upgrade") (call $hook))
        (func (export "canister_update work") (call $work) (call $answer))
        (func (export "canister_query look") (call $work) (call $answer))
        (func (export "canister_composite_query wait") (call $work)
          (call $new (PTR.const 0) (PTR.const 10) (PTR.const 100) (PTR.const 4) (PTR.const 0) (PTR.const 0) (PTR.const 0) (PTR.const 0))
          (drop (call $perform))))`,
    ),
  ).code;
}

interface Work {
  readonly grows?: number;
  readonly address?: number;
  readonly length?: number;
  readonly byte?: number;
  readonly flags?: number;
}

function argumentOf({ grows = 0, address = 4096, length = 0, byte = 0, flags = 0 }: Work): Uint8Array {
  return new Uint8Array(Uint32Array.of(grows, address, length, byte, flags).buffer);
}

/** A pool that checks every byte of returned and reused heaps. */
class CheckedPool extends HeapPool {
  checks = 0;

  override give(spare: SpareHeap): void {
    super.give(spare);
    this.#check(spare);
  }

  override take(...args: Parameters<HeapPool['take']>): SpareHeap | undefined {
    const spare = super.take(...args);
    if (spare !== undefined) this.#check(spare);
    return spare;
  }

  #check({ memory, pages }: SpareHeap): void {
    assert.equal(memory.buffer.byteLength, pages * WASM_PAGE);
    assert.equal(Buffer.compare(new Uint8Array(memory.buffer), new Uint8Array(pages * WASM_PAGE)), 0);
    this.checks++;
  }
}

const LIMITS: HeapPoolLimits = { heapsMax: 8, bytesMax: 64 << 20 };

class Host {
  readonly packed: PackedCanister[] = [];
  readonly stores: SharedStores;
  readonly engine: Engine;

  /** `heaps` undefined: heaps are never reused. */
  constructor(heaps?: HeapPool, onYield: () => void = () => undefined) {
    const stores = createStores({ stableBytesMax: 1 << 20, heaps: { heapsMax: 0, bytesMax: 0 } });
    this.stores = { ...stores, heaps: heaps ?? stores.heaps };
    this.engine = new Engine({
      policy: POLICY,
      control: new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 64 << 20, onYield }),
      shared: this.stores,
      reportBug: (message, cause) => {
        throw new Error(`a bug of the host: ${message}`, { cause });
      },
    });
  }

  create(): CanisterState {
    const rest = { controllers: [], env: new Map(), snapshotBelowBytes: 2 ** 30 };
    return this.engine.createCanister({ id: new Uint8Array(10), balance: POLICY.startingCycles, ...rest });
  }

  change(canister: CanisterState, code: InstrumentedCode, mode: ChangeMode, work?: Work): EngineResult {
    const argument = work === undefined ? new Uint8Array(0) : argumentOf(work);
    const rest = { argument, caller: ANONYMOUS };
    const change: CodeChange =
      mode === 'reinstall'
        ? { mode, ...rest }
        : { mode: 'upgrade', keepsHeap: mode === 'keep', skipsPreUpgrade: false, ...rest };
    return this.engine.change(canister, code, change, 1);
  }

  installed(code: InstrumentedCode, work?: Work): CanisterState {
    const canister = this.create();
    assert.equal(this.change(canister, code, 'reinstall', work).step.fault, undefined);
    return canister;
  }

  run(canister: CanisterState, name: EntryName, work: Work): EngineResult {
    const kind = name.startsWith('canister_update') ? 'update' : 'query';
    const entry = instanceOf(canister).entry(name) ?? -1;
    const task = { kind, entry, argument: argumentOf(work), context: CONTEXT, instructionsMax: FULL_LIMIT } as const;
    return this.engine.execute(canister, task, 1);
  }

  answer(canister: CanisterState, { step }: EngineResult): EngineResult {
    const [call] = step.calls;
    assert.ok(call !== undefined && step.frame > 0);
    const response = { kind: 'reply', data: new Uint8Array(0) } as const;
    const { callbacks } = call;
    const rest = { refunded: 0n, frame: step.frame, context: CONTEXT, instructionsMax: FULL_LIMIT };
    return this.engine.execute(canister, { kind: 'callback', callbacks, response, ...rest }, 1);
  }

  /** Gives the state back and takes it up again from storage. */
  sleepAndWake(canister: CanisterState): CanisterState {
    return this.sleep(canister, false)();
  }

  /** Gives the state back; the returned function takes it up again: from storage, or as it was packed. */
  sleep(canister: CanisterState, isPacked: boolean): () => CanisterState {
    const instance = instanceOf(canister);
    const { code } = instance;
    const heap = instance.heap().slice();
    const globals = instance.saveGlobals();
    const { settings, timerNs, instantMs } = canister;
    const stable = stableOf(canister);
    const stablePages = canister.stable.pages;
    const packed = this.engine.putToSleep(canister);
    assert.ok(packed?.memory.heap !== undefined, 'small canisters that are kept by what changed are packed');
    // The keeper of a packed canister does the same.
    this.stores.templates.hold(packed.memory.heap.template);
    this.packed.push(packed);
    const stored = {
      memory: { heap: storedPages(heap), stable: storedPages(stable) },
      copy: 0,
      globals,
      certifiedData: new Uint8Array(0),
      heapBytes: heap.length,
      stablePages,
    };
    return () => {
      const woken = this.create();
      const rest = { settings, timerNs, instantMs, openCalls: [], log: undefined };
      assert.equal(this.engine.wake(woken, code, { ...rest, ...(isPacked ? packed : stored) }), 0);
      assert.equal(Buffer.compare(instanceOf(woken).heap(), heap), 0);
      assert.equal(Buffer.compare(stableOf(woken), stable), 0);
      assert.ok(woken.stable.storedBytes <= woken.stable.bytes, 'nothing lies beyond its end');
      return woken;
    };
  }
}

type ChangeMode = 'reinstall' | 'keep' | 'fresh';
type EntryName = 'canister_update work' | 'canister_query look' | 'canister_composite_query wait';
const CONTEXT = contextOf(ANONYMOUS);

function instanceOf({ installed }: CanisterState): Instance {
  assert.ok(installed !== undefined);
  return installed.instance;
}

/** Returns the content of the stable memory. */
function stableOf({ stable }: CanisterState): Uint8Array {
  const bytes = new Uint8Array(stable.bytes);
  stable.read(0, bytes, 0, bytes.length);
  return bytes;
}

function storedPages(heap: Uint8Array): StoredPages {
  const pageAt = (page: number): Uint8Array => heap.subarray(page * PAGE, (page + 1) * PAGE);
  const numbers = [...Array(heap.length / PAGE).keys()].filter((page) => Buffer.compare(pageAt(page), ZEROS) !== 0);
  const collector = new PageCollector();
  for (const number of numbers) collector.add(number, pageAt(number));
  return collector.take();
}

function assertSame(one: CanisterState, other: CanisterState): void {
  const [a, b] = [instanceOf(one), instanceOf(other)];
  assert.equal(a.heapBytes, b.heapBytes);
  assert.equal(Buffer.compare(a.heap(), b.heap()), 0, 'the heaps differ');
  assert.deepEqual(a.saveGlobals(), b.saveGlobals());
  assert.equal(Buffer.compare(stableOf(one), stableOf(other)), 0, 'the stable memories differ');
  const image = collectEntries();
  inOneGo(a.image(image.sink));
  const stored = storedPages(a.heap());
  const pages = runsOf(image);
  assert.deepEqual(
    pages.map(({ page }) => page),
    [...stored.numbers],
  );
  assert.equal(Buffer.compare(Buffer.concat(pages.map(({ bytes }) => bytes)), Buffer.concat(stored.chunks)), 0);
}

/** Returns the part of a result that a caller sees. */
function seen({ step }: EngineResult): unknown {
  const { fault, answer, instructions, charge, calls } = step;
  return { fault, answer, instructions, charge, calls: calls.length };
}

function anyWork(random: Seeded): Work {
  const flag = (bit: number, often: number): number => (random.oneIn(often) ? bit : 0);
  return {
    grows: random.oneIn(3) ? random.below(4) : 0,
    address: random.oneIn(2) ? PAGE * (1 + random.below(47)) - 100 : 256 + random.below(3 * WASM_PAGE),
    length: random.pick([0, 1, 1, 5000, 40_000]),
    byte: 1 + random.below(255),
    flags: flag(FLAGS.traps, 4) + flag(FLAGS.drops, 6) + flag(FLAGS.initializes, 6) + flag(FLAGS.writesStable, 5),
  };
}

for (const width of WIDTHS) {
  const [first, second] = [worker(width, 1), worker(width, 2)];
  /** Module whose heap is too large for an upgrade from the others to keep it in place. */
  const larger = worker(width, 3, PAGES_MAX + 1);

  describe(`heaps that are used again, ${width}-bit`, () => {
    test('whatever canisters did, the next ones find zeros and behave as on new heaps', () => {
      let reused = 0;
      const packed: PackedCanister[] = [];
      for (let seed = 1; seed <= 12; seed++) {
        const random = seeded(seed);
        const pool = new CheckedPool(LIMITS);
        const hosts = [new Host(pool), new Host()] as const;
        // Pairs that do the same: one where heaps are reused, one where they are new.
        const pairs: Pair[] = [];
        const both = (
          pair: Pair,
          what: (host: Host, canister: CanisterState) => EngineResult,
        ): readonly EngineResult[] => {
          const results = pair.states.map((canister, k) => what(hosts[k] ?? hosts[0], canister));
          assert.deepEqual(results.map(seen)[0], results.map(seen)[1]);
          assertSame(pair.states[0], pair.states[1]);
          return results;
        };
        for (let round = 0; round < 60; round++) {
          const before = heapsMade();
          const pair = pairs[random.below(6)];
          const work = anyWork(random);
          const code = random.pick([first, second, larger]);
          if (pair === undefined) {
            const states = [hosts[0].create(), hosts[1].create()] as const;
            const fits = states.map((canister, k) =>
              seen((hosts[k] ?? hosts[0]).change(canister, code, 'reinstall', work)),
            );
            assert.deepEqual(fits[0], fits[1]);
            if (states[0].installed === undefined) continue;
            assertSame(states[0], states[1]);
            pairs.push({ states, waiting: [] });
            if (heapsMade() === before + 1) reused++;
            continue;
          }
          switch (random.below(9)) {
            case 0:
            case 1:
              both(pair, (host, canister) => host.run(canister, 'canister_update work', work));
              break;
            case 2:
              both(pair, (host, canister) => host.run(canister, 'canister_query look', work));
              break;
            case 3: {
              const results = both(pair, (host, canister) => host.run(canister, 'canister_composite_query wait', work));
              if (results[0]?.step.frame !== 0) pair.waiting.push(results);
              break;
            }
            case 4: {
              const waiting = pair.waiting.shift();
              if (waiting === undefined) break;
              let k = 0;
              both(pair, (host, canister) => host.answer(canister, waiting[k++] ?? assert.fail()));
              break;
            }
            case 5: {
              const mode = random.pick(['reinstall', 'keep', 'fresh'] as const);
              both(pair, (host, canister) => host.change(canister, code, mode, work));
              break;
            }
            case 6:
            case 7: {
              // Others may sleep meanwhile, longer or shorter: kept state of one must not become another's.
              const others = pairs.filter((other) => other !== pair && random.oneIn(3));
              const asleep = random.oneIn(2) ? [pair, ...others] : [...others, pair];
              const wakes = asleep.map((one) =>
                one.states.map((state, k) => (hosts[k] ?? hosts[0]).sleep(state, random.oneIn(2))),
              );
              const turns = [...asleep.entries()];
              for (const [at, one] of random.oneIn(2) ? turns : turns.toReversed()) {
                const [wakeFirst, wakeSecond] = wakes[at] ?? [];
                assert.ok(wakeFirst !== undefined && wakeSecond !== undefined);
                one.states = [wakeFirst(), wakeSecond()];
                one.waiting = [];
                assertSame(one.states[0], one.states[1]);
              }
              if (heapsMade() === before + others.length + 1) reused++;
              break;
            }
            case 8:
              for (const [k, canister] of pair.states.entries()) (hosts[k] ?? hosts[0]).engine.removeCanister(canister);
              pairs.splice(pairs.indexOf(pair), 1);
          }
        }
        assert.ok(pool.checks > 20, `${pool.checks}`);
        for (const host of hosts) packed.push(...host.packed);
      }
      assert.ok(reused > 60, `only ${reused} heaps were used again`);
      const own = packed.filter(({ memory }) => memory.heap?.changes.length === 0).length;
      const shared = packed.filter(({ memory: { heap } }) => {
        const changed = heap?.changes.reduce((sum, { bytes: change }) => sum + change.length, 0) ?? 0;
        return heap !== undefined && changed * 2 > heap.template.bytes.length;
      }).length;
      assert.ok(shared > 40, `only ${shared} differ much from the template of others`);
      const bytes = packed.map((each) => each.bytes);
      assert.ok(own > 40 && packed.length - own > 40, `${own} of ${packed.length} are their own template`);
      assert.ok(
        Math.min(...bytes) < PAGE && Math.max(...bytes) > 2 * PAGE,
        `some differ little, some much: ${Math.min(...bytes)} to ${Math.max(...bytes)}`,
      );
    });

    test('canisters that sleep and wake, or are replaced, make no heaps', () => {
      const host = new Host(new CheckedPool(LIMITS));
      let canister = host.installed(first, { grows: 2, length: 40_000, byte: 7 });
      const before = heapsMade();
      for (let k = 0; k < 20; k++) {
        assert.equal(host.run(canister, 'canister_update work', { length: 9, byte: k }).step.fault, undefined);
        canister = host.sleepAndWake(canister);
      }
      assert.equal(heapsMade(), before);
      host.engine.removeCanister(canister);
      for (let k = 0; k < 20; k++) host.engine.removeCanister(host.installed(second));
      assert.equal(heapsMade(), before + 1, 'what is smaller than the spare heap needs one of its own');
    });

    test('a heap that grew in vain is replaced by a spare one, and is one itself', () => {
      const pool = new CheckedPool(LIMITS);
      const host = new Host(pool);
      const canister = host.installed(first, { length: 40_000, byte: 7 });
      // The heap is filled to its last page: undone bytes were saved when nothing lay behind it.
      const other = host.installed(first, { address: 256, length: 3 * WASM_PAGE - 600, byte: 9 });
      const work = { grows: 3, address: 3 * WASM_PAGE - 300, length: 2 * WASM_PAGE, byte: 5, flags: FLAGS.traps };
      assert.equal(host.run(other, 'canister_update work', work).step.fault?.kind, 'trap');
      assert.equal(pool.count, 1);
      const before = heapsMade();
      for (let k = 0; k < 5; k++) {
        const heap = instanceOf(canister).heap().slice();
        assert.equal(host.run(canister, 'canister_update work', work).step.fault?.kind, 'trap');
        assert.equal(host.run(canister, 'canister_query look', { ...work, flags: 0 }).step.fault, undefined);
        assert.equal(Buffer.compare(instanceOf(canister).heap(), heap), 0);
      }
      assert.equal(heapsMade() - before, 10, 'a grown one does not fit');
      assert.equal(pool.count, LIMITS.heapsMax);
      host.engine.removeCanister(other);
      host.run(canister, 'canister_query look', work);
      assert.equal(heapsMade() - before, 10, 'a small one does');
    });

    test('an instance whose segments were dropped is not used again, the heap is', () => {
      const pool = new CheckedPool(LIMITS);
      const host = new Host(pool);
      const canister = host.installed(first);
      const work = { grows: 3, flags: FLAGS.drops + FLAGS.traps };
      assert.equal(host.run(canister, 'canister_update work', work).step.fault?.kind, 'trap');
      const grown = pool.take({ pointerWidth: width, pages: 6, pagesMax: PAGES_MAX }, first);
      assert.ok(grown !== undefined && grown.bound === undefined);
    });

    test('a memory with two instances is not used again', () => {
      const pool = new CheckedPool(LIMITS);
      const host = new Host(pool);
      const kept = host.installed(first);
      assert.equal(host.change(kept, second, 'keep').step.fault, undefined);
      host.engine.removeCanister(kept);
      assert.equal(pool.count, 0);

      const failed = host.installed(first);
      assert.equal(host.change(failed, second, 'keep', { flags: FLAGS.traps }).step.fault?.kind, 'trap');
      assert.equal(host.run(failed, 'canister_query look', {}).step.fault, undefined);
      host.engine.removeCanister(failed);
      assert.equal(pool.count, 0);
    });

    test('a message that waits below others keeps its heap, whoever lets go of its canister', () => {
      const pool = new CheckedPool(LIMITS);
      const host = new Host(pool, () => above());
      const nested = new Host(pool);
      const canister = host.installed(first);
      let yields = 0;
      const above = (): void => {
        if (yields++ > 0) return;
        // Nested canisters come and go on spare heaps, also one that has run below before.
        const other = nested.installed(first, { length: 5000, byte: 3 });
        nested.engine.removeCanister(other);
        assert.equal(pool.count, 1);
        const again = nested.installed(first);
        assert.equal(pool.count, 0);
        nested.engine.removeCanister(again);
        // This must not happen, and must do no harm if it does.
        instanceOf(canister).release();
        assert.equal(pool.count, 1);
      };
      assert.throws(() => host.run(canister, 'canister_update work', { length: 5000, byte: 8, flags: FLAGS.isLong }));
      assert.ok(yields > 0);
      assert.equal(pool.count, 1);
      assert.notEqual(pool.take({ pointerWidth: width, pages: 3, pagesMax: PAGES_MAX }, first), undefined);
    });

    test('a canister that moved between levels leaves a heap that another may have', () => {
      const pool = new CheckedPool(LIMITS);
      const [host, nested] = [new Host(pool), new Host(pool)];
      const canister = host.installed(first);
      const reference = new Host().installed(first);
      assert.equal(nested.run(canister, 'canister_update work', { length: 5000, byte: 3 }).step.fault, undefined);
      nested.engine.removeCanister(canister);
      assert.equal(pool.count, 1);
      const before = heapsMade();
      const next = host.installed(first);
      assertSame(next, reference);
      assert.equal(heapsMade(), before);
      const work = { length: 5000, byte: 4, flags: FLAGS.initializes };
      const [here, there] = [host, new Host()].map((on, k) =>
        seen(on.run(k === 0 ? next : reference, 'canister_update work', work)),
      );
      assert.deepEqual(here, there);
      assertSame(next, reference);
    });

    test('an instance that was released answers nothing', () => {
      const pool = new CheckedPool(LIMITS);
      const host = new Host(pool);
      const canister = host.installed(first);
      const instance = instanceOf(canister);
      host.engine.removeCanister(canister);
      host.installed(first, { length: 5000, byte: 3 });
      const uses = [
        () => instance.heap(),
        () => instance.saveGlobals(),
        () => instance.begin(1000),
        () => instance.touch(0, 1),
        () => inOneGo(instance.growingTo(1 << 20)),
      ];
      for (const use of uses) assert.throws(use, TypeError);
      instance.release();
      assert.equal(pool.count, 0);
    });
  });
}

interface Pair {
  states: readonly [CanisterState, CanisterState];
  waiting: (readonly EngineResult[])[];
}

describe('the pool of heaps', () => {
  const code = worker(32, 1);

  function spareOf(pages: number, pagesMax = 512): SpareHeap {
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pagesMax });
    return { pointerWidth: 32, pages, pagesMax, memory, tally: new HeapTally(pages * WASM_PAGE), bound: undefined };
  }
  const take = (pool: HeapPool, pages: number, pagesMax = 512, pointerWidth: Width = 32): SpareHeap | undefined =>
    pool.take({ pointerWidth, pages, pagesMax }, code);

  test('serves a heap of the size, else grows a smaller one, and none of another kind', () => {
    const pool = new HeapPool(LIMITS);
    const [small, large] = [spareOf(1), spareOf(4)];
    for (const spare of [small, large]) pool.give(spare);
    assert.equal(take(pool, 4, 511), undefined);
    assert.equal(take(pool, 4, 512, 64), undefined);
    assert.equal(take(pool, 3)?.memory, small.memory);
    assert.equal(small.memory.buffer.byteLength, 3 * WASM_PAGE);
    assert.equal(take(pool, 3), undefined, 'a heap never gets smaller');
    assert.equal(take(pool, 4)?.memory, large.memory);
    assert.equal(pool.bytes, 0);
  });

  test('zeroes the pages that were used, and no others', () => {
    const pool = new HeapPool(LIMITS);
    const spare = spareOf(1);
    const heap = new Uint8Array(spare.memory.buffer).fill(1);
    const { tally } = spare;
    for (const page of [0, 3, 4, 15]) tally.use(page, page + 1);
    const used = tally.marks?.slice() ?? [];
    pool.give(spare);
    for (let page = 0; page < 16; page++) assert.equal(heap[page * PAGE], used[page] === MARK.USED ? 0 : 1);
    // They are counted as the machine's loss nevertheless.
    assert.deepEqual(
      tally.marks,
      used.map((mark) => (mark === MARK.USED ? MARK.ZEROS : MARK.UNTOUCHED)),
    );
  });

  test('is bounded in number and bytes; the oldest go first', () => {
    const pool = new HeapPool({ heapsMax: 3, bytesMax: 20 * WASM_PAGE });
    const spares = [1, 2, 3, 4].map((pages) => spareOf(pages));
    for (const spare of spares) pool.give(spare);
    assert.deepEqual([pool.count, pool.bytes], [3, 9 * WASM_PAGE]);
    assert.equal(take(pool, 1), undefined);
    pool.give(spareOf(16));
    assert.deepEqual([pool.count, pool.bytes], [2, 20 * WASM_PAGE]);
    pool.give(spareOf(21));
    assert.equal(pool.count, 2);
    for (const threads of [1, 2, 8, 64]) {
      const { heapsMax } = heapPoolLimits(threads);
      assert.ok(heapsMax >= 8 && heapsMax <= 64 && heapsMax * threads <= 512);
    }
  });

  test('forgets a module, not the heaps', () => {
    const pool = new HeapPool(LIMITS);
    const host = new Host(pool);
    for (const canister of [host.installed(code), host.installed(code)]) host.engine.removeCanister(canister);
    const shape = { pointerWidth: 32, pages: 3, pagesMax: PAGES_MAX } as const;
    assert.equal(pool.take(shape, code)?.bound?.code, code);
    pool.forget(code);
    assert.equal(pool.count, 1);
    assert.equal(pool.take(shape, code)?.bound, undefined);
  });
});
