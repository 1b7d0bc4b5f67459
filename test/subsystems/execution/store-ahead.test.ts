/**
 * Changes of code that make much memory new store it ahead of their step, piece by piece: the stored canister is the
 * former one until the step's own operations are stored too, and the new one from then on.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type EngineResult, runSuspendable, TOO_LONG } from '../../../subsystems/execution/engine/engine.ts';
import type { CanisterImage, CodeChange } from '../../../subsystems/execution/index.ts';
import { META, metaKey, memoryId } from '../../../subsystems/storage/keyspace.ts';
import type { StoredPages } from '../../../subsystems/storage/stored-pages.ts';
import { wat } from '../../support/wat.ts';
import { StoredEngine } from './stored-engine.ts';
import { ANONYMOUS, CANISTER_ID, EMPTY_ARGS, load } from './engine-fixture.ts';

const PAGE_BYTES = 4096;
const PIECE_SIZES = { atOncePages: 40, slicePages: 16 };
/** Bytes of a piece in addition to its pages: their numbers, the marks. */
const PIECE_OVERHEAD_BYTES = 8192;
const NOW_MS = 1_800_000_000_000;
/** Pages of the heap, and of stable memory, that hooks fill. */
const HEAP_PAGES = 100;
const STABLE_PAGES = 60;

