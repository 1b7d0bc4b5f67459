/**
 * The stored form of a log's records and of its beginning (`record-bytes.ts` has the primitives):
 *
 *     record     u8 version · u8 kind · the rest depends on the kind
 *       update     flags · f64 instant · [texts shared] · count entry · data caller · data argument · [context] ·
 *                  [shortages]
 *       callback   flags · f64 instant · [texts shared] · u8 code · 56 bytes callbacks · data caller ·
 *                  data reply, if the code is 0, otherwise text reject message · [context] · [u128 refunded] ·
 *                  [shortages]
 *       system     flags · f64 instant · [texts shared] · count entry · [shortages]
 *       configure  settings
 *       numbers    u128 balance · f64 version · u64 timer · [later]
 *     context    [u64 deadline] · [u128 cycles] · [f64 instructions] · [f64 limit]
 *     shortages  2 × (u8 kind · 1: count granted, 2: f64 instructions): of the task's first run, and of its second
 *     settings   flags · [count, so many data: controllers] · [texts env] · [u8 status] · [f64 version] ·
 *                [f64 heap bytes]
 *     standing   u8 version · policy · u128 balance · f64 version · u64 timer · f64 instant · settings ·
 *                f64 heap bytes · f64 stable pages · count, so many (data callee · count slot · count count) ·
 *                [later]
 *     policy     u8 enabled · u128 starting cycles · f64 per message · f64 per ten instructions · f64 limit
 *     later      count, so many f64: numbers of `ic/canister-facts.ts`; present if the version says so
 *
 * Another field in [] is present if a flag says so: a field that nearly all messages lack costs a bit. A small update
 * takes 20 bytes and its argument. The layout differs from that of tasks in the ring (`task-record.ts`): there, fixed
 * places for all fields cost nothing, here they would cost 190 bytes a message; and a task that is read from a log goes
 * to the engine of the same thread.
 *
 * Executor thread: bytes in, records out, and back. Touches nothing else.
 */
import {
  CANISTER_STATUSES,
  CALLBACK_BYTES,
  FULL_LIMIT,
  LATER_NUMBERS,
  laterNumbers,
  type MessageNumbers,
  type RejectCode,
  storedNumbers,
  type Task,
} from '../../ic/index.ts';
import type { MeteringPolicy } from '../../metering/index.ts';
import type { CanisterSettings } from '../index.ts';
import { OPEN_CALLS_MAX } from '../engine/open-calls.ts';
import type { OpenCallsEntry } from '../../ic/index.ts';
import { RecordReader, type RecordWriter, NO_BYTES } from '../../bytes/index.ts';
import { RUNS_MAX, type Shortage, type Shortages } from '../memory/shortage.ts';

/** Beginning of a log, besides memory, globals and certified data. */
export interface CheckpointHeader extends MessageNumbers {
  readonly policy: MeteringPolicy;
  readonly balance: bigint;
  readonly timerNs: bigint;
  readonly instantMs: number;
  readonly settings: CanisterSettings;
  readonly heapBytes: number;
  readonly stablePages: number;
  readonly openCalls: readonly OpenCallsEntry[];
}

/** One record of a log. */
export type LogRecord =
  | {
      readonly kind: 'task';
      readonly nowMs: number;
      /** An update, an update's callback, or a system task: others keep nothing. */
      readonly task: Task;
      /** Variables that all canisters have from here on; undefined: as before, or no message has read them. */
      readonly shared: ReadonlyMap<string, string> | undefined;
      /** Memory requests of the task that were refused; undefined: none. */
      readonly shortages?: Shortages;
    }
  | { readonly kind: 'configure'; readonly settings: CanisterSettings }
  /** Changes without a step that could be run again: cycles came in, an upgrade failed. */
  | ({ readonly kind: 'numbers'; readonly balance: bigint; readonly timerNs: bigint } & MessageNumbers);

const VERSION = 1;
/**
 * Version of records that contain refused memory requests: an older svc must not run them as if nothing had been
 * refused.
 */
