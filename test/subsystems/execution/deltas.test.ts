/**
 * The bytes that a message changed: laid over the heap's former content, they must give its present content to the
 * byte, for every kind of message; and reading them must not disturb commit or rollback.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { inOneGo } from '../../../subsystems/execution/memory/pieces.ts';
import { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { CONTROL_OPTIONS, NO_ARGUMENTS, prepare, startCanister } from '../../support/bare-canister.ts';
import { compileMotoko } from '../../support/motoko.ts';
import {
  applied,
  assertSameBytes,
  bytesOf,
  type CollectedEntries,
  collectEntries,
  runsOf,
} from '../../support/page-entries.ts';
import { randomModule } from '../../support/random-module.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import { wat } from '../../support/wat.ts';

const PAGE = 4096;
const WIDTHS = [32, 64] as const;
const control = new ControlMemory(CONTROL_OPTIONS);

function canister(text: string): Instance {
  return Instance.create(prepare(wat(text)), {}, control);
}

/** Runs a message and checks its deltas; it is not yet committed or rolled back. */
function checkMessage(instance: Instance, name: string, what: string): CollectedEntries {
  const before = instance.heap().slice();
  const globals = instance.saveGlobals();
  instance.begin(1e9);
  const fault = instance.run(instance.entry(`canister_update ${name}`) ?? -1);
  assert.ok(fault === undefined || fault.kind === 'trap', JSON.stringify(fault));
  const entries = collectEntries();
  instance.deltas(entries.sink);
  const after = instance.heap().slice();
  assertSameBytes(applied(before, entries, after.length), after, `${what}, deltas`);
  // A second reading gives the same, and the journal still undoes everything.
  const again = collectEntries();
  instance.deltas(again.sink);
  assert.deepEqual(again.chunks, entries.chunks, what);
  instance.rollback();
  assertSameBytes(instance.heap(), before, `${what}, rolled back`);
  assert.deepEqual(instance.saveGlobals(), globals, what);

  // The message runs once more, to be committed.
  instance.begin(1e9);
  instance.run(instance.entry(`canister_update ${name}`) ?? -1);
  const last = collectEntries();
  instance.deltas(last.sink);
  instance.commit();
  assertSameBytes(instance.heap(), after, `${what}, committed`);
  assertSameBytes(applied(before, last, after.length), after, `${what}, deltas after a rollback`);
  checkImage(instance, what);
  return entries;
}

/** Fails if a run leaves its bytes unchanged. */
function checkAllChange(before: Uint8Array, entries: CollectedEntries): void {
  for (const { page, offset, bytes } of runsOf(entries)) {
    const at = page * PAGE + offset;
    assert.notEqual(Buffer.compare(before.subarray(at, at + bytes.length), bytes), 0, `page ${page}, offset ${offset}`);
  }
}

function checkImage(instance: Instance, what: string): void {
  const image = collectEntries();
  inOneGo(instance.image(image.sink));
  const heap = instance.heap();
  assertSameBytes(applied(new Uint8Array(0), image, heap.length), heap, `${what}, image`);
  for (const { offset, bytes } of runsOf(image)) {
    assert.equal(offset, 0);
    assert.equal(bytes.length, PAGE);
    assert.ok(
      bytes.some((byte) => byte !== 0),
      `${what}: a page of zeros`,
    );
  }
}

/** Makes a module whose methods consist of `statements`, in words that are the same for both widths. */
function moduleOf(width: 32 | 64, pages: number, methods: Readonly<Record<string, string>>): string {
  const p = width === 64 ? 'i64' : 'i32';
  const functions = Object.entries(methods).map(
    ([name, body]) => `(func (export "canister_update ${name}") (local $p ${p}) ${body.replaceAll('ptr.', `${p}.`)})`,
  );
  return `(module (memory ${width === 64 ? 'i64 ' : ''}${pages} 64) (data (${p}.const 5000) "some data") ${functions.join('\n')})`;
}

