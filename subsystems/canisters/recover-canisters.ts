/**
 * Takes over what another process has stored: first who there is, with their numbers, all asleep; then, when the
 * variables that all of them get are known, memories, and what the logs say.
 */
import { type Clock, type Logger, messageOf, ServerError } from '../../kernel/index.ts';
import type { Execution } from '../execution/index.ts';
import type { HostedCode, ManagementHooks } from '../management/index.ts';
import { idToText, hexOf } from '../ic/index.ts';
import type { Scheduler, SchedulerSetup } from '../scheduler/index.ts';
import { META, metaKey, type Storage } from '../storage/index.ts';
import type { CandidInterfaces } from './candid-interfaces.ts';
import type { CanisterRecord, RecordedCode } from './canister-record.ts';
import type { CanisterDirectory } from './canister-directory.ts';
import { deleteLeftAhead } from './left-ahead.ts';
import type { PreparedModules } from './prepared-modules.ts';
import { readIdentity, readNumbers, type StoredIdentity, type StoredNumbers } from './stored-values.ts';

export interface RecoveryDependencies {
  readonly directory: CanisterDirectory;
  readonly management: Pick<ManagementHooks, 'restore'>;
  readonly interfaces: CandidInterfaces;
  readonly execution: Execution;
  readonly scheduler: Scheduler;
  readonly schedulerSetup: SchedulerSetup;
  readonly storage: Storage;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly prepared: Pick<PreparedModules, 'of' | 'clear'>;
  readonly log: Logger;
  /** Aborted when the server is told to stop meanwhile. */
  readonly signal: AbortSignal;
}

export interface Recovery {
  /**
   * Takes up what was under way, runs logs again, and wakes canisters as long as they may be live: the first of them.
   */
  bringBack(): Promise<void>;
  /**
   * The others, while the server takes work; who is wanted before comes at once. Resolves when all are done, or
   * `isOver` says that they need not be.
   */
  bringBackRest(isOver: () => boolean): Promise<void>;
}

/**
 * So many are awake before the server takes work: with all of 10,000 it would be a minute in which nobody is answered,
 * and whoever is wanted takes a few milliseconds. Few enough for a part of a second, more than most servers have. On a
 * busy machine they take longer, and beyond a few whoever waits for this host, as where it takes over from another one,
 * is answered first.
 */
const FIRST_COUNT = 64;
const FIRST_COUNT_MIN = 8;
const FIRST_MS = 250;

/** Rejects with ServerError `state-corrupt` when something is damaged that all canisters share. */
export async function recoverCanisters(
  dependencies: RecoveryDependencies,
  progress: (note: string) => void,
): Promise<Recovery> {
  const { directory, management, execution, storage, log } = dependencies;
  progress('reading the state');
  const [left, ids, identities, numbers] = await Promise.all([
    storage.range('meta', metaKey(META.ahead)),
    storage.range('meta', metaKey(META.ids)),
    storage.range('meta', metaKey(META.identity)),
    storage.range('meta', metaKey(META.numbers)),
  ]);
  await deleteLeftAhead(storage, left);
  for (const [, saved] of ids) directory.ids.load(saved);
  const numbersOf = new Map(numbers.map(([key, value]) => [idOf(key), { key, value }]));
  const codes = new StoredCodes(dependencies);
  const records: CanisterRecord[] = [];
  const ahead = new AheadOfClock();
  for (const [at, [key, value]] of identities.entries()) {
    const identity = readIdentity(value, key);
    progress(`preparing ${identity.name} (${at + 1} of ${identities.length})`);
    const stored = numbersOf.get(idOf(key));
    if (stored === undefined) throw lost(identity.name, key);
    const its = readNumbers(stored.value, stored.key);
    const record = await recovered(dependencies, codes, { key, identity, numbers: its });
    ahead.saw(record.name, execution.aheadOf(record.handle));
    admit(dependencies, record, identity, its);
    directory.enter(record);
    records.push(record);
  }
  dependencies.prepared.clear();
  ahead.tell(log);
  for (const [{ id }, error] of await management.restore()) {
    const record = directory.find(id);
    if (record !== undefined) directory.quarantine(record, messageOf(error));
  }
  return new Waking(dependencies, records, progress);
}

interface StoredRecord {
  /** Key of the identity. */
  readonly key: Uint8Array;
  readonly identity: StoredIdentity;
  readonly numbers: StoredNumbers;
}

type RecordNeeds = Pick<RecoveryDependencies, 'directory' | 'execution' | 'scheduler'>;