const SHORT_VERSION = 2;
/** Version of what contains later numbers (`ic/canister-facts.ts`): at its end, and only if one of them is not 0. */
const LATER_VERSION = 3;
const LATER_VERSIONS = LATER_NUMBERS > 0 ? [LATER_VERSION] : [];

const UPDATE = 1;
const CALLBACK = 2;
const SYSTEM = 3;
const CONFIGURE = 4;
const NUMBERS = 5;

// Flags of a task: all eight bits are taken, so the next field comes with a second byte and a new version.
const HAS_SHARED = 1;
const CAN_ANSWER = 2;
const HAS_DEADLINE = 4;
const HAS_CYCLES = 8;
const HAS_INSTRUCTIONS = 16;
const HAS_LIMIT = 32;
const HAS_REFUND = 64;
const HAS_SHORTAGES = 128;

const REFUSED = 1;
const STOPPED = 2;

// Flags of settings.
const HAS_CONTROLLERS = 1;
const HAS_ENV = 2;
const HAS_STATUS = 4;
const HAS_VERSION = 8;
const HAS_HEAP_BYTES = 16;

const NO_NUMBERS: readonly number[] = [];
const NO_SHORTAGES: { readonly shortages?: Shortages | undefined } = {};

type MessageTask = Extract<Task, { readonly instructionsMax: number }>;

// ---- writing

/** Returns a record's bytes: a view, valid until the writer begins again. */
export function encodeRecord(writer: RecordWriter, record: LogRecord): Uint8Array {
  const { shortages } = record.kind === 'task' ? record : NO_SHORTAGES;
  const later = record.kind === 'numbers' ? laterNumbers(record) : NO_NUMBERS;
  writer.begin().u8(later.length > 0 ? LATER_VERSION : shortages === undefined ? VERSION : SHORT_VERSION);
  switch (record.kind) {
    case 'task':
      writeTask(writer, record.task, record.nowMs, record.shared, shortages === undefined ? 0 : HAS_SHORTAGES);
      if (shortages !== undefined) writeShortages(writer, shortages);
      break;
    case 'configure':
      writer.u8(CONFIGURE);
      writeSettings(writer, record.settings);
      break;
    case 'numbers':
      writer.u8(NUMBERS);
      writer.u128(record.balance);
      writer.f64(record.version);
      writer.u64(record.timerNs);
      writeLater(writer, later);
  }
  return writer.view();
}

function writeLater(writer: RecordWriter, later: readonly number[]): void {
  if (later.length > 0) writer.list(later, (number) => writer.f64(number));
}

function writeTask(
  writer: RecordWriter,
  task: Task,
  nowMs: number,
  shared: ReadonlyMap<string, string> | undefined,
  withShortages: number,
): void {
  const withShared = (shared === undefined ? 0 : HAS_SHARED) | withShortages;
  switch (task.kind) {
    case 'update':
      writeBeginning(writer, UPDATE, withShared | contextFlags(task), nowMs, shared);
      writer.count(task.entry);
      writer.data(task.context.caller);
      writer.data(task.argument);
      writeContext(writer, task);
      return;
    case 'callback': {
      const { response, refunded, callbacks } = task;
      const withRefund = refunded === 0n ? 0 : HAS_REFUND;
      writeBeginning(writer, CALLBACK, withShared | withRefund | contextFlags(task), nowMs, shared);
      writer.u8(response.kind === 'reply' ? 0 : response.code);
      writer.raw(callbacks);
      writer.data(task.context.caller);
      if (response.kind === 'reply') writer.data(response.data);
      else writer.text(response.message);
      writeContext(writer, task);
      if (refunded !== 0n) writer.u128(refunded);
      return;
    }
    case 'system':
      writeBeginning(writer, SYSTEM, withShared, nowMs, shared);
      writer.count(task.entry);
      return;
    default:
      throw new Error(`a task of kind ${task.kind} is in no log`);
  }
}