/** Draws stores, fills, copies and growth at addresses that are often at ends of pages. */
function randomBody(random: Seeded, pages: number): string {
  const smallPages = pages * 16;
  const address = (bytes: number): number => {
    const page = random.below(random.oneIn(2) ? smallPages : 6);
    const within = random.pick([random.below(PAGE), PAGE - random.below(24), random.below(300), PAGE - 260]);
    return Math.max(0, Math.min(page * PAGE + within, smallPages * PAGE - bytes));
  };
  const bulkBytes = (): number => random.below(random.oneIn(3) ? 65_000 * pages : 9000);
  const statement = (): string => {
    switch (random.below(9)) {
      case 0: {
        const length = bulkBytes();
        return `(memory.fill (ptr.const ${address(length)}) (i32.const ${random.below(256)}) (ptr.const ${length}))`;
      }
      case 1: {
        const length = bulkBytes();
        return `(memory.copy (ptr.const ${address(length)}) (ptr.const ${address(length)}) (ptr.const ${length}))`;
      }
      case 2:
        return random.oneIn(4) ? '(drop (memory.grow (ptr.const 1)))' : '';
      case 3: {
        // One check covers stores up to 256 bytes behind it.
        const offsets = Array.from({ length: 4 }, () => random.below(240));
        const stores = offsets.map(
          (offset) => `(v128.store offset=${offset} (local.get $p) (v128.const i64x2 ${random.below(3)} -1))`,
        );
        return `(local.set $p (ptr.const ${address(300)})) (i32.store8 (local.get $p) (i32.const 1)) ${stores.join(' ')}`;
      }
      case 4:
        return `(v128.store (ptr.const ${address(16)}) (v128.const i32x4 1 ${random.below(9)} 0 4))`;
      case 5:
        return `(i32.store8 (ptr.const ${address(1)}) (i32.const ${random.below(2)}))`;
      default:
        return `(i64.store (ptr.const ${address(8)}) (i64.const ${random.below(1 << 30)}))`;
    }
  };
  return Array.from({ length: 1 + random.below(24) }, statement).join(' ');
}

