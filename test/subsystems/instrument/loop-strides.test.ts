/**
 * Loops whose stores move by a step: random ones, each run on heaps of both widths and compared with the bytes that
 * really changed. The dirty set covers every changed page, and rollback undoes every byte. `npm run prove` takes
 * thousands of loops.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { instrument } from '../../../subsystems/instrument/index.ts';
import { decodeModule } from '../../../subsystems/wasm/index.ts';
import { CONTROL_OPTIONS, prepare } from '../../support/bare-canister.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { wat, watOf } from '../../support/wat.ts';

const SEEDS = new ProofSeeds(200);
const HEAP_BYTES = 4 * 65_536;
const PAGE_BYTES = 4096;
const EMPTY_PAGE = new Uint8Array(PAGE_BYTES);
const STEPS = [1, 2, 4, 7, 8, 16, 100, 255, 300, 1000, 1024, 1500, 4096, -1, -4, -8, -100, -300, -1024, -5000];

class Random {
  #state: number;
  constructor(seed: number) {
    this.#state = seed * 2_654_435_761 + 1;
  }
  below(bound: number): number {
    this.#state ^= this.#state << 13;
    this.#state ^= this.#state >>> 17;
    this.#state ^= this.#state << 5;
    return (this.#state >>> 0) % bound;
  }
  of<T>(values: readonly T[]): T {
    const value = values[this.below(values.length)];
    if (value === undefined) throw new Error('an empty list');
    return value;
  }
}

/**
 * Makes a function with a loop: $p and $i move, $n counts down, $b and $s stay, $x is arbitrary. Sometimes a store, a
 * step or the path round depends on a condition, which the instrumenter must notice.
 */