function writeShortages(writer: RecordWriter, shortages: Shortages): void {
  if (shortages.length > RUNS_MAX) throw new Error(`a task has ${shortages.length} runs`);
  for (let run = 0; run < RUNS_MAX; run++) {
    const shortage = shortages[run];
    if (shortage === undefined) writer.u8(0);
    else if (shortage.kind === 'refused') {
      writer.u8(REFUSED);
      writer.count(shortage.granted);
    } else {
      writer.u8(STOPPED);
      writer.f64(shortage.instructions);
    }
  }
}

function writeBeginning(
  writer: RecordWriter,
  kind: number,
  flags: number,
  nowMs: number,
  shared: ReadonlyMap<string, string> | undefined,
): void {
  writer.u8(kind);
  writer.u8(flags);
  writer.f64(nowMs);
  if (shared !== undefined) writer.texts(shared);
}

function contextFlags({ context, instructionsMax }: MessageTask): number {
  return (
    (context.canAnswer ? CAN_ANSWER : 0) |
    (context.deadlineNs === 0n ? 0 : HAS_DEADLINE) |
    (context.cyclesAvailable === 0n ? 0 : HAS_CYCLES) |
    (context.instructions === 0 ? 0 : HAS_INSTRUCTIONS) |
    (instructionsMax === FULL_LIMIT ? 0 : HAS_LIMIT)
  );
}

function writeContext(writer: RecordWriter, { context, instructionsMax }: MessageTask): void {
  if (context.deadlineNs !== 0n) writer.u64(context.deadlineNs);
  if (context.cyclesAvailable !== 0n) writer.u128(context.cyclesAvailable);
  if (context.instructions !== 0) writer.f64(context.instructions);
  if (instructionsMax !== FULL_LIMIT) writer.f64(instructionsMax);
}

function writeSettings(
  writer: RecordWriter,
  { controllers, env, status, version, heapBytesMax }: CanisterSettings,
): void {
  writer.u8(
    (controllers === undefined ? 0 : HAS_CONTROLLERS) |
      (env === undefined ? 0 : HAS_ENV) |
      (status === undefined ? 0 : HAS_STATUS) |
      (version === undefined ? 0 : HAS_VERSION) |
      (heapBytesMax === undefined ? 0 : HAS_HEAP_BYTES),
  );
  if (controllers !== undefined) {
    writer.count(controllers.length);
    for (const controller of controllers) writer.data(controller);
  }
  if (env !== undefined) writer.texts(env);
  if (status !== undefined) writer.u8(CANISTER_STATUSES.indexOf(status));
  if (version !== undefined) writer.f64(version);
  if (heapBytesMax !== undefined) writer.f64(heapBytesMax);
}

/** Returns the header's bytes: a view, valid until the writer begins again. */
export function encodeCheckpointHeader(writer: RecordWriter, header: CheckpointHeader): Uint8Array {
  const { policy, openCalls } = header;
  const later = laterNumbers(header);
  writer.begin().u8(later.length > 0 ? LATER_VERSION : VERSION);
  writer.u8(policy.isEnabled ? 1 : 0);
  writer.u128(policy.startingCycles);
  writer.f64(policy.cyclesPerMessage);
  writer.f64(policy.cyclesPer10Instructions);
  writer.f64(policy.instructionLimit);
  writer.u128(header.balance);
  writer.f64(header.version);
  writer.u64(header.timerNs);
  writer.f64(header.instantMs);
  writeSettings(writer, header.settings);
  writer.f64(header.heapBytes);
  writer.f64(header.stablePages);
  writer.count(openCalls.length);
  for (const { callee, slot, count } of openCalls) {
    writer.data(callee);
    writer.count(slot);
    writer.count(count);
  }
  writeLater(writer, later);
  return writer.view();
}

// ---- reading

/** Reads the records of one log, one after the other. The records have views of the log's bytes. */
export class LogReader {
  readonly #reader: RecordReader;
  /** Caller of the last record: nearly all messages of a log have the same. */
  #caller: Uint8Array = NO_BYTES;

  constructor(bytes: Uint8Array) {
    this.#reader = new RecordReader(bytes, "a record of the actor's log");
  }