const moduleOf = (value: number, { heapPages = HEAP_PAGES, stablePages = STABLE_PAGES } = {}): Uint8Array =>
  wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $write (param i64 i64 i64)))
  (memory (export "memory") 20 300)
  (func $fill
    (memory.fill (i32.const 4096) (i32.const ${value}) (i32.const ${heapPages * PAGE_BYTES}))
    (drop (call $grow (i64.const 30)))
    (call $write (i64.const 8192) (i64.const 4096) (i64.const ${stablePages * PAGE_BYTES})))
  (func (export "canister_init") (call $fill))
  (func (export "canister_post_upgrade") (call $fill))
  (func (export "canister_query quick") (call $reply)))`);
const SMALL = load(moduleOf(3, { heapPages: 4, stablePages: 2 }));
const FIRST = load(moduleOf(7));
const SECOND = load(moduleOf(9));

const who = { argument: EMPTY_ARGS, caller: ANONYMOUS };
const INSTALL: CodeChange = { mode: 'install', ...who };
const REINSTALL: CodeChange = { mode: 'reinstall', ...who };
const REPLACE: CodeChange = { mode: 'upgrade', keepsHeap: false, skipsPreUpgrade: false, ...who };
const KEEP: CodeChange = { mode: 'upgrade', keepsHeap: true, skipsPreUpgrade: false, ...who };

/** A canister, and its stored state. */
class Stored extends StoredEngine {
  constructor(snapshotBelowBytes: number, canStore = true) {
    super({ snapshotBelowBytes, canStore, pieceSizes: PIECE_SIZES });
  }

  async change({ code }: typeof FIRST, change: CodeChange): Promise<EngineResult> {
    const result = await runSuspendable(this.engine.changing(this.canister, code, change, NOW_MS));
    this.apply(result.changes);
    return result;
  }

  async restore({ code }: typeof FIRST, image: CanisterImage): Promise<string | undefined> {
    const problem = await runSuspendable(this.engine.restoring(this.canister, code, image));
    this.apply(this.engine.takeChanges());
    return problem;
  }

  get #copy(): number {
    return this.tables.get('meta', metaKey(META.copy, CANISTER_ID))?.[0] ?? 0;
  }

  /** The pages of the current copy, by number. */
  get counting(): string {
    return describe(this.#memory(this.#copy));
  }

  get other(): string {
    return describe(this.#memory(1 - this.#copy));
  }

  get isMarked(): boolean {
    return this.tables.get('meta', metaKey(META.ahead, CANISTER_ID)) !== undefined;
  }

  #memory(copy: number): readonly StoredPages[] {
    const { heap, stable } = this.tables.memoryOf(memoryId(CANISTER_ID, copy));
    return [heap, stable];
  }
}

const NOTHING = '[[],[]]';

/** Returns the numbers of pages with their first byte, leaving out those of zeros. */
function describe(memory: readonly StoredPages[]): string {
  const pagesOf = ({ numbers, chunks }: StoredPages): string[] => {
    const bytes = Buffer.concat(chunks);
    return [...numbers].flatMap((number, at) => {
      const page = bytes.subarray(at * PAGE_BYTES, (at + 1) * PAGE_BYTES);
      return page.every((byte) => byte === 0) ? [] : [`${number}:${page[0]}`];
    });
  };
  return JSON.stringify(memory.map(pagesOf));
}

/** Returns such a text for pages that all begin with `value`. */
function filled(value: number, heapPages = HEAP_PAGES, stablePages = STABLE_PAGES): string {
  const from = (first: number, count: number): string[] =>
    Array.from({ length: count }, (_, n) => `${first + n}:${value}`);
  return JSON.stringify([from(1, heapPages), from(2, stablePages)]);
}

const WAYS = [
  ['by what changed', 2 ** 40],
  ['by a log', 0],
] as const;

for (const [way, snapshotBelowBytes] of WAYS) {
  test(`new memory is stored ahead in pieces and counts with its step, in a canister that is kept ${way}`, async () => {
    const stored = new Stored(snapshotBelowBytes);
    const steps: readonly (readonly [string, typeof FIRST, CodeChange, string])[] = [
      ['an installation', FIRST, INSTALL, filled(7)],
      ['a reinstallation', SECOND, REINSTALL, filled(9)],
      ['an upgrade that replaces the heap', FIRST, REPLACE, filled(7)],
      ['a reinstallation of little', SMALL, REINSTALL, filled(3, 4, 2)],
      ['an upgrade that replaces little by much', SECOND, REPLACE, filled(9)],
    ];
    for (const [what, module, change, expected] of steps) {
      const before = stored.counting;
      stored.onPiece = () => {
        assert.equal(stored.counting, before, `${what}: the stored canister is what it was`);
        assert.ok(stored.isMarked, `${what}: the state says that the other copy is being written`);
        return true;
      };
      const { step, changes } = await stored.change(module, change);
      assert.equal(step.fault, undefined, what);
      assert.equal(stored.counting, expected, what);
      assert.equal(stored.other, NOTHING, `${what}: nothing is left of the memory before`);
      assert.ok(!stored.isMarked, what);
      const isMuch = module !== SMALL;
      const pieces = stored.pieces.splice(0);
      assert.ok(isMuch ? pieces.length >= 4 : pieces.length === 0, `${what}: ${pieces.length} pieces`);
      const unitBytes = (changes ?? []).reduce((bytes, { length }) => bytes + length, 0);
      for (const bytes of [...pieces, unitBytes])
        assert.ok(
          bytes <= 2 * PIECE_SIZES.slicePages * PAGE_BYTES + PIECE_OVERHEAD_BYTES,
          `${what}: ${bytes} bytes at once`,
        );
    }
  });

  test(`a state that is loaded is stored ahead, in a canister that is kept ${way}`, async () => {
    const first = new Stored(snapshotBelowBytes);
    await first.change(FIRST, INSTALL);
    const image = { ...first.engine.capture(first.canister), module: undefined };
    const stored = new Stored(snapshotBelowBytes);
    await stored.change(SMALL, INSTALL);
    stored.onPiece = () => {
      assert.equal(stored.counting, filled(3, 4, 2));
      return true;
    };
    assert.equal(await stored.restore(FIRST, image), undefined);
    assert.equal(stored.counting, filled(7));
    assert.equal(stored.other, NOTHING);
    assert.ok(stored.pieces.length >= 4, `${stored.pieces.length} pieces`);
  });
}

test('what hooks have changed of memory that is kept is stored ahead, where there is a log', async () => {
  const stored = new Stored(0);
  await stored.change(FIRST, INSTALL);
  stored.pieces.length = 0;
  stored.onPiece = () => {
    assert.equal(stored.counting, filled(7));
    return true;
  };
  const { step } = await stored.change(SECOND, KEEP);
  assert.equal(step.fault, undefined);
  assert.equal(stored.counting, filled(9));
  assert.ok(stored.pieces.length >= 4, `${stored.pieces.length} pieces`);
});

test('a message that is recalled between two pieces leaves everything as it was, and the next one what it makes', async () => {
  for (const change of [REINSTALL, REPLACE]) {
    const stored = new Stored(2 ** 40);
    await stored.change(FIRST, INSTALL);
    const { version, balance } = { version: stored.canister.version, balance: stored.canister.account.balance };
    const image = stored.engine.capture(stored.canister);
    stored.pieces.length = 0;
    stored.onPiece = () => stored.pieces.length < 3;
    assert.equal(await stored.change(SECOND, change), TOO_LONG);
    assert.equal(stored.counting, filled(7));
    assert.deepEqual(stored.engine.capture(stored.canister), image);
    assert.deepEqual([stored.canister.version, stored.canister.account.balance], [version, balance]);
    assert.ok(stored.isMarked, 'a start would delete what is left');
    assert.equal(stored.engine.takeChanges(), undefined, 'nothing is told with the next message of another canister');

    stored.onPiece = () => true;
    assert.equal((await stored.change(SMALL, REINSTALL)).step.fault, undefined);
    assert.equal(stored.counting, filled(3, 4, 2));
    assert.equal(stored.other, NOTHING, 'what was left is deleted by who writes next');
    assert.ok(!stored.isMarked);
  }
});

test('where messages cannot be suspended, one that has much to store begins again where they can', async () => {
  const stored = new Stored(2 ** 40, false);
  assert.equal(await stored.change(FIRST, INSTALL), TOO_LONG);
  assert.equal(stored.canister.installed, undefined);
  assert.equal((await stored.change(SMALL, INSTALL)).step.fault, undefined);
  assert.equal(await stored.change(FIRST, REPLACE), TOO_LONG);
  assert.equal(stored.counting, filled(3, 4, 2));
});

test('a large stable memory is not copied for a heap that is small beside it', async () => {
  const stored = new Stored(2 ** 40);
  const large = load(moduleOf(5, { heapPages: 300, stablePages: 300 }));
  await stored.change(large, INSTALL);
  stored.pieces.length = 0;
  const middling = load(moduleOf(6, { heapPages: 60, stablePages: 1 }));
  assert.equal((await stored.change(middling, REPLACE)).step.fault, undefined);
  assert.equal(stored.pieces.length, 0, 'at once and in place');
  assert.ok(stored.counting.includes('"60:6"'));
  assert.equal((await stored.change(large, REPLACE)).step.fault, undefined);
  assert.ok(stored.pieces.length > 15, 'a heap that is too large for that goes ahead all the same');
});