describe('deltas', () => {
  for (const width of WIDTHS) {
    it(`of random stores at the ends of pages are what the message changed, ${width} bits`, () => {
      let chunks = 0;
      for (let seed = 1; seed <= 60; seed++) {
        const random = seeded(seed * 7 + width);
        const pages = 1 + random.below(4);
        const methods = Object.fromEntries([0, 1, 2, 3].map((k) => [`m${k}`, randomBody(random, pages)]));
        const instance = canister(moduleOf(width, pages, methods));
        checkImage(instance, `seed ${seed}`);
        for (const name of Object.keys(methods))
          chunks = Math.max(chunks, checkMessage(instance, name, `seed ${seed} ${name}`).chunks.length);
      }
      assert.ok(chunks > 1, 'no message filled more than one chunk');
    });

    it(`of stores behind a tested address are found on pages that were not touched, or later, or before, ${width} bits`, () => {
      const spill = `(i32.store8 (local.get $p) (i32.const 1)) (i64.store offset=100 (local.get $p) (i64.const 2)) (i64.store offset=240 (local.get $p) (i64.const -1))`;
      const at = (page: number): string => `(local.set $p (ptr.const ${page * PAGE + PAGE - 3}))`;
      const own = (page: number): string => `(i64.store (ptr.const ${page * PAGE + 16}) (i64.const 5))`;
      const instance = canister(
        moduleOf(width, 2, {
          alone: `${at(2)} ${spill}`,
          before: `${own(5)} ${at(4)} ${spill}`,
          after: `${at(6)} ${spill} ${own(7)}`,
          later: `${at(8)} ${spill} ${own(1)} ${own(20)} ${own(9)}`,
          far: `${own(9)} ${own(1)} ${own(20)} ${at(8)} ${spill}`,
          // The last page of all: nothing lies behind it.
          end: '(i64.store (ptr.const 131064) (i64.const 1))',
          // The memory behind it comes into being while the message runs.
          grown:
            '(i64.store (ptr.const 131064) (i64.const 2)) (drop (memory.grow (ptr.const 1))) (i64.store (ptr.const 131068) (i64.const -1))',
          // Every page was written before.
          again: `(memory.fill (ptr.const 0) (i32.const 7) (ptr.const 131072))`,
        }),
      );
      // All of them run on fresh pages first, then on pages that have pre-images.
      for (const name of [
        'alone',
        'before',
        'after',
        'later',
        'far',
        'end',
        'grown',
        'again',
        'alone',
        'before',
        'after',
        'later',
        'far',
      ])
        checkMessage(instance, name, `${name}, ${width}`);
      assert.equal(control.touchedPages().length, 0);
    });

    it(`of much memory come in chunks and without repetitions, upwards and downwards, ${width} bits`, () => {
      const fill = (from: number, step: number, value: number): string => `(local.set $p (ptr.const ${from}))
        (loop (i64.store (local.get $p) (i64.const ${value}))
          (br_if 0 (ptr.lt_u (local.tee $p (ptr.add (local.get $p) (ptr.const ${step}))) (ptr.const ${8 * 65_536}))))`;
      const instance = canister(
        moduleOf(width, 8, {
          fresh: `(memory.fill (ptr.const 0) (i32.const 1) (ptr.const ${8 * 65_536}))`,
          up: fill(0, 8, 2),
          down: fill(8 * 65_536 - 8, -8, 3),
          bulk: `(memory.fill (ptr.const 0) (i32.const 9) (ptr.const ${8 * 65_536}))`,
          sparse: fill(0, 24, 4),
          same: fill(0, 24, 4),
        }),
      );
      for (const name of ['fresh', 'up', 'down', 'bulk']) {
        const entries = checkMessage(instance, name, `${name}, ${width}`);
        assert.equal(bytesOf(entries), 128 * (PAGE + 10), name);
        assert.ok(entries.chunks.length > 8 && entries.chunks.length < 11, name);
      }
      // Every third word: the most runs that a page can have.
      const sparse = checkMessage(instance, 'sparse', 'sparse');
      assert.equal(runsOf(sparse).length, Math.ceil(65_536 / 3));
      assert.equal(bytesOf(sparse), 128 * 6 + Math.ceil(65_536 / 3) * 12);
      assert.deepEqual(checkMessage(instance, 'same', 'same').chunks, []);
    });
  }

  it('are those of any random module, also when it trapped', () => {
    const seen = { grown: 0, changed: 0 };
    for (let seed = 1; seed <= 100; seed++) {
      const { text, methods } = randomModule(seed);
      const instance = canister(text);
      for (let message = 0; message < 3; message++) {
        const bytes = instance.heapBytes;
        const entries = checkMessage(instance, methods[message % methods.length] ?? '', `seed ${seed}.${message}`);
        if (instance.heapBytes > bytes) seen.grown++;
        if (entries.chunks.length > 0) seen.changed++;
      }
    }
    assert.ok(seen.grown > 5 && seen.changed > 100, JSON.stringify(seen));
  });

  it('of a message that began in another instance on the same heap are complete', () => {
    const text = (value: number): string =>
      moduleOf(32, 1, {
        go: `(i32.store (i32.const ${value * PAGE + 4094}) (i32.const -${value})) (i32.store (i32.const 6000) (i32.const ${value}))`,
      });
    const first = canister(text(3));
    const before = first.heap().slice();
    first.begin(1e6);
    assert.equal(first.run(0), undefined);
    const second = Instance.onSameHeap(prepare(wat(text(5))), {}, control, first);
    second.resume(1e6);
    assert.equal(second.run(0), undefined);
    const entries = collectEntries();
    second.deltas(entries.sink);
    assert.deepEqual(new Set(runsOf(entries).map(({ page }) => page)), new Set([1, 3, 4, 5, 6]));
    assertSameBytes(applied(before, entries, before.length), second.heap(), 'deltas');
    second.rollback();
    assertSameBytes(second.heap(), before, 'rolled back');
  });

  it('of a message that touches nothing are none, and the sink is not called', () => {
    const instance = canister(moduleOf(32, 1, { none: '(drop (i32.load (i32.const 0)))' }));
    assert.deepEqual(checkMessage(instance, 'none', 'none').chunks, []);
  });

  for (const [persistence, width] of [
    ['enhanced', 64],
    ['classical', 32],
  ] as const) {
    it(`of a Motoko counter are small, ${width} bits`, async (t) => {
      const { wasm } = await compileMotoko(
        'persistent actor { var count = 0; public func inc() : async Nat { count += 1; count } }',
        { persistence },
      );
      const { instance, host, call } = startCanister(prepare(wasm), control);
      assert.equal(instance.code.layout.pointerWidth, width);
      checkImage(instance, 'installed');
      call('canister_init', NO_ARGUMENTS);
      checkImage(instance, 'initialised');
      host.argument = NO_ARGUMENTS;
      for (let k = 0; k < 3; k++) {
        const before = instance.heap().slice();
        const entries = checkMessage(instance, 'inc', `inc ${k}`);
        checkAllChange(before, entries);
        t.diagnostic(`inc: ${runsOf(entries).length} runs, ${bytesOf(entries)} bytes`);
        assert.ok(bytesOf(entries) > 0 && bytesOf(entries) < 400, `${bytesOf(entries)} bytes`);
      }
    });
  }
});
