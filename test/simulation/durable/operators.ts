/**
 * Operators that install, upgrade, stop, start and delete, and that remember the expected state: an acknowledged change
 * must be there; a change without acknowledgement may be there or not.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { CanisterRecord } from '../../../subsystems/canisters/canister-record.ts';
import { InstallError } from '../../../subsystems/canisters/index.ts';
import { ServerError } from '../../../kernel/index.ts';
import type { Seeded } from '../../support/seeded.ts';
import { CALLER } from './sent.ts';
import { ledgerArgument, type LedgerVariant, ledgerModule } from './ledger-module.ts';
import type { Life } from './life.ts';
import type { Likeness, Plan } from './plan.ts';

/** Possible states of one actor after a crash. */
interface Expected {
  /** Possible answers to whether the actor exists; both if nobody knows. */
  presence: readonly boolean[];
  statuses: readonly string[];
  /** Possible hashes of the module; undefined: no module. */
  hashes: readonly (string | undefined)[];
  /** Possible values of the actor's variable. */
  settings: readonly (string | undefined)[];
  variant: LedgerVariant;
  /** True while a change of the actor is under way. */
  isBusy: boolean;
}

const RUNNING = ['running'];
const STOPPED = ['stopped'];
const STOPPING = ['running', 'stopping', 'stopped'];
const HERE = [true];
const GONE = [false];
const PERHAPS = [true, false];
const VARIABLE = 'SETTING';

/** Changes to draw from, each as often as it is listed. */
const CHANGES = ['stop', 'start', 'start', 'upgrade', 'cycles', 'cycles', 'configure'] as const;
const MAYFLY_CHANGES = [...CHANGES, 'vanish', 'vanish', 'vanish', 'vanish', 'vanish'] as const;

export class Operators {
  /** Cycles that were certainly added, and those that perhaps were. */
  cyclesAdded = 0n;
  cyclesPerhapsAdded = 0n;
  /** True if actors have been deleted, and their cycles with them. */
  hasDeleted = false;
  readonly #seeded: Seeded;
  readonly #likeness: Likeness;
  readonly #expected = new Map<string, Expected>();