function randomLoop(random: Random, type: 'i32' | 'i64'): string {
  const get = (local: string): string => `(local.get $${local})`;
  const constant = (value: number): string => `(${type}.const ${value})`;
  const step = random.of(STEPS);
  const scale = random.below(5);
  const condition = (): string =>
    `(i32.and ${type === 'i64' ? `(i32.wrap_i64 ${get('n')})` : get('n')} (i32.const ${random.of([1, 2, 4, 8])}))`;
  const sometimes = (code: string): string => {
    switch (random.below(8)) {
      case 0:
        return `(if ${condition()} (then ${code}))`;
      case 1:
        return `(block (br_if 0 ${condition()}) ${code})`;
      case 2:
        return `(block (block (br_table 0 1 ${condition()})) ${code})`;
      case 3:
        return `(if ${condition()} (then (nop)) (else ${code}))`;
      default:
        return code;
    }
  };
  const address = (): string => {
    switch (random.below(8)) {
      case 0:
        return `(${type}.add ${get('b')} (${type}.shl ${get('i')} ${constant(scale)}))`;
      case 1:
        return `(${type}.add (${type}.mul ${get('i')} ${constant(random.of([3, 12, -4]))}) ${get('b')})`;
      case 2:
        return `(${type}.sub ${get('b')} ${get('i')})`;
      case 3:
        return get('b');
      case 4:
        return `(${type}.add (global.get $g) ${get('i')})`;
      case 5:
        return `(${type}.add ${get('p')} ${constant(random.of([4, -4, 500, -3000]))})`;
      case 6:
        return random.below(3) === 0 ? `(${type}.add ${get('p')} ${get('i')})` : constant(random.below(HEAP_BYTES));
      default:
        return get('p');
    }
  };
  const store = (): string => {
    const [opcode, value] = random.of([
      [`${type}.store8`, `(${type}.const 165)`],
      [`${type}.store`, `(${type}.const 0x5a5a5a5a)`],
      ['f64.store', '(f64.const 1.5)'],
      ['v128.store', '(v128.const i64x2 -1 -2)'],
    ] as const);
    return sometimes(`(${opcode} offset=${random.of([0, 0, 0, 4, 100, 300, 5000])} ${address()} ${value})`);
  };
  const add = (local: string, by: string): string =>
    random.below(2) === 0
      ? `(local.set $${local} (${type}.add ${get(local)} ${by}))`
      : `(drop (local.tee $${local} (${type}.add ${by} ${get(local)})))`;
  const moves = [
    sometimes(add('p', random.below(3) === 0 ? get('s') : constant(step))),
    sometimes(add('i', constant(random.of([1, 1, 2, 3, -1])))),
  ];
  if (random.below(5) === 0) moves.push(`(local.set $s (${type}.xor ${get('s')} ${constant(4092)}))`);
  if (random.below(8) === 0) moves.push(`(local.set $${random.of(['p', 'i', 'b', 's'])} ${get('x')})`);
  if (random.below(8) === 0) moves.push(`(global.set $g (${type}.add (global.get $g) ${constant(4100)}))`);
  if (random.below(8) === 0) moves.push(`(drop (memory.grow ${constant(1)}))`);
  if (random.below(6) === 0)
    moves.push(`(local.set $n (${type}.sub ${get('n')} ${constant(1)})) (br_if $round ${condition()})`);
  const body = [...Array.from({ length: 1 + random.below(3) }, store), ...moves];
  for (let k = body.length - 1; k > 0; k--) {
    const other = random.below(k + 1);
    [body[k], body[other]] = [body[other] ?? '', body[k] ?? ''];
  }
  const count = `(local.tee $n (${type}.sub ${get('n')} ${constant(1)}))`;
  const isLeft = `(${type}.gt_s ${count} ${constant(0)})`;
  // The loop counts up to a bound, in the right direction or not, near the largest number or past it.
  const counted = random.of(['p', 'p', 'i']);
  const bound = random.of([
    get('x'),
    get('x'),
    get('b'),
    constant(random.below(HEAP_BYTES)),
    constant(random.of([30, 300, 5000, 70_000, -1, -5, 0x7fffffff, 0x7ffffff0, 2 ** 30])),
  ]);
  const sign = random.of(['s', 'u']);
  const goesOn = random.of([
    `(${type}.lt_${sign} ${get(counted)} ${bound})`,
    `(${type}.gt_${sign} ${bound} ${get(counted)})`,
    `(${type}.le_${sign} ${get(counted)} ${bound})`,
    `(i32.eqz (${type}.ge_${sign} ${get(counted)} ${bound}))`,
    `(${type}.ne ${get(counted)} ${bound})`,
  ]);
  switch (random.below(10)) {
    case 8:
    case 4:
      return `(loop $round (if ${goesOn} (then ${body.join('\n')} (br $round))))`;
    case 9:
    case 5:
      return `(block $out (loop $round (br_if $out (i32.eqz ${goesOn})) ${body.join('\n')} (br $round)))`;
    case 6:
      return `(block $out (loop $round ${body.join('\n')} (br_if $round ${goesOn})))`;
    case 7:
      return `(loop $outer (loop $round (if ${goesOn} (then ${body.join('\n')} (br $round)))) (local.set $i ${constant(0)}) (br_if $outer ${isLeft}))`;
    case 0:
      return `(loop $round ${body.join('\n')} (br_if $round ${isLeft}))`;
    case 1:
      return `(loop $round (if ${isLeft} (then ${body.join('\n')} (br $round))))`;
    case 2:
      return `(block $out (loop $round (br_if $out (i32.eqz ${isLeft})) ${body.join('\n')} (br $round)))`;
    default:
      return `(loop $outer (loop $round ${body.join('\n')} (br_if $round (i32.eqz (i32.eqz ${condition()})))) (br_if $outer ${isLeft}))`;
  }
}

let copied = new Uint8Array(0);

/** Returns a copy of the heap that is good until the next copy is made: they share one buffer. */
function copyOf(heap: Uint8Array): Uint8Array {
  if (copied.length < heap.length) copied = new Uint8Array(heap.length);
  const copy = copied.subarray(0, heap.length);
  copy.set(heap);
  return copy;
}

function changedPages(before: Uint8Array, after: Uint8Array): number[] {
  const changed: number[] = [];
  for (let at = 0; at < after.length; at += PAGE_BYTES) {
    const old = at < before.length ? before.subarray(at, at + PAGE_BYTES) : EMPTY_PAGE;
    if (Buffer.compare(old, after.subarray(at, at + PAGE_BYTES)) !== 0) changed.push(at / PAGE_BYTES);
  }
  return changed;
}

