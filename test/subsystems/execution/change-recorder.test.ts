/**
 * Changes that an engine tells, stored and read back, restore the canister: from the changes of its messages, and from
 * a log with checkpoints that are written piece by piece while messages go on.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import type { Engine } from '../../../subsystems/execution/engine/engine.ts';
import { PAGE_BYTES } from '../../../subsystems/bytes/index.ts';
import { inOneGo } from '../../../subsystems/execution/memory/pieces.ts';
import { changedPagesMax, PIECE_SIZES } from '../../../subsystems/execution/persistence/piece-sizes.ts';
import { WASM_PAGE_BYTES } from '../../../subsystems/ic/index.ts';
import type { CanisterImage } from '../../../subsystems/execution/index.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { type KnownLog, StateStore } from '../../../subsystems/storage/state-store.ts';
import { StepLog } from '../../../subsystems/storage/step-log.ts';
import { bytesOf } from '../../../subsystems/storage/unit.ts';
import { FaultyDisk } from '../../support/faulty-disk.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import {
  ANONYMOUS,
  assemble,
  CANISTER_ID,
  contextOf,
  POLICY,
  TestCanister,
  type Width,
  WIDTHS,
} from './engine-fixture.ts';

/**
 * Hooks of an upgrade write to pages that were in use, and to a new one; with an argument of a single byte the upgrade
 * fails. `write`: the argument's first 8 bytes are an address; the rest goes there and, at address modulo 2^20, to
 * stable memory.
 */
const WRITER = `(module
  (import "ic0" "msg_arg_data_size" (func $size (result PTR)))
  (import "ic0" "msg_arg_data_copy" (func $copy (param PTR PTR PTR)))
  (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $stable (param i64 i64 i64)))
  (import "ic0" "certified_data_set" (func $certify (param PTR PTR)))
  (import "ic0" "msg_reply" (func $reply))
  (memory (export "memory") %index 150)
  (global $count (mut i64) (i64.const 0))
  (func (export "canister_init") (drop (call $grow (i64.const 17))))
  (export "canister_update write" (func $write))
  (func $write
    (local $at i64) (local $length i64)
    (call $copy (PTR.const 0) (PTR.const 0) (PTR.const 8))
    (local.set $at (i64.load (PTR.const 0)))
    (local.set $length (i64.sub (LONG (call $size)) (i64.const 8)))
    (call $copy (SHORT (local.get $at)) (PTR.const 8) (SHORT (local.get $length)))
    (call $stable (i64.and (local.get $at) (i64.const 0xfffff)) (local.get $at) (local.get $length))
    (call $certify (PTR.const 0) (PTR.const 8))
    (global.set $count (i64.add (global.get $count) (i64.const 1)))
    (if (i64.eqz (i64.and (local.get $at) (i64.const 15))) (then unreachable))
    (call $reply))
  (func (export "canister_pre_upgrade")
    (i64.store (PTR.const 9000000) (global.get $count))
    (drop (memory.grow (PTR.const 1)))
    (i64.store (PTR.const 9830396) (i64.const -1))
    (i64.store (PTR.const 69630) (i64.const -2)))
  (func (export "canister_post_upgrade")
    (i64.store (PTR.const 9895920) (i64.const -3))
    (i64.store (PTR.const 123456) (i64.const -4))
    (call $stable (i64.const 5000) (i64.const 123456) (i64.const 8))
    (global.set $count (i64.const 77))
    (if (i64.eq (LONG (call $size)) (i64.const 1)) (then unreachable)))
  (func (export "canister_update grow")
    (drop (memory.grow (PTR.const 2)))
    (call $write))
  ;; So many bytes of stable memory.
  (func (export "canister_update pour") (local $at i64) (local $end i64)
    (call $copy (PTR.const 0) (PTR.const 0) (PTR.const 8))
    (local.set $end (i64.load (PTR.const 0)))
    (drop (call $grow (i64.div_u (local.get $end) (i64.const 65536))))
    (loop $more
      (call $stable (local.get $at) (i64.const 65536) (i64.const 65536))
      (local.set $at (i64.add (local.get $at) (i64.const 65536)))
      (br_if $more (i64.lt_u (local.get $at) (local.get $end))))
    (call $reply))
  (func (export "canister_update fill")
    (memory.fill (PTR.const 65536) (i32.const 7) (PTR.const 9437184))
    (call $reply)))`;

