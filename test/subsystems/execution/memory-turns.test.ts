/**
 * Messages that touch much memory let others run, without any difference in their effects. Each case is a few messages
 * of one canister: an operation, an amount of memory on either side of a threshold, the place and kind of the end, and
 * the canister's way of storage are drawn. They run as in an executor: short first, then as a long message that is
 * suspended at every yield, while a bystander of the thread executes messages. The plain module in V8, with a naive
 * counter in its text, has the same memory and the same count; an engine that never yields tells storage the same
 * bytes, and its faults have the same words.
 *
 * The same messages have the same effects where neighbours have nearly all memory, and give way only when they are
 * asked.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import {
  createStores,
  Engine,
  type EngineResult,
  runSuspendable,
  TOO_LONG,
} from '../../../subsystems/execution/engine/engine.ts';
import { TooLong } from '../../../subsystems/execution/engine/fault.ts';
import { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { ControlMemory, type ControlMemoryOptions } from '../../../subsystems/execution/memory/control-memory.ts';
import { MemoryBudget } from '../../../subsystems/execution/memory/memory-budget.ts';
import { StableMemory } from '../../../subsystems/execution/memory/stable-memory.ts';
import type { Task } from '../../../subsystems/ic/index.ts';
import { startPlainCanister } from '../../support/bare-canister.ts';
import {
  HOG_ENDS,
  HOG_OPERATIONS,
  HOG_SEGMENT_BYTES,
  hogArgument,
  type HogEnd,
  type HogOperation,
  type HogWidth,
  memoryHog,
} from '../../support/memory-hogs.ts';
import { naiveMetered } from '../../support/naive-metering.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded } from '../../support/seeded.ts';
import { ANONYMOUS, CANISTER_ID, contextOf, EMPTY_ARGS, load, POLICY, STACK_BYTES } from './engine-fixture.ts';

const SEEDS = new ProofSeeds(6, 1 / 20);
const MESSAGES = 2;
const PAGE_BYTES = 4096;
const WASM_PAGE_BYTES = 65_536;
const MIB = 2 ** 20;
const NOW_MS = 1_800_000_000_000;
const LIMIT = 200_000_000;
/**
 * Points at which the code branches: pages until it yields, a piece, pages undone at once, pages of a short message.
 */
const THRESHOLDS: readonly [number, ...number[]] = [64 * PAGE_BYTES, MIB, 2 * MIB, 4 * MIB];
/** Small heaps, granules that are kept at once, and the largest changes of a message whose bytes are stored. */
const LONG_THRESHOLDS: readonly [number, ...number[]] = [...THRESHOLDS, 16 * MIB, 64 * MIB];
const STABLE_BYTES = (SEEDS.isLong ? 67 : 7) * MIB;
/** Maximum of pages touched or untouched between two yields: by wasm, by a system call's piece, by undoing. */
const PAGES_AT_ONCE = 512;
const GRANULE_INSTRUCTIONS = 1000;
const WIDTHS = [32, 64] as const;
const HOGS = new Map(WIDTHS.map((width) => [width, hogOf(width)]));

function hogOf(width: HogWidth): { readonly module: ReturnType<typeof load>; readonly naive: Uint8Array } {
  const bytes = memoryHog(width);
  return { module: load(bytes), naive: naiveMetered(bytes) };
}

/** Counts of the messages, of their ends, and of those that were suspended. */
type Seen = Record<HogEnd | 'messages' | 'suspended', number>;
const NONE_SEEN: Seen = { messages: 0, suspended: 0, update: 0, trap: 0, spin: 0, query: 0 };

interface Drawn {
  readonly operation: HogOperation;
  readonly end: HogEnd;
  readonly argument: Uint8Array;
  readonly size: number;
}