  /** Returns the record in `start` ≤ bytes < `end`. Throws ServerError `state-corrupt`. */
  read(start: number, end: number): LogRecord {
    const reader = this.#reader;
    reader.open(start, end);
    const version = checkVersion(reader, [VERSION, SHORT_VERSION, ...LATER_VERSIONS]);
    const kind = reader.u8();
    const record = kind === NUMBERS ? readNumbersRecord(reader, version) : this.#readKind(kind, version);
    reader.close();
    return record;
  }

  #readKind(kind: number, version: number): LogRecord {
    const reader = this.#reader;
    if (version === LATER_VERSION) throw reader.malformed(`a record of kind ${kind} has no numbers`);
    const withShortages = version === SHORT_VERSION ? HAS_SHORTAGES : 0;
    switch (kind) {
      case UPDATE:
      case CALLBACK:
      case SYSTEM: {
        const flags = reader.u8();
        const nowMs = reader.instant();
        const shared = (flags & HAS_SHARED) === 0 ? undefined : reader.texts();
        const task = this.#readTask(kind, flags & ~(HAS_SHARED | withShortages));
        const isShort = (flags & withShortages) !== 0;
        const record = { kind: 'task', nowMs, task, shared } as const;
        return isShort ? { ...record, shortages: readShortages(reader) } : record;
      }
      case CONFIGURE:
        return { kind: 'configure', settings: readSettings(reader) };
      default:
        throw reader.malformed(`there is no kind ${kind}`);
    }
  }

  #readTask(kind: typeof UPDATE | typeof CALLBACK | typeof SYSTEM, flags: number): Task {
    const reader = this.#reader;
    const known = kind === UPDATE ? UPDATE_FLAGS : kind === CALLBACK ? UPDATE_FLAGS | HAS_REFUND : 0;
    if ((flags & ~known) !== 0) throw reader.malformed(`the flags ${flags} are unknown`);
    if (kind === SYSTEM) return { kind: 'system', entry: reader.count() };
    const entry = kind === UPDATE ? reader.count() : 0;
    const code = kind === CALLBACK ? this.#code() : 0;
    // Copied, not viewed: callbacks are handed on, and compared.
    const callbacks = kind === CALLBACK ? reader.raw(CALLBACK_BYTES).slice() : NO_BYTES;
    const caller = (this.#caller = reader.sameData(this.#caller));
    const data = code === 0 ? reader.data() : NO_BYTES;
    const message = code === 0 ? '' : reader.text();
    const context = {
      caller,
      canAnswer: (flags & CAN_ANSWER) !== 0,
      deadlineNs: (flags & HAS_DEADLINE) === 0 ? 0n : reader.u64(),
      cyclesAvailable: (flags & HAS_CYCLES) === 0 ? 0n : reader.u128(),
      instructions: (flags & HAS_INSTRUCTIONS) === 0 ? 0 : reader.natural(),
    };
    const instructionsMax = (flags & HAS_LIMIT) === 0 ? FULL_LIMIT : reader.limit();
    if (kind === UPDATE) return { kind: 'update', entry, argument: data, context, instructionsMax };
    return {
      kind: 'callback',
      context,
      instructionsMax,
      callbacks,
      refunded: (flags & HAS_REFUND) === 0 ? 0n : reader.u128(),
      frame: 0,
      response: code === 0 ? { kind: 'reply', data } : { kind: 'reject', code, message },
    };
  }

  #code(): RejectCode | 0 {
    return this.#reader.oneOf(CODES);
  }
}

const UPDATE_FLAGS = CAN_ANSWER | HAS_DEADLINE | HAS_CYCLES | HAS_INSTRUCTIONS | HAS_LIMIT;
const SETTINGS_FLAGS = HAS_CONTROLLERS | HAS_ENV | HAS_STATUS | HAS_VERSION | HAS_HEAP_BYTES;
/** Codes of a response; 0: it is a reply. */
const CODES: readonly (RejectCode | 0)[] = [0, 1, 2, 3, 4, 5, 6];