/** Makes the record of a stored canister, asleep; nobody finds it yet. */
async function recovered(
  { directory, execution }: RecordNeeds,
  codes: StoredCodes,
  { key, identity, numbers }: StoredRecord,
): Promise<CanisterRecord> {
  const { name, controllers, environment } = identity;
  const handle = execution.createAsleep(numbers.instantMs);
  const known = { name, id: key.slice(1), balance: numbers.balance, controllers, environment };
  const record = directory.recordFor(handle, known);
  let code: RecordedCode | undefined;
  try {
    code = await codes.of(record, identity);
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    directory.quarantine(record, messageOf(error));
  }
  record.recovered(code, identity, numbers);
  return record;
}

function admit({ scheduler }: RecordNeeds, record: CanisterRecord, identity: StoredIdentity, its: StoredNumbers): void {
  const timerMs = Number.isFinite(its.timerMs) ? its.timerMs : undefined;
  scheduler.admit(record.handle, record.idText, {
    status: its.status,
    timerMs,
    module: record.module,
    isAsleep: true,
    isUnloadable: record.damage !== undefined,
  });
  scheduler.setMinimumCycles(record.handle, identity.settings.minimumIncomingCanisterCallCycles ?? 0n);
}

/**
 * Takes over one canister whose rows have come to this server's state. `here` is called in the turn in which it is
 * there, by its id and its name. Resolves with its record. Rejects with ServerError `state-corrupt`.
 */
export async function recoverArrived(
  dependencies: RecordNeeds & CodeNeeds,
  id: Uint8Array,
  here: (record: CanisterRecord) => void,
): Promise<CanisterRecord> {
  const { storage, directory } = dependencies;
  const [key, numbersKey] = [metaKey(META.identity, id), metaKey(META.numbers, id)];
  const [value, numbersValue] = await Promise.all([storage.get('meta', key), storage.get('meta', numbersKey)]);
  if (value === undefined || numbersValue === undefined) throw lost('an actor that has come', key);
  const [identity, numbers] = [readIdentity(value, key), readNumbers(numbersValue, numbersKey)];
  const codes = new StoredCodes(dependencies);
  const same = directory.list().find(({ module }) => module !== undefined && module.hash === identity.moduleHash);
  if (same?.code !== undefined) codes.know(same.code);
  const record = await recovered(dependencies, codes, { key, identity, numbers });
  admit(dependencies, record, identity, numbers);
  directory.enter(record);
  here(record);
  return record;
}

class Waking implements Recovery {
  readonly #needs: RecoveryDependencies;
  readonly #records: readonly CanisterRecord[];
  readonly #progress: (note: string) => void;
  /** With a log. */
  #logged: ReadonlySet<string> = new Set();
  /** Number of records that are done. */
  #done = 0;
  #isOver: () => boolean;

  constructor(
    dependencies: RecoveryDependencies,
    records: readonly CanisterRecord[],
    progress: (note: string) => void,
  ) {
    this.#needs = dependencies;
    this.#records = records;
    this.#progress = progress;
    this.#isOver = () => dependencies.signal.aborted;
  }

  async bringBack(): Promise<void> {
    const { schedulerSetup, storage, clock } = this.#needs;
    this.#progress('taking up what was under way');
    await schedulerSetup.restoreAnswers();
    // Not before all variables are known: what is under way goes on with this.
    schedulerSetup.restore(await storage.range('queue', new Uint8Array(0)));
    // The low-memory hook may have been due when the process before ended.
    for (const record of this.#records) if (record.damage === undefined) record.steps.checkMemory();
    this.#logged = new Set((await storage.range('meta', metaKey(META.checkpoint))).map(([key]) => idOf(key)));
    const untilMs = clock.nowMs() + FIRST_MS;
    let count = 0;
    await this.#wakeUntil((record) => {
      if (count === FIRST_COUNT || (count >= FIRST_COUNT_MIN && clock.nowMs() > untilMs)) return true;
      count++;
      this.#progress(`recovering ${record.name} (${this.#done + 1} of ${this.#records.length})`);
      return false;
    });
  }

  bringBackRest(isOver: () => boolean): Promise<void> {
    this.#isOver = isOver;
    return this.#wakeUntil(() => false);
  }

  /** Asks before each that is to be woken. */
  async #wakeUntil(isEnough: (record: CanisterRecord) => boolean): Promise<void> {
    for (let record = this.#records[this.#done]; record !== undefined; record = this.#records[++this.#done]) {
      if (this.#mayWait(record)) continue;
      if (this.#isOver() || isEnough(record)) return;
      await this.#wake(record);
    }
  }

  #mayWait(record: CanisterRecord): boolean {
    const { directory, execution } = this.#needs;
    if (record.damage !== undefined || record.isRemoved) return true;
    const { bytesUsed, bytesHigh } = execution.memory;
    // Canisters without a log come when somebody wants them, if not all of them may be live.
    return (directory.hasLiveLimit || bytesUsed > bytesHigh) && !this.#logged.has(record.idText);
  }

  async #wake(record: CanisterRecord): Promise<void> {
    const { scheduler, log } = this.#needs;
    try {
      const release = await scheduler.pin(record.handle);
      release();
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      // An actor that is being deleted is refused as missing before it is gone.
      const isGone = record.isRemoved || error.kind === 'missing';
      if (record.damage === undefined && !isGone && !this.#isOver())
        log.warn(`${record.name} cannot be woken now: ${error.message}`);
      return;
    }
    if (record.replayed === 0) return;
    log.event(
      'recovered',
      { actor: record.idHex, messages: record.replayed },
      `recovered ${record.name}: ${record.replayed} message(s) run again`,
    );
    record.replayed = 0;
  }
}