/** Idle canisters with all memory but a few pages, which they give back a moment after they have been asked. */
class Neighbours {
  static readonly #PAGES = 2 ** 18;
  readonly budget = new MemoryBudget(MemoryBudget.table(Neighbours.#PAGES * PAGE_BYTES, 1), 0);
  #held = 0;
  questions = 0;

  constructor() {
    this.budget.attend(async (bytes) => {
      this.questions++;
      await sleep(1);
      this.#give(Math.ceil(bytes / PAGE_BYTES));
    });
  }

  #give(pages: number): void {
    const given = Math.min(pages, this.#held);
    this.#held -= given;
    this.budget.free(given);
  }

  /** Leaves so many pages. */
  crowd(pagesLeft: number): void {
    const pages = this.budget.pagesLeft - pagesLeft;
    if (pages < 0) this.#give(-pages);
    else {
      assert.ok(this.budget.take(pages));
      this.#held += pages;
    }
  }
}

/** An executor's engines, without the executor. */
class Thread {
  readonly #neighbours: Neighbours | undefined;
  readonly home: Engine;
  readonly inOneGo = this.#engine({}, createStores({ stableBytesMax: 1 << 30 }));
  readonly #long: Engine;
  readonly #bystander: CanisterState;
  #running: CanisterState | undefined;
  #touched = 0;
  yields = 0;
  /** Pages that neighbours leave to the next message. */
  pagesLeft = 0;
  /** Number of yields after which a deletion is requested, which ends an executing message. */
  endsAfter = Infinity;
  /** Maximum of pages touched or untouched between two yields. */
  mostPages = 0;

  constructor(neighbours?: Neighbours) {
    const around = neighbours && { budget: neighbours.budget };
    const shared = createStores({ stableBytesMax: 1 << 30, ...around });
    const onYield = (): never => {
      throw new TooLong();
    };
    this.#neighbours = neighbours;
    this.home = this.#engine({ onYield, ...around }, shared);
    const yielding = { canSuspend: true, onYield: (isWaiting?: boolean) => this.#yielded(isWaiting === true) };
    this.#long = this.#engine({ ...yielding, ...around }, shared);
    this.#bystander = this.install(this.home, 32, undefined);
  }

  #engine(options: Partial<ControlMemoryOptions>, shared: ReturnType<typeof createStores>): Engine {
    return new Engine({
      policy: { ...POLICY, instructionLimit: LIMIT },
      control: new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 1 << 30, ...options }),
      shared,
      reportBug: (message, cause) => {
        throw new Error(`a bug of the host: ${message}`, { cause });
      },
    });
  }

  install(engine: Engine, width: HogWidth, snapshotBelowBytes: number | undefined): CanisterState {
    const spec = { id: CANISTER_ID, balance: POLICY.startingCycles, controllers: [], env: new Map<string, string>() };
    const canister = engine.createCanister(snapshotBelowBytes === undefined ? spec : { ...spec, snapshotBelowBytes });
    const change = { mode: 'install', argument: EMPTY_ARGS, caller: ANONYMOUS } as const;
    const { code } = moduleOf(width);
    assert.equal(engine.change(canister, code, change, NOW_MS).step.fault, undefined);
    return canister;
  }