/** Returns every way to count `$p` up to `$end`, storing at `$p + $base`; `by` is the step. */
function countedLoops(type: 'i32' | 'i64'): { readonly code: string; readonly by: string }[] {
  const loops: { readonly code: string; readonly by: string }[] = [];
  for (const relation of ['lt_s', 'lt_u', 'le_s', 'le_u', 'ne']) {
    for (const by of [`(${type}.const 4)`, `(${type}.const 1024)`, '(local.get $step)']) {
      const round = `(${type}.store8 (${type}.add (local.get $p) (local.get $base)) (${type}.const 1)) (local.set $p (${type}.add (local.get $p) ${by}))`;
      const goesOn = `(${type}.${relation} (local.get $p) (local.get $end))`;
      for (const code of [
        `(loop $round (if ${goesOn} (then ${round} (br $round))))`,
        `(block $out (loop $round (br_if $out (i32.eqz ${goesOn})) ${round} (br $round)))`,
        `(loop $round ${round} (br_if $round ${goesOn}))`,
        `(drop (loop $round (result f64) ${round} (f64.const 1) (br_if $round ${goesOn})))`,
      ])
        loops.push({ code, by });
    }
  }
  return loops;
}

/** `f` reads `$p`, `$end`, `$step` and `$base` from the beginning of the heap. */
function countedModule(type: 'i32' | 'i64', memory: string, code: string): string {
  return `(module ${memory} (func (export "canister_update f")
    (local $p ${type}) (local $end ${type}) (local $step ${type}) (local $base ${type})
    ${['p', 'end', 'step', 'base'].map((name, k) => `(local.set $${name} (${type}.load (${type}.const ${k * 8})))`).join('\n')}
    ${code}))`;
}

function placeNumbers(canister: Instance, numbers: readonly (number | bigint)[]): void {
  canister.begin(1e6);
  canister.touch(0, 32);
  const view = new DataView(canister.heap().buffer);
  numbers.forEach((value, k) => view.setBigInt64(k * 8, BigInt(value), true));
  canister.commit();
}