  constructor(seeded: Seeded, plan: Plan, actors: readonly string[]) {
    this.#seeded = seeded;
    this.#likeness = plan.likeness;
    for (const [index, name] of actors.entries()) {
      const variant = { ...variantOf(plan, index), ...(plan.asksOutside && { asksOutside: true }) };
      const settings = [undefined];
      this.#expected.set(name, {
        presence: GONE,
        statuses: RUNNING,
        hashes: [undefined],
        settings,
        variant,
        isBusy: false,
      });
    }
  }

  #of(name: string): Expected {
    const expected = this.#expected.get(name);
    assert.ok(expected, name);
    return expected;
  }

  /** Drops all changes under way: their host is gone. */
  lose(): void {
    for (const expected of this.#expected.values()) expected.isBusy = false;
  }

  /** Checks that the state found in a new life agrees with the acknowledged changes. */
  check(life: Life): void {
    for (const [name, expected] of this.#expected) {
      const record = life.named(name);
      assert.ok(
        expected.presence.includes(record !== undefined),
        `${name} is ${record === undefined ? 'gone' : 'there'}`,
      );
      expected.presence = [record !== undefined];
      if (record === undefined) continue;
      const { status, module } = record;
      assert.ok(
        expected.statuses.includes(status),
        `${name} is ${status} instead of ${expected.statuses.join(' or ')}`,
      );
      // No operator waits for the stop any more, and it goes on: the actor may also have stopped just now without
      // anybody having been told.
      const mayGoOn = status !== 'running' && expected.statuses.includes('stopping');
      expected.statuses = mayGoOn ? ['stopping', 'stopped'] : [status];
      assert.ok(
        expected.hashes.includes(module?.hash),
        `${name} has module ${module?.hash} instead of ${expected.hashes.join(' or ')}`,
      );
      expected.hashes = [module?.hash];
      const value = record.environment.get(VARIABLE);
      assert.ok(expected.settings.includes(value), `${name} has ${VARIABLE}=${value}`);
      expected.settings = [value];
    }
  }

  hasStarted(name: string): void {
    this.#of(name).statuses = RUNNING;
  }

  /** Requests a change of one of the actors. */
  act(life: Life, names: readonly string[], canVanish: boolean): void {
    const name = names[this.#seeded.below(names.length)];
    if (name === undefined) return;
    const expected = this.#of(name);
    if (expected.isBusy) return;
    const record = life.named(name);
    if (record === undefined) {
      if (canVanish) this.#begin(life, expected, this.#install(life, name, expected));
      return;
    }
    const change = this.#change(life, record, expected, canVanish);
    if (change !== undefined) this.#begin(life, expected, change);
  }

  #begin(life: Life, expected: Expected, change: Promise<void>): void {
    expected.isBusy = true;
    change
      .catch((error: unknown) => {
        if (life.isOver) return;
        if (!(error instanceof ServerError)) throw error;
      })
      .finally(() => {
        if (!life.isOver) expected.isBusy = false;
      });
  }

  #change(life: Life, record: CanisterRecord, expected: Expected, canVanish: boolean): Promise<void> | undefined {
    const { registry } = life;
    switch (this.#seeded.pick(canVanish ? MAYFLY_CHANGES : CHANGES)) {
      case 'stop':
        return this.#status(life, expected, STOPPING, STOPPED, registry.stop(record));
      case 'start':
        return this.#status(life, expected, STOPPING, RUNNING, registry.start(record));
      case 'upgrade':
        // A stopping actor still has open calls, whose callbacks would not find their data in the new heap.
        if (record.module === undefined || record.status === 'stopping') return undefined;
        return this.#upgrade(life, record, expected);
      case 'cycles':
        return this.#addCycles(life, record);
      case 'configure':
        return this.#configure(life, record, expected);
      case 'vanish':
        return this.#vanish(life, record, expected);
    }
  }

  async install(life: Life, name: string): Promise<void> {
    await this.#install(life, name, this.#of(name));
  }

  async #install(life: Life, name: string, expected: Expected): Promise<void> {
    // Actors that are alike begin with the same module, and get different ones at upgrades.
    const { bytes, hash } = this.#module(expected, this.#likeness === 'different' ? {} : { version: 0 });
    expected.presence = PERHAPS;
    expected.statuses = RUNNING;
    expected.hashes = [hash];
    expected.settings = [undefined];
    await life.registry.install(name, bytes, { argument: undefined, caller: CALLER });
    if (!life.isOver) expected.presence = HERE;
  }

  #module({ variant }: Expected, more: LedgerVariant = {}): { readonly bytes: Uint8Array; readonly hash: string } {
    const bytes = ledgerModule({ ...variant, version: this.#seeded.below(3), ...more });
    return { bytes, hash: createHash('sha256').update(bytes).digest('hex') };
  }

  async #status(
    life: Life,
    expected: Expected,
    meanwhile: readonly string[],
    afterwards: readonly string[],
    asked: Promise<void>,
  ): Promise<void> {
    expected.statuses = meanwhile;
    await asked;
    if (!life.isOver) expected.statuses = afterwards;
  }

  async #upgrade(life: Life, record: CanisterRecord, expected: Expected): Promise<void> {
    const isBroken = this.#seeded.oneIn(4);
    const { bytes, hash } = this.#module(expected, { isBroken });
    const before = expected.hashes;
    if (!isBroken) expected.hashes = [...before, hash];
    try {
      await life.registry.upgrade(record, bytes, { argument: undefined, caller: CALLER });
    } catch (error) {
      if (life.isOver) return;
      if (error instanceof InstallError && isBroken) return;
      if (error instanceof ServerError && error.code === 'stop-failed') {
        expected.hashes = before;
        return;
      }
      throw error;
    }
    if (!life.isOver) expected.hashes = [hash];
  }

  async #addCycles(life: Life, record: CanisterRecord): Promise<void> {
    const amount = BigInt(1 + this.#seeded.below(1_000_000));
    this.cyclesPerhapsAdded += amount;
    await life.registry.addCycles(record, amount);
    if (life.isOver) return;
    this.cyclesPerhapsAdded -= amount;
    this.cyclesAdded += amount;
  }

  async #configure(life: Life, record: CanisterRecord, expected: Expected): Promise<void> {
    const value = String(this.#seeded.below(1000));
    expected.settings = [...expected.settings, value];
    life.registry.backend.configure(record, { environment: new Map([[VARIABLE, value]]) });
    await life.storage.settled();
    if (!life.isOver) expected.settings = [value];
  }

  /** Returns an actor to the state that it had a moment before. */
  async #reload(life: Life, record: CanisterRecord): Promise<void> {
    const { backend: host } = life.registry;
    const image = await host.capture(record);
    const wasm = record.code?.wasm;
    await life.scheduler.deliver(record.handle, {
      kind: 'update',
      method: 'relay',
      caller: CALLER,
      argument: ledgerArgument({ number: 0, grow: this.#seeded.below(3) }),
    });
    if (record.isRemoved || image.module !== record.module) return;
    await host.restore(record, { image, wasm, timerNs: undefined, lowMemoryHook: undefined });
    await life.storage.settled();
  }

  #vanish(life: Life, record: CanisterRecord, expected: Expected): Promise<void> {
    if (record.status === 'stopped') return this.#remove(life, record, expected);
    // An actor without code takes no messages.
    if (record.module === undefined) return this.#reinstall(life, record, expected);
    switch (
      this.#seeded.pick(['uninstall', 'uninstall', 'reinstall', 'reload', 'reload', 'remove', 'remove'] as const)
    ) {
      case 'uninstall':
        return this.#uninstall(life, record, expected);
      case 'reinstall':
        return this.#reinstall(life, record, expected);
      case 'reload':
        return this.#reload(life, record);
      case 'remove':
        return this.#remove(life, record, expected);
    }
  }

  async #remove(life: Life, record: CanisterRecord, expected: Expected): Promise<void> {
    this.hasDeleted = true;
    expected.presence = PERHAPS;
    await life.registry.remove(record, { endsCalls: record.status !== 'stopped' });
    if (!life.isOver) expected.presence = GONE;
  }

  async #uninstall(life: Life, record: CanisterRecord, expected: Expected): Promise<void> {
    expected.hashes = [...expected.hashes, undefined];
    await life.registry.backend.uninstall(record);
    await life.storage.settled();
    if (!life.isOver) expected.hashes = [undefined];
  }

  async #reinstall(life: Life, record: CanisterRecord, expected: Expected): Promise<void> {
    const { bytes, hash } = this.#module(expected);
    expected.hashes = [...expected.hashes, hash];
    await life.registry.reinstall(record, bytes, { argument: undefined, caller: CALLER });
    if (!life.isOver) expected.hashes = [hash];
  }
}

function variantOf({ likeness, hasHeartbeat, actors, padPages }: Plan, index: number): LedgerVariant {
  switch (likeness) {
    case 'different':
      // The last lasting actor, and the mayflies.
      if (index >= actors - 1) return { padPages };
      return { hasHeartbeat: hasHeartbeat && index === 0, keepsHeap: index === 1, inspects: index === 2 };
    case 'alike':
      return {};
    case 'alike-in-heap':
      return { keepsHeap: true, inHeap: true };
  }
}