/** A step that clocks take every day; nothing is said of it. */
const LEAD_TOLD_MS = 5_000;

/** Canisters that have seen a later time than the clock shows now. */
class AheadOfClock {
  #count = 0;
  #mostMs = 0;
  #name = '';

  saw(name: string, aheadMs: number): void {
    if (aheadMs < LEAD_TOLD_MS) return;
    this.#count++;
    if (aheadMs <= this.#mostMs) return;
    this.#mostMs = aheadMs;
    this.#name = name;
  }

  tell(log: Logger): void {
    if (this.#count === 0) return;
    log.warn(
      `the clock is behind what ${this.#count} actor(s) have seen as time, ${this.#name} by ${Math.round(this.#mostMs / 1000)} s: ` +
        'either the clock was ahead when they last ran, or it is wrong now; their time and their timers go on from there, a tenth slower until the clock has caught up',
    );
  }
}

type CodeNeeds = Pick<RecoveryDependencies, 'storage' | 'execution' | 'directory' | 'prepared' | 'interfaces'>;

/** The modules that canisters have, each read and prepared once; interfaces too. */
class StoredCodes {
  readonly #needs: CodeNeeds;
  readonly #codes = new Map<string, Promise<HostedCode>>();
  readonly #given = new Map<string, Promise<RecordedCode>>();

  constructor(dependencies: CodeNeeds) {
    this.#needs = dependencies;
  }

  /** Code that a canister of this host has already. */
  know(code: HostedCode): void {
    this.#codes.set(code.module.hash, Promise.resolve(code));
  }

  /** Rejects with a ServerError when the module is not there or no longer accepted. */
  async of(
    { name }: Pick<CanisterRecord, 'name'>,
    { moduleHash, givenCandid }: StoredIdentity,
  ): Promise<RecordedCode | undefined> {
    if (moduleHash === undefined) return undefined;
    let loading = this.#codes.get(moduleHash);
    if (loading === undefined) {
      loading = this.#load(moduleHash);
      this.#codes.set(moduleHash, loading);
    }
    const code = await loading;
    const { interfaces } = this.#needs;
    if (givenCandid === undefined) return await interfaces.recorded(name, code, undefined);
    const key = `${moduleHash} ${givenCandid}`;
    const known = this.#given.get(key) ?? interfaces.recorded(name, code, givenCandid);
    this.#given.set(key, known);
    return await known;
  }

  async #load(hash: string): Promise<HostedCode> {
    const { storage, execution, directory, prepared } = this.#needs;
    const ready = await prepared.of(hash);
    if (ready !== undefined) {
      directory.store.moduleIsStored(hash);
      return ready;
    }
    const [entry] = await storage.range('module', Buffer.from(hash, 'hex'));
    if (entry === undefined) {
      throw new ServerError('unavailable', 'state-corrupt', `the state lacks its module: module/${hash}`);
    }
    const [, wasm] = entry;
    // The code waits for the first canister that wakes.
    const module = await execution.describe(wasm);
    if (module.hash !== hash) {
      throw new ServerError('unavailable', 'state-corrupt', `its module is damaged: module/${hash}`);
    }
    directory.store.moduleIsStored(hash);
    return { module, wasm };
  }
}

/** Returns the id in a key of `meta`, which is letter · id. */
function idOf(key: Uint8Array): string {
  return idToText(key.subarray(1));
}

function lost(name: string, key: Uint8Array): ServerError {
  return new ServerError(
    'unavailable',
    'state-corrupt',
    `the state is damaged: the numbers of ${name} (${hexOf(key.subarray(1))}) are missing`,
  );
}