describe('stores that move by a step', () => {
  it('are all in the dirty set and undone, whatever the loop', () => {
    const control = new ControlMemory(CONTROL_OPTIONS);
    const seen = { changed: 0, trapped: 0, hoisted: 0, ranges: 0 };
    for (const seed of SEEDS) {
      const random = new Random(seed);
      const type = seed % 2 === 0 ? 'i32' : 'i64';
      const memory = type === 'i64' ? '(memory i64 4 16)' : '(memory 4 16)';
      const code = randomLoop(random, type);
      const bytes = wat(`(module ${memory} (global $g (mut ${type}) (${type}.const 70000))
        (func (export "canister_update f") (local $p ${type}) (local $i ${type}) (local $b ${type}) (local $n ${type}) (local $s ${type}) (local $x ${type})
          ${['p', 'i', 'b', 'n', 's', 'x'].map((name, k) => `(local.set $${name} (${type}.load (${type}.const ${k * 8})))`).join('\n')}
          (global.set $g (${type}.add (local.get $b) (${type}.const 100)))
          ${code}))`);
      const text =
        /\(func \(;2;\)[^]*?(?=\(func \(;3;\))/.exec(watOf(instrument(decodeModule(bytes)).bytes))?.[0] ?? '';
      if (/i32\.const 2097151|i32\.lt_u\n.*if|i32\.gt_u\n.*if/.test(text)) seen.hoisted++;
      if (/i64\.const 4096\n.*i64\.gt_s\n.*i32\.or/.test(text)) seen.ranges++;
      const instance = Instance.create(prepare(bytes), {}, control);
      const near = (): number => 4096 * random.below(66) + random.of([-300, -257, -8, -4, -1, 0, 1, 4, 255, 4000]);
      for (let message = 0; message < 5; message++) {
        instance.begin(1e6);
        instance.touch(0, 48);
        const view = new DataView(instance.heap().buffer);
        const values = [
          near(),
          random.below(40),
          near(),
          1 + random.below(300),
          random.of([1, 3, 64, 4000, 70_000, -1, -8]),
          near(),
        ];
        values.forEach((value, k) => view.setBigInt64(k * 8, BigInt(value), true));
        instance.commit();

        const before = copyOf(instance.heap());
        instance.begin(1e6);
        const fault = instance.run(0);
        if (fault !== undefined) seen.trapped++;
        const dirty = new Set(instance.dirtyPages());
        const changed = changedPages(before, instance.heap());
        for (const page of changed)
          assert.ok(dirty.has(page), `seed ${seed}, message ${message}: page ${page} changed\n${code}`);
        seen.changed += changed.length;
        if (fault === undefined && message % 2 === 0) {
          instance.commit();
          continue;
        }
        instance.rollback();
        assert.equal(Buffer.compare(instance.heap(), before), 0, `seed ${seed}, message ${message}: undone\n${code}`);
      }
    }
    const { count } = SEEDS;
    SEEDS.saw({
      'pages changed': seen.changed,
      'messages trapped': seen.trapped,
      'loops with a hoisted test': seen.hoisted,
      'loops with a range': seen.ranges,
    });
    assert.ok(
      seen.changed > count * 5 && seen.trapped > count / 10 && seen.hoisted > count / 10 && seen.ranges > count / 30,
      JSON.stringify(seen),
    );
  });

  it('of counted loops end where the bound is, the right way or not', () => {
    const control = new ControlMemory(CONTROL_OPTIONS);
    const HEAP_END = 4 * 65_536;
    let changes = 0;
    for (const type of ['i32', 'i64'] as const) {
      const memory = type === 'i64' ? '(memory i64 4 4)' : '(memory 4 4)';
      for (const { code, by } of countedLoops(type)) {
        const bytes = wat(countedModule(type, memory, code));
        const instance = Instance.create(prepare(bytes), {}, control);
        const reference = Instance.create(prepare(bytes, { journal: false }), {}, control);
        const run = (...numbers: readonly (number | bigint)[]): void => {
          const what = `${numbers.join(', ')}\n${code}`;
          reference.heap().fill(0);
          for (const canister of [instance, reference]) placeNumbers(canister, numbers);
          const before = copyOf(instance.heap());
          reference.begin(60_000);
          const expected = reference.run(0);
          const used = reference.instructionsUsed();
          reference.commit();
          instance.begin(60_000);
          assert.deepEqual(instance.run(0), expected, what);
          assert.equal(instance.instructionsUsed(), used, what);
          assert.equal(Buffer.compare(instance.heap(), reference.heap()), 0, what);
          const dirty = new Set(instance.dirtyPages());
          const changed = changedPages(before, instance.heap());
          assert.ok(
            changed.every((page) => dirty.has(page)),
            `${what}: ${changed.join()}, not ${[...dirty].join()}`,
          );
          changes += changed.length;
          instance.rollback();
          assert.equal(Buffer.compare(instance.heap(), before), 0, `undone: ${what}`);
        };
        for (const end of [7168, 8191, 8192, 8193, 12_288])
          for (const start of [4096, 7168, 8188, 8192]) run(start, end, 1024, 0);
        for (const end of [0x7fffffff, 0x7ffffc00, -1, -1024, -(2 ** 31), 2 ** 30, 2 ** 50, HEAP_END])
          for (const start of [HEAP_END - 5120, -8, 2 ** 31 - 1024]) run(start, end, 4096, 0);
        // The index wraps, the address does not.
        for (const index of [2n ** 31n, 2n ** 32n, 2n ** 63n - 8192n, 2n ** 63n, 2n ** 64n])
          for (const end of [0n, index - 1n, index - 1024n, 8192n - index, 8192n])
            run(BigInt.asIntN(64, -8192n - index), BigInt.asIntN(64, end), 1024, BigInt.asIntN(64, 50_176n + index));
        // The index wraps before it is compared for the first time.
        for (const least of [0n, 2n ** 31n, 2n ** 63n])
          for (const start of [least - 4n, least - 1n])
            for (const end of [least + 5n, least + 100_000n])
              run(BigInt.asIntN(64, start), BigInt.asIntN(64, end), 4, BigInt.asIntN(64, 4100n - start));
        if (by !== '(local.get $step)') continue;
        const steps = [0, -1, -4000, 4095, 4097, 65_536, 2 ** 30, 2 ** 30 + 4096, 2 ** 31 + 4096, -(2 ** 31) + 4096];
        for (const step of steps)
          for (const end of [20_001, 20_000 + 5 * step, 100_000, 0x7fffffff, 2 ** 30]) run(20_000, end, step, 0);
      }
    }
    assert.ok(changes > 10_000, `${changes} pages changed`);
  });

  it('of counted loops touch no page that they do not write, even where the index wraps or they are left at once', () => {
    const control = new ControlMemory(CONTROL_OPTIONS);
    const pagesOf = (type: 'i32' | 'i64', code: string): { readonly dirty: number; readonly changed: number } => {
      const memory = type === 'i64' ? '(memory i64 400)' : '(memory 400)';
      const instance = Instance.create(
        prepare(wat(`(module ${memory} (func (export "canister_update f") (local $i ${type}) ${code}))`)),
        {},
        control,
      );
      const before = copyOf(instance.heap());
      instance.begin(1e7);
      assert.equal(instance.run(0), undefined);
      const pages = { dirty: instance.dirtyPages().length, changed: changedPages(before, instance.heap()).length };
      instance.rollback();
      return pages;
    };
    for (const type of ['i32', 'i64'] as const) {
      const body = (base: string): string =>
        `(${type}.store8 (${type}.add (local.get $i) (${type}.const ${base})) (${type}.const 1)) (local.set $i (${type}.add (local.get $i) (${type}.const 8)))`;
      const up = `(local.set $i (${type}.const -8192)) (loop $r ${body('20480')} (br_if $r (${type}.ne (local.get $i) (${type}.const 0))))`;
      assert.deepEqual(pagesOf(type, up), { dirty: 2, changed: 2 });
      const most = type === 'i32' ? '0x7fffffff' : '0x7fffffffffffffff';
      for (const relation of ['lt_s', 'lt_u']) {
        const goesOn = `(${type}.${relation} (local.get $i) (${type}.const ${relation === 'lt_s' ? most : 100}))`;
        const never = `(local.set $i (${type}.const ${most})) (loop $r (if ${goesOn} (then ${body('0')} (br $r))))`;
        assert.ok(pagesOf(type, never).dirty <= 1, never);
      }
    }
  });

  it('of counted loops touch little more than they write, whatever they count up to and however they end', () => {
    const control = new ControlMemory(CONTROL_OPTIONS);
    const seen = { completed: 0, trapped: 0, written: 0 };
    const PAGES = 8192;
    const HEAP = PAGES * 65_536;
    const RANGE_PAGES_MAX = 1024;
    for (const type of ['i32', 'i64'] as const) {
      const memory = type === 'i64' ? `(memory i64 ${PAGES} ${PAGES})` : `(memory ${PAGES} ${PAGES})`;
      for (const { code, by } of countedLoops(type)) {
        const instance = Instance.create(prepare(wat(countedModule(type, memory, code))), {}, control);
        const run = (...numbers: readonly (number | bigint)[]): void => {
          placeNumbers(instance, numbers);
          for (const limit of [200, 5000]) {
            instance.begin(limit);
            const fault = instance.run(0);
            const dirty = instance.dirtyPages();
            const heap = instance.heap();
            const isWritten = (page: number): boolean =>
              Buffer.compare(
                heap.subarray(page * PAGE_BYTES + (page === 0 ? 32 : 0), (page + 1) * PAGE_BYTES),
                page === 0 ? EMPTY_PAGE.subarray(32) : EMPTY_PAGE,
              ) !== 0;
            const more = dirty.filter((page) => !isWritten(page)).length;
            const what = `${numbers.join(', ')}: ${dirty.length} pages, ${more} of them in vain\n${code}`;
            // Code in front of the loop may touch pages for a store that never comes.
            assert.ok(more <= (fault === undefined ? 1 : RANGE_PAGES_MAX), what);
            if (fault === undefined) seen.completed++;
            else seen.trapped++;
            seen.written += dirty.length - more;
            instance.rollback();
          }
        };
        const largest =
          type === 'i32' ? [2n ** 31n, 2n ** 32n] : [2n ** 31n, 2n ** 32n, 2n ** 48n, 2n ** 63n, 2n ** 64n];
        for (const most of largest)
          for (const before of [16n, 4096n])
            for (const end of [most - 1n, most - 3n, most - 1024n])
              // The stores are at the beginning of the heap, near its end, and where the index is the address.
              for (const base of [4096n - (most - before), BigInt(HEAP) - 8192n - (most - before), 0n])
                run(BigInt.asIntN(64, most - before), BigInt.asIntN(64, end), 4, BigInt.asIntN(64, base));
        for (const end of [HEAP, HEAP / 2, 2 ** 31 - 1, -1]) run(4096, end, 4, 0);
        if (by !== '(local.get $step)') continue;
        for (const step of [0, -1, 4097, 65_536, 2 ** 30])
          for (const end of [HEAP, 2 ** 31 - 1, -5]) run(4096, end, step, 0);
      }
    }
    assert.ok(seen.completed > 100 && seen.trapped > 1000 && seen.written > 1000, JSON.stringify(seen));
  });

  it('are tested where they are, though their distance from the base is no exact number', () => {
    const control = new ControlMemory(CONTROL_OPTIONS);
    for (const constant of [2n ** 53n - 1n, 2n ** 53n - 128n, 2n ** 53n - 4096n, 4096n - 2n ** 53n, 1n - 2n ** 53n]) {
      for (const offset of [0, 128, 255, 4096, 2 ** 31]) {
        const bytes = wat(`(module (memory i64 4) (func (export "canister_update f") (local $b i64) (local $n i32)
          (local.set $b (i64.load (i64.const 0)))
          (local.set $n (i32.const 3))
          (loop $round
            (i64.store8 offset=${offset} (i64.add (local.get $b) (i64.const ${constant})) (i64.const 7))
            (br_if $round (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))))`);
        const instance = Instance.create(prepare(bytes), {}, control);
        for (const address of [8191n, 8192n, 8193n]) {
          placeNumbers(instance, [BigInt.asIntN(64, address - BigInt(offset) - constant)]);
          const before = copyOf(instance.heap());
          instance.begin(1e6);
          const fault = instance.run(0);
          const changed = changedPages(before, instance.heap());
          const what = `${address} as ${constant} + ${offset}`;
          assert.deepEqual(changed, fault === undefined ? [Number(address / 4096n)] : [], what);
          assert.ok(
            changed.every((page) => instance.dirtyPages().includes(page)),
            what,
          );
          instance.rollback();
          assert.equal(Buffer.compare(instance.heap(), before), 0, `undone: ${what}`);
        }
      }
    }
  });

  it('go on where a loop is too long for its range to be touched before', () => {
    const control = new ControlMemory(CONTROL_OPTIONS);
    for (const type of ['i32', 'i64'] as const) {
      const memory = type === 'i64' ? '(memory i64 100)' : '(memory 100)';
      for (const { code } of countedLoops(type)) {
        const instance = Instance.create(prepare(wat(countedModule(type, memory, code))), {}, control);
        // More than 1,024 pages, in steps of 1,024 or, with constants of 4, only some of them.
        placeNumbers(instance, [8192, 8192 + 1024 * 6000, 1024, 0]);
        const before = copyOf(instance.heap());
        instance.begin(1e9);
        assert.equal(instance.run(0), undefined, code);
        const changed = changedPages(before, instance.heap());
        assert.ok(changed.length >= 1500, `${changed.length} pages\n${code}`);
        const dirty = new Set(instance.dirtyPages());
        assert.ok(changed.every((page) => dirty.has(page)) && dirty.size <= changed.length + 1, code);
        instance.rollback();
        assert.equal(Buffer.compare(instance.heap(), before), 0, code);
      }
    }
  });

  it('leave a page beyond the memory to the store itself', () => {
    const control = new ControlMemory(CONTROL_OPTIONS);
    for (const [type, memory] of [
      ['i32', '(memory 1)'],
      ['i64', '(memory i64 1)'],
    ] as const) {
      const run = (p: string, n: number): ReturnType<Instance['run']> => {
        const instance = Instance.create(
          prepare(
            wat(`(module ${memory} (func (export "canister_update f") (local $p ${type}) (local $n i32)
              (local.set $p (${type}.const ${p})) (local.set $n (i32.const ${n}))
              (loop $round (if (local.get $n) (then (${type}.store (local.get $p) (${type}.const 1))
                (local.set $p (${type}.add (local.get $p) (${type}.const 4))) (local.set $n (i32.sub (local.get $n) (i32.const 1))) (br $round))))))`),
          ),
          {},
          control,
        );
        instance.begin(1e6);
        const fault = instance.run(0);
        const pages = instance.dirtyPages();
        assert.ok(pages.every((page) => page < 16));
        instance.rollback();
        return fault;
      };
      for (const p of type === 'i32'
        ? ['65536', '-4096']
        : ['65536', '-4096', '0x7fffffffffff0000', '0x200001000', '0x1000']) {
        assert.equal(run(p, 0), undefined, `${type} ${p}`);
        if (p !== '0x1000') assert.equal(run(p, 1)?.kind, 'trap', `${type} ${p}`);
      }
      assert.equal(run('65528', 3)?.kind, 'trap');
    }
  });
});