function writerOf(width: Width): Uint8Array {
  const isWide = width === 64;
  return assemble(
    width,
    WRITER.replaceAll(/\((LONG|SHORT) /g, (_, what) => {
      if (isWide) return '(block (result i64) ';
      return what === 'LONG' ? '(i64.extend_i32_u ' : '(i32.wrap_i64 ';
    }),
  );
}

/** A canister whose changes go to a store. */
class Kept {
  readonly canister: TestCanister;
  #state: CanisterState;
  readonly #width: Width;
  /** Threshold for the next process. */
  snapshotBelowBytes: number;
  readonly #tables = new MemoryTables();
  readonly #disk = new FaultyDisk();
  store: StateStore;
  messages = 0;

  constructor(width: Width, snapshotBelowBytes: number) {
    this.#width = width;
    this.snapshotBelowBytes = snapshotBelowBytes;
    this.store = this.#open();
    this.canister = this.#fresh();
    this.#state = this.canister.state;
    this.keep(this.canister.installed.changes);
  }

  #open(): StateStore {
    const openLog = (known: KnownLog): StepLog => StepLog.open(this.#disk, { ...known, segmentBytes: 1 << 20 });
    return new StateStore(this.#tables, openLog, { isSynced: true, foldBytes: 1 << 20 });
  }

  #fresh(): TestCanister {
    const spec = { snapshotBelowBytes: this.snapshotBelowBytes };
    return new TestCanister({ bytes: writerOf(this.#width), spec });
  }

  get engine(): Engine {
    return this.canister.engine;
  }

  get state(): CanisterState {
    return this.#state;
  }

  keep(changes: readonly Uint8Array[] | undefined): void {
    if (changes !== undefined) this.store.commit([changes]);
    this.store.settle();
  }

  /** Runs a message; returns the number of stored bytes. */
  run(method: string, argument: Uint8Array): number {
    const task = {
      kind: 'update' as const,
      entry: this.canister.entry(`canister_update ${method}`),
      argument,
      context: contextOf(ANONYMOUS),
      instructionsMax: Number.POSITIVE_INFINITY,
    };
    const { changes } = this.engine.execute(this.state, task, 1_800_000_000_000 + this.messages++);
    this.keep(changes);
    return bytesOf(changes ?? []);
  }

  /** Upgrades the canister; returns the number of stored bytes. */
  upgrade(argument: Uint8Array): number {
    const { step, changes } = this.canister.upgrade({ keepsHeap: true, argument });
    assert.equal(step.fault === undefined, argument.length !== 1);
    this.keep(changes);
    return bytesOf(changes ?? []);
  }

  /** Lets another process take over. */
  restart(): void {
    this.#state = this.recovered().state;
  }

  /** Writes a whole checkpoint; returns the number of pieces before the last. */
  checkpoint(between = (): void => undefined): number {
    let pieces = 0;
    for (; !this.engine.prepareCheckpoint(this.state); pieces++) {
      this.keep(this.engine.takeChanges());
      between();
    }
    this.engine.checkpoint(this.state);
    this.keep(this.engine.takeChanges());
    return pieces;
  }

  /** Returns the canister as another process restores it. */
  recovered(): { readonly engine: Engine; readonly state: CanisterState; readonly records: number } {
    this.store = this.#open();
    const { memory, copy, globals, certifiedData, checkpoint, records } = this.store.reader.canister(CANISTER_ID);
    const { engine, module } = this.canister;
    const { account, settings, timerNs, instantMs, stable, openCalls } = this.state;
    const spec = {
      id: CANISTER_ID,
      balance: account.balance,
      controllers: [ANONYMOUS],
      env: new Map<string, string>(),
      snapshotBelowBytes: this.snapshotBelowBytes,
    };
    const state = engine.createCanister(spec);
    const outcome = engine.wake(state, module.code, {
      settings,
      timerNs,
      instantMs,
      heapBytes: this.state.installed?.instance.heapBytes ?? 0,
      stablePages: stable.pages,
      memory,
      copy,
      globals: globals ?? new Uint8Array(0),
      certifiedData: certifiedData ?? new Uint8Array(0),
      openCalls: openCalls.entries(),
      log: checkpoint === undefined ? undefined : { checkpoint, records },
    });
    assert.equal(typeof outcome, 'number', String(outcome));
    engine.takeChanges();
    return { engine, state, records: Number(outcome) };
  }

  /** Checks that the recovered canister equals the live one. */
  check(): number {
    const { engine, state, records } = this.recovered();
    const expected = this.engine.capture(this.state);
    const found = engine.capture(state);
    assert.equal(Buffer.compare(found.heap, expected.heap), 0, 'the heaps differ');
    assert.deepEqual(found.globals, expected.globals);
    assert.equal(stableHash(found), stableHash(expected), 'the stable memories differ');
    assert.equal(found.stablePages, expected.stablePages);
    assert.deepEqual(found.certifiedData, expected.certifiedData);
    assert.equal(state.account.balance, this.state.account.balance);
    assert.equal(state.version, this.state.version);
    engine.removeCanister(state);
    return records;
  }
}

/** Zeros and bytes that were never written are the same. */
function stableHash({ stable, stablePages }: Pick<CanisterImage, 'stable' | 'stablePages'>): string {
  const content = Buffer.alloc(stablePages * 65_536);
  for (const { offset, bytes } of stable) content.set(bytes, offset);
  return createHash('sha256').update(content).digest('hex');
}

/** Returns an argument for an odd address, so that the message does not trap. */
function writeTo(at: number, length: number, byte: number): Uint8Array {
  const argument = Buffer.alloc(8 + length, byte);
  argument.writeBigUInt64LE(BigInt(at), 0);
  return argument;
}

function randomWrite(random: Seeded): Uint8Array {
  const length = random.oneIn(20) ? 40_000 : random.below(200) + 1;
  const argument = Buffer.alloc(8 + length, random.below(256));
  argument.writeBigUInt64LE(BigInt(65_536 + random.below(9_300_000)), 0);
  return argument;
}

for (const width of WIDTHS) {
  test(`${width}-bit: what messages change is all there is to store`, () => {
    const random = seeded(width);
    const kept = new Kept(width, Number.POSITIVE_INFINITY);
    for (let round = 0; round < 120; round++) {
      kept.run('write', randomWrite(random));
      if (random.oneIn(10)) {
        const bytes = kept.upgrade(Buffer.alloc(random.below(3)));
        assert.ok(bytes < 2000, `an upgrade that changed a few words stored ${bytes} bytes`);
      }
      if (random.oneIn(30)) assert.equal(kept.check(), 0);
    }
    kept.run('fill', new Uint8Array(0));
    assert.equal(kept.check(), 0);
    assert.equal(kept.state.persistence?.isLogged, false);
  });

  test(`${width}-bit: a log is run again, from the last checkpoint on, also amid the next`, () => {
    for (let seed = 1; seed <= 3; seed++) {
      const random = seeded(seed * 100 + width);
      const kept = new Kept(width, 0);
      let sinceCheckpoint = 0;
      let wasCopied = 0;
      for (let round = 0; round < 70; round++) {
        if (random.oneIn(40)) kept.run('fill', new Uint8Array(0));
        else kept.run('write', randomWrite(random));
        sinceCheckpoint++;
        if (random.oneIn(3)) {
          // A piece of a checkpoint; it is ready when little is left to write.
          const isReady = kept.engine.prepareCheckpoint(kept.state);
          kept.keep(kept.engine.takeChanges());
          if (isReady && random.oneIn(6)) {
            if (kept.state.persistence?.isCopying === true) wasCopied++;
            kept.engine.checkpoint(kept.state);
            kept.keep(kept.engine.takeChanges());
            sinceCheckpoint = 0;
          }
        }
        if (random.oneIn(15)) {
          const isFaulty = random.oneIn(2);
          kept.upgrade(Buffer.alloc(isFaulty ? 1 : 2));
          // The cost of the failed hooks is a record.
          sinceCheckpoint = isFaulty ? sinceCheckpoint + 1 : 0;
        }
        if (random.oneIn(25)) assert.equal(kept.check(), sinceCheckpoint);
      }
      assert.equal(kept.check(), sinceCheckpoint);
      // The rest is written at once, whatever was written ahead.
      kept.engine.checkpoint(kept.state);
      kept.keep(kept.engine.takeChanges());
      assert.equal(kept.check(), 0);
      const bytes = kept.upgrade(new Uint8Array(0));
      assert.ok(bytes > 0 && bytes < 100_000, `an upgrade of what is stored already stored ${bytes} bytes`);
      assert.equal(kept.check(), 0);
      if (seed === 3)
        assert.ok(wasCopied > 0 || kept.state.persistence?.copy === 1, 'no checkpoint went to the second copy');
    }
  });

  test(`${width}-bit: a heap that crosses the threshold goes on with a log`, () => {
    const random = seeded(width + 1);
    const kept = new Kept(width, 150 * 65_536);
    for (let round = 0; round < 10; round++) kept.run('write', randomWrite(random));
    assert.equal(kept.state.persistence?.isLogged, false);
    assert.equal(kept.check(), 0);
    kept.run('grow', writeTo(9_900_001, 50_000, 7));
    assert.equal(kept.state.persistence?.isLogged, true);
    assert.equal(kept.check(), 0, 'the last one that is kept by what it changed');
    for (let round = 0; round < 10; round++) kept.run('write', randomWrite(random));
    assert.equal(kept.check(), 10);
  });

  test(`${width}-bit: a message that changes much is stored as what it depended on`, () => {
    const kept = new Kept(width, Number.POSITIVE_INFINITY);
    kept.run('write', writeTo(70_001, 50, 5));
    const bytes = changedPagesMax(PIECE_SIZES) * PAGE_BYTES;
    const less = kept.run('pour', writeTo(bytes - WASM_PAGE_BYTES, 0, 0));
    assert.ok(less > bytes / PAGE_BYTES, `${less} bytes are stored for nearly 4,096 pages`);
    assert.equal(kept.state.persistence?.isLogged, false);
    const stored = kept.run('pour', writeTo(bytes, 0, 0));
    assert.ok(stored < 1000, `${stored} bytes for 16 MiB of stable memory`);
    assert.equal(kept.state.persistence?.isLogged, true);
    kept.run('write', writeTo(70_001, 50, 6));
    assert.equal(kept.check(), 2);
    kept.checkpoint();
    assert.equal(kept.state.persistence?.isLogged, false, 'its heap is small');
    assert.equal(kept.check(), 0);
  });
}

test('a second copy that nobody keeps up to date is given up', () => {
  const kept = new Kept(32, 0);
  kept.run('write', writeTo(70_001, 50, 5));
  kept.snapshotBelowBytes = 150 * 65_536;
  kept.restart();
  kept.run('fill', new Uint8Array(0));
  assert.ok(kept.checkpoint() > 0);
  assert.equal(kept.state.persistence?.isLogged, false);
  // Changes that the other copy will lack.
  for (const at of [9_600_001, 9_700_001]) kept.run('write', writeTo(at, 50, 99));
  assert.equal(kept.check(), 0);
  const { installed } = kept.state;
  assert.ok(installed !== undefined);
  inOneGo(installed.instance.growingTo(151 * 65_536));
  kept.run('write', writeTo(80_001, 50, 3));
  assert.equal(kept.state.persistence?.isLogged, true);
  for (let at = 100_001; (kept.state.persistence?.stale.pages ?? 0) <= 2048; at += 4096)
    kept.run('write', writeTo(at, 8, 4));
  assert.ok(kept.checkpoint() > 0);
  assert.equal(kept.check(), 0);
});

test('a canister that changes pages faster than they are written is checkpointed all the same', () => {
  const kept = new Kept(32, 0);
  kept.run('fill', new Uint8Array(0));
  let filled = 0;
  const pieces = kept.checkpoint(() => {
    filled++;
    kept.run('fill', new Uint8Array(0));
  });
  assert.ok(pieces > 5 && pieces < 40, `${pieces} pieces of 2,304 pages`);
  assert.equal(filled, pieces);
  assert.equal(kept.check(), 0);
});

test('a log that was written with another instruction limit is not run again, and the reason says what to do', () => {
  const kept = new Kept(32, 0);
  kept.run('write', randomWrite(seeded(5)));
  const { checkpoint, records, memory, copy, globals } = kept.store.reader.canister(CANISTER_ID);
  assert.ok(checkpoint !== undefined && records.ends.length === 1);
  const other = new TestCanister({ bytes: writerOf(32), policy: { instructionLimit: POLICY.instructionLimit / 2 } });
  const { settings, stable } = kept.state;
  const spec = { id: CANISTER_ID, balance: 1n, controllers: [], env: new Map<string, string>(), snapshotBelowBytes: 0 };
  const problem = other.engine.wake(other.engine.createCanister(spec), other.module.code, {
    settings,
    timerNs: 0n,
    instantMs: 0,
    heapBytes: kept.canister.instance.heapBytes,
    stablePages: stable.pages,
    memory,
    copy,
    globals: globals ?? new Uint8Array(0),
    certifiedData: new Uint8Array(0),
    openCalls: [],
    log: { checkpoint, records },
  });
  assert.match(String(problem), /--instruction-limit 40000000000: start the server with that once/);
});

test('a damaged record refuses its canister, says where, and the engine goes on', () => {
  const kept = new Kept(64, 0);
  const random = seeded(6);
  for (let round = 0; round < 5; round++) kept.run('write', randomWrite(random));
  const { checkpoint, records, memory, copy, globals } = kept.store.reader.canister(CANISTER_ID);
  assert.ok(checkpoint !== undefined && records.ends.length === 5);
  const { engine, module } = kept.canister;
  const spec = { id: CANISTER_ID, balance: 1n, controllers: [], env: new Map<string, string>(), snapshotBelowBytes: 0 };
  const wake = (log: { readonly checkpoint: Uint8Array; readonly records: typeof records }): string | number => {
    const state = engine.createCanister(spec);
    try {
      return engine.wake(state, module.code, {
        settings: kept.state.settings,
        timerNs: 0n,
        instantMs: 0,
        heapBytes: kept.canister.instance.heapBytes,
        stablePages: kept.state.stable.pages,
        memory,
        copy,
        globals: globals ?? new Uint8Array(0),
        certifiedData: new Uint8Array(0),
        openCalls: [],
        log,
      });
    } finally {
      engine.removeCanister(state);
      assert.equal(engine.takeChanges(), undefined, 'a canister that is not woken has told of changes');
    }
  };
  const [first = 0] = records.ends;
  const bytes = records.bytes.slice();
  bytes[first] = 9;
  assert.throws(() => wake({ checkpoint, records: { ...records, bytes } }), {
    code: 'state-corrupt',
    message: new RegExp(`a record of the actor's log is damaged 1 bytes .* at byte ${first + 1}: it has format 9`),
  });
  assert.throws(() => wake({ checkpoint: checkpoint.subarray(1), records }), {
    code: 'state-corrupt',
    message: /the beginning of the actor's log is damaged/,
  });
  assert.equal(wake({ checkpoint, records }), 5);
  assert.equal(kept.check(), 5);
});