  async run(canister: CanisterState, task: Task): Promise<EngineResult> {
    this.yields = 0;
    this.mostPages = 0;
    this.#neighbours?.crowd(this.pagesLeft);
    const result = this.home.execute(canister, task, NOW_MS);
    if (result !== TOO_LONG) return result;
    this.#running = canister;
    this.#touched = 0;
    const long = await runSuspendable(this.#long.executing(canister, task, NOW_MS, true));
    // Keeping pages takes almost no time.
    if (long.step.fault !== undefined || task.kind === 'query') this.#look();
    this.home.adopt(canister);
    return long;
  }

  #look(): void {
    const touched = this.#running?.installed?.instance.touchedPages ?? 0;
    this.mostPages = Math.max(this.mostPages, Math.abs(touched - this.#touched));
    this.#touched = touched;
  }

  async #yielded(isWaiting: boolean): Promise<void> {
    this.#look();
    if (this.yields >= this.endsAfter) throw new TooLong();
    if (isWaiting) await sleep(1);
    if (this.yields++ % 16 !== 0 || this.#neighbours !== undefined) return;
    await Promise.resolve();
    const task = taskOf(32, 'fill', 'update', hogArgument(4096, 0, 8192));
    assert.equal(this.home.execute(this.#bystander, task, NOW_MS).step.fault, undefined);
  }

  remove(canister: CanisterState): void {
    this.home.removeCanister(canister);
  }
}

function moduleOf(width: HogWidth): ReturnType<typeof load> {
  const hog = HOGS.get(width);
  assert.ok(hog !== undefined);
  return hog.module;
}

function taskOf(width: HogWidth, operation: HogOperation | 'prepare', end: HogEnd | '', argument: Uint8Array): Task {
  const kind = end === 'query' ? 'query' : 'update';
  const name = end === '' ? operation : `${operation}_${end}`;
  const entry = moduleOf(width).info.entries.get(`canister_${kind} ${name}`);
  assert.ok(entry !== undefined, name);
  return { kind, entry, argument, context: contextOf(ANONYMOUS), instructionsMax: LIMIT };
}

/** The module in V8, with the changes of its kept messages. */
class Plain {
  readonly #naive: Uint8Array;
  #canister: ReturnType<typeof startPlainCanister>;
  #charged = 0;

  constructor(width: HogWidth) {
    const hog = HOGS.get(width);
    assert.ok(hog !== undefined);
    this.#naive = hog.naive;
    this.#canister = this.#start();
  }

  #start(): ReturnType<typeof startPlainCanister> {
    const canister = startPlainCanister(this.#naive);
    canister.host.charge = (instructions) => (this.#charged += instructions);
    return canister;
  }

  get heap(): Uint8Array {
    return this.#canister.host.heap();
  }

  get stable(): Uint8Array {
    return this.#canister.host.stable;
  }

  /** Runs a message; returns its instructions. */
  run(name: string, argument: Uint8Array, isKept: boolean): number {
    const { heap, stable } = this;
    const before = isKept ? undefined : { heap: heap.slice(), stable: stable.slice() };
    const counter = this.#canister.exports['naive_counter'] as { value: bigint };
    counter.value = 0n;
    this.#charged = 0;
    this.#canister.call(name, argument);
    const instructions = Number(counter.value) + this.#charged;
    if (before !== undefined) this.#goBack(before);
    return instructions;
  }

  #goBack({ heap, stable }: { readonly heap: Uint8Array; readonly stable: Uint8Array }): void {
    this.#canister = this.#start();
    const memory = this.#canister.exports['memory'] as WebAssembly.Memory;
    const pages = (heap.length - memory.buffer.byteLength) / WASM_PAGE_BYTES;
    const is64 = this.#naive === HOGS.get(64)?.naive;
    if (pages > 0) (memory.grow as (delta: number | bigint) => unknown).call(memory, is64 ? BigInt(pages) : pages);
    this.heap.set(heap);
    this.#canister.host.stable = Uint8Array.from(stable);
  }
}

/** Operations and ends from which cases are drawn. */
interface Choice {
  readonly operations: readonly [HogOperation, ...HogOperation[]];
  readonly ends: readonly [HogEnd, ...HogEnd[]];
}
/** Pages that a message has before it waits: for none of its own, for some of them, for a piece with its journal. */
const PAGES_LEFT = [0, 1, 300, 64, 1500, 700, 2];
const ALL: Choice = { operations: HOG_OPERATIONS, ends: HOG_ENDS };

function draw(random: ReturnType<typeof seeded>, thresholds: readonly [number, ...number[]], choice: Choice): Drawn {
  const operation = random.pick(choice.operations);
  const end = random.pick(choice.ends);
  const threshold = random.pick(thresholds);
  const near = threshold + random.pick([-1, 0, 1, -PAGE_BYTES, PAGE_BYTES, random.below(MIB)]);
  const size = operation === 'init' ? Math.min(near, HOG_SEGMENT_BYTES) : near;
  const to = 16 + random.below(3 * PAGE_BYTES);
  // The ranges overlap on either side, or not.
  const from = random.pick([16, to + 1, to + MIB - 3, to + size, to + 2 * MIB]);
  const isStable = operation === 'stableRead' || operation === 'stableWrite';
  const argument = hogArgument(
    to,
    isStable ? random.below(PAGE_BYTES) : from,
    size,
    operation === 'argument' ? size : 12,
  );
  return { operation, end, argument, size };
}

async function checkCase(seed: number, thread: Thread, seen: Seen, choice = ALL): Promise<void> {
  const random = seeded(seed * 31 + 7);
  const width = random.pick(WIDTHS);
  const snapshotBelowBytes = random.pick([undefined, 0, 1 << 30]);
  const thresholds = SEEDS.isLong ? LONG_THRESHOLDS : THRESHOLDS;
  const ours = thread.install(thread.home, width, snapshotBelowBytes);
  const twin = thread.install(thread.inOneGo, width, snapshotBelowBytes);
  const plain = new Plain(width);
  const prepared = hogArgument(0, 0, random.pick([0, 2 * MIB, STABLE_BYTES]));
  const growth = taskOf(width, 'stableGrow', 'update', hogArgument(0, 0, STABLE_BYTES));
  const preparation = taskOf(width, 'prepare', '', prepared);
  for (const task of [growth, preparation]) {
    await thread.run(ours, task);
    thread.inOneGo.execute(twin, task, NOW_MS);
  }
  plain.run('canister_update stableGrow_update', growth.kind === 'update' ? growth.argument : EMPTY_ARGS, true);
  plain.run('canister_update prepare', prepared, true);
  // The first message makes content that differs from place to place.
  const first = { operation: 'init', end: 'update', argument: hogArgument(16, 0, HOG_SEGMENT_BYTES), size: 0 } as const;
  await checkMessage(thread, width, ours, twin, plain, first, `seed ${seed}: the first message`);
  for (let message = 0; message < MESSAGES; message++) {
    const drawn = draw(random, thresholds, choice);
    const what =
      `seed ${seed}, ${width} bits, stored ${snapshotBelowBytes}, message ${message}: ` +
      `${drawn.operation}_${drawn.end} of ${drawn.size} bytes, ` +
      new Uint32Array(drawn.argument.slice(0, 12).buffer).join(' ');
    await checkMessage(thread, width, ours, twin, plain, drawn, what);
    seen['messages']++;
    if (thread.yields > 0) seen['suspended']++;
    seen[drawn.end]++;
  }
  thread.remove(ours);
  thread.inOneGo.removeCanister(twin);
}

async function checkMessage(
  thread: Thread,
  width: HogWidth,
  ours: CanisterState,
  twin: CanisterState,
  plain: Plain,
  { operation, end, argument, size }: Drawn,
  what: string,
): Promise<void> {
  const task = taskOf(width, operation, end, argument);
  const expected = thread.inOneGo.execute(twin, task, NOW_MS);
  const result = await thread.run(ours, task);
  assert.deepEqual(result.step, expected.step, what);
  assert.deepEqual(
    result.changes?.map((piece) => Buffer.from(piece).toString('base64')),
    expected.changes?.map((piece) => Buffer.from(piece).toString('base64')),
    `${what}: what storage is told`,
  );
  const returns = end === 'update' || end === 'query';
  assert.equal(
    result.step.fault?.kind,
    { update: undefined, query: undefined, trap: 'trap', spin: 'limit' }[end],
    what,
  );
  if (returns) {
    const kind = end === 'query' ? 'query' : 'update';
    const instructions = plain.run(`canister_${kind} ${operation}_${end}`, argument, end === 'update');
    const granules = operation === 'stableWrite' ? granulesOf(argument) : 0;
    assert.equal(result.step.instructions, instructions + granules * GRANULE_INSTRUCTIONS, `${what}: instructions`);
  }
  for (const canister of [ours, twin]) {
    const { installed, stable } = canister;
    assert.ok(installed !== undefined);
    assert.equal(Buffer.compare(installed.instance.heap(), plain.heap), 0, `${what}: the heap`);
    assert.equal(stable.bytes, plain.stable.length, what);
    const content = new Uint8Array(stable.bytes);
    stable.read(0, content, 0, content.length);
    assert.equal(Buffer.compare(content, plain.stable), 0, `${what}: stable memory`);
  }
  const isInPieces = !['grow', 'stableGrow', 'store', 'sweep'].includes(operation);
  if (isInPieces && size > MIB)
    assert.ok(thread.yields >= Math.ceil(size / MIB) - 1, `${what}: ${thread.yields} yields`);
  assert.ok(thread.mostPages <= PAGES_AT_ONCE, `${what}: ${thread.mostPages} pages between two yields`);
}

/** Returns the number of granules of stable memory that a write touches. */
function granulesOf(argument: Uint8Array): number {
  const [to = 0, , size = 0] = new Uint32Array(argument.slice(0, 12).buffer);
  return Math.floor((to + size - 1) / PAGE_BYTES) - Math.floor(to / PAGE_BYTES) + 1;
}

describe('a message that touches much memory', () => {
  it('does and counts what it does in one go, and lets others in', async () => {
    const seen = { ...NONE_SEEN };
    const thread = new Thread();
    for (const seed of SEEDS) await checkCase(seed, thread, seen);
    SEEDS.saw(seen);
    assert.ok(seen.suspended > SEEDS.count / 2, JSON.stringify(seen));
  });

  it('has the same effects where it waits for memory', async () => {
    const seen = { ...NONE_SEEN };
    const neighbours = new Neighbours();
    for (const seed of SEEDS) {
      const thread = new Thread(neighbours);
      thread.pagesLeft = PAGES_LEFT[(seed - 1) % PAGES_LEFT.length] ?? 0;
      await checkCase(seed, thread, seen);
    }
    assert.ok(neighbours.questions > 2 * SEEDS.count, `${neighbours.questions} questions`);
    neighbours.budget.unattend();
  });

  it('has all of its argument, also where the journal grows below the first piece', async () => {
    for (const width of WIDTHS) {
      const thread = new Thread();
      const canister = thread.install(thread.home, width, undefined);
      // Pages that were zeros are not in the journal.
      await thread.run(canister, taskOf(width, 'fill', 'update', hogArgument(16, 0, 4 * MIB)));
      await thread.run(canister, taskOf(width, 'argument', 'update', hogArgument(16, 0, 3 * MIB, 3 * MIB)));
      const heap = canister.installed?.instance.heap() ?? assert.fail();
      assert.ok(
        heap.subarray(1024, 2 * MIB).every((byte) => byte === 5),
        `${width} bits`,
      );
    }
  });

  it('is kept or taken back as a whole when a deletion ends it, wherever it is', async () => {
    const thread = new Thread();
    const argument = hogArgument(16, 0, 6 * MIB);
    const ended = { 'before its end': 0, 'at its end': 0 };
    for (const [snapshotBelowBytes, end] of [
      [1 << 30, 'update'],
      [0, 'query'],
    ] as const) {
      thread.endsAfter = Infinity;
      const canister = thread.install(thread.home, 32, snapshotBelowBytes);
      await thread.run(canister, taskOf(32, 'prepare', '', argument));
      const task = taskOf(32, 'fill', end, argument);
      const before = canister.installed?.instance.heap().slice() ?? assert.fail();
      await thread.run(canister, task);
      const after = canister.installed?.instance.heap().slice() ?? assert.fail();
      const all = thread.yields;
      for (let yields = all - 1; yields >= 0; yields -= Math.ceil(all / 24)) {
        const one = thread.install(thread.home, 32, snapshotBelowBytes);
        await thread.run(one, taskOf(32, 'prepare', '', argument));
        thread.endsAfter = yields;
        const result = await thread.run(one, task);
        thread.endsAfter = Infinity;
        const heap = one.installed?.instance.heap() ?? assert.fail();
        const isUndone = result === TOO_LONG;
        ended[isUndone ? 'before its end' : 'at its end']++;
        assert.equal(
          Buffer.compare(heap, isUndone ? before : after),
          0,
          `${end} ended after ${yields} of ${all} yields`,
        );
        thread.remove(one);
      }
      thread.remove(canister);
    }
    assert.ok(ended['before its end'] > 0 && ended['at its end'] > 0, JSON.stringify(ended));
  });

  /** Planted bugs, each with the messages in which it shows. */
  const PLANTS: Readonly<Record<string, readonly [Choice, plant: () => () => void]>> = {
    'a system call in pieces leaves out its last byte': [
      { operations: ['argument', 'stableWrite'], ends: ['update'] },
      () => patched(ControlMemory.prototype, 'copyInPieces', shortened),
    ],
    'a heap is undone in one go': [
      { operations: ['fill', 'store'], ends: ['trap'] },
      () => patched(Instance.prototype, 'rollbackInPieces', () => undoneAtOnce),
    ],
    'a heap is kept that is to be undone': [
      { operations: ['fill', 'store'], ends: ['query'] },
      () => patched(Instance.prototype, 'rollbackInPieces', () => kept),
    ],
    'stable memory is kept that is to be undone': [
      { operations: ['stableWrite'], ends: ['spin'] },
      () => patched(StableMemory.prototype, 'rollbackInPieces', () => kept),
    ],
    'storage is told of the first pages alone': [
      { operations: ['fill'], ends: ['update'] },
      () => patched(Instance.prototype, 'deltasInPieces', onlyFirst),
    ],
  };
  for (const [bug, [choice, plant]] of Object.entries(PLANTS)) {
    it(`is found out when ${bug}`, async () => {
      const remove = plant();
      try {
        await assert.rejects(async () => {
          for (let seed = 1; seed <= 30; seed++) await checkCase(seed, new Thread(), { ...NONE_SEEN }, choice);
        }, assert.AssertionError);
      } finally {
        remove();
      }
    });
  }
});

function shortened(original: ControlMemory['copyInPieces']): ControlMemory['copyInPieces'] {
  return function (this: ControlMemory, size, copy, hasRoom) {
    original.call(this, size - 1, copy, hasRoom);
  };
}

type InPieces = ReturnType<Instance['rollbackInPieces']>;

function undoneAtOnce(this: Instance): InPieces {
  this.rollback();
  return nothing();
}

function kept(this: { readonly commit: () => void }): InPieces {
  this.commit();
  return nothing();
}

function onlyFirst(original: Instance['deltasInPieces']): Instance['deltasInPieces'] {
  return function (this: Instance, sink) {
    original.call(this, sink).next();
    return nothing();
  };
}

function* nothing(): InPieces {}

/** Puts another method in place; returns a function that restores the original. */
function patched<T extends object, K extends keyof T>(target: T, name: K, make: (original: T[K]) => T[K]): () => void {
  const original = target[name];
  target[name] = make(original);
  return () => {
    target[name] = original;
  };
}