function checkVersion(reader: RecordReader, known: readonly number[]): number {
  const version = reader.u8();
  if (!known.includes(version))
    throw reader.malformed(`it has format ${version}, and this svc reads formats up to ${known.at(-1)}`);
  return version;
}

function readShortages(reader: RecordReader): Shortages {
  const first = readShortage(reader);
  const second = readShortage(reader);
  return second === undefined ? [first] : [first, second];
}

function readShortage(reader: RecordReader): Shortage | undefined {
  switch (reader.oneOf([0, REFUSED, STOPPED])) {
    case REFUSED:
      return { kind: 'refused', granted: reader.count() };
    case STOPPED:
      return { kind: 'stopped', instructions: reader.natural() };
    default:
      return undefined;
  }
}

function readSettings(reader: RecordReader): CanisterSettings {
  const flags = reader.u8();
  if ((flags & ~SETTINGS_FLAGS) !== 0) throw reader.malformed(`the flags ${flags} of the settings are unknown`);
  return {
    ...((flags & HAS_CONTROLLERS) === 0 ? {} : { controllers: readControllers(reader) }),
    ...((flags & HAS_ENV) === 0 ? {} : { env: reader.texts() }),
    ...((flags & HAS_STATUS) === 0 ? {} : { status: reader.oneOf(CANISTER_STATUSES) }),
    ...((flags & HAS_VERSION) === 0 ? {} : { version: reader.natural() }),
    ...((flags & HAS_HEAP_BYTES) === 0 ? {} : { heapBytesMax: reader.limit() }),
  };
}

function readControllers(reader: RecordReader): Uint8Array[] {
  const controllers: Uint8Array[] = [];
  // The controllers outlive the log.
  for (let left = reader.count(); left > 0; left--) controllers.push(reader.data().slice());
  return controllers;
}

/** Returns the beginning of a log. Throws ServerError `state-corrupt`. */
export function decodeCheckpointHeader(bytes: Uint8Array): CheckpointHeader {
  const reader = new RecordReader(bytes, "the beginning of the actor's log");
  reader.open(0, bytes.length);
  const format = checkVersion(reader, [VERSION, ...LATER_VERSIONS]);
  const header = {
    policy: {
      isEnabled: reader.oneOf([false, true]),
      startingCycles: reader.u128(),
      cyclesPerMessage: reader.limit(),
      cyclesPer10Instructions: reader.limit(),
      instructionLimit: reader.limit(),
    },
    balance: reader.u128(),
    version: reader.natural(),
    timerNs: reader.u64(),
    instantMs: reader.instant(),
    settings: readSettings(reader),
    heapBytes: reader.natural(),
    stablePages: reader.natural(),
    openCalls: readOpenCalls(reader),
  };
  const numbers = readNumbers(reader, format, header.version);
  reader.close();
  return { ...header, ...numbers };
}

function readNumbersRecord(reader: RecordReader, format: number): LogRecord {
  const record = { kind: 'numbers', balance: reader.u128(), version: reader.natural(), timerNs: reader.u64() } as const;
  return { ...record, ...readNumbers(reader, format, record.version) };
}

/** Returns the version with the later numbers, which end a record of that format. */
function readNumbers(reader: RecordReader, format: number, version: number): MessageNumbers {
  const later = format === LATER_VERSION ? reader.list(() => reader.limit()) : NO_NUMBERS;
  if (later.length > LATER_NUMBERS) throw reader.malformed(`${later.length} numbers are more than this svc knows`);
  return storedNumbers(version, later);
}

function readOpenCalls(reader: RecordReader): OpenCallsEntry[] {
  const entries: OpenCallsEntry[] = [];
  for (let left = reader.count(); left > 0; left--) {
    const entry = { callee: reader.data(), slot: reader.count(), count: reader.count() };
    if (entry.slot > OPEN_CALLS_MAX) throw reader.malformed(`there is no slot ${entry.slot} for open calls`);
    entries.push(entry);
  }
  return entries;
}
