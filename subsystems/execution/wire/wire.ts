/**
 * What crosses between the main thread and an executor, and how it is laid out in the ring.
 *
 *   main → executor
 *     TASK      one `Task` for one canister (offsets: `T`)
 *     COMMAND   nothing: the next message of the port is a `Command`
 *   executor → main
 *     CALL      one `OutgoingCall` of the step that follows (offsets: `C`)
 *     STEP      one `Step` and the canister's gauges (offsets: `S`)
 *     CHANGES   what the step that follows changes, for storage
 *     DEBUG     one `OutputLine` (offsets: `D`)
 *     MESSAGE   nothing: the next message of the port is a `PortMessage`
 *
 * The bytes of a record (an argument, a reply, changes, a line) travel behind it in the ring, or, over INLINE_BYTES_MAX, by
 * the port, and then the record says so. The record is the same either way, and so is whatever is done with it: how large
 * something is decides how its bytes are carried, and nothing else. What is rare goes by the port as a whole (structured
 * clone), with a marker record in the ring that keeps the order. So the nth message of the port belongs to the nth record
 * that announces one.
 *
 * Both sides: the one writes records, the other reads them. Touches the ring's bytes and nothing else.
 */
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { MeteringPolicy } from '../../metering/index.ts';
import type {
  CanisterImage,
  CanisterSettings,
  CanisterSpec,
  CodeChange,
  Replayed,
  SleepingCanister,
} from '../index.ts';
import {
  type RejectCode,
  CALLBACK_BYTES,
  type ContextView,
  type OutgoingCall,
  type OutputLine,
  type Response,
  type Step,
  type StepFault,
  type Task,
  type RunKind,
} from '../../ic/index.ts';
import type { InstrumentedCode } from './instrumented-code.ts';
import type { RingConsumer, RingProducer } from '../../threads/index.ts';

export const RING_BYTES = 1 << 20;
/** Larger payloads are copied once by structured clone instead of twice through the ring, and never fill it. */
export const INLINE_BYTES_MAX = 32 * 1024;

export const TASK = 1;
export const COMMAND = 2;
export const CALL = 3;
export const STEP = 4;
export const DEBUG = 5;
export const MESSAGE = 6;
export const CHANGES = 7;

/** In place of the length of bytes that the port carries. */
const BY_PORT = -1;

/** Puts bytes of a record that was just reserved behind it, or on the port. `isGiven`: nobody here reads them any more. */
function writeBytes(ring: RingProducer, port: MessagePort, at: number, data: Uint8Array, isGiven: boolean): void {
  if (data.length <= INLINE_BYTES_MAX) {
    copyInto(ring.bytes, at, data);
    return;
  }
  // Of a view, the port would carry all that it is a view of.
  const isAll = data.buffer instanceof ArrayBuffer && data.buffer.byteLength === data.byteLength;
  const own = isGiven && isAll ? data : data.slice();
  port.postMessage(own, [own.buffer as ArrayBuffer]);
}

/** Bytes that take part in the ring's record itself. */
function inlineBytes(data: Uint8Array): number {
  return data.length <= INLINE_BYTES_MAX ? data.length : 0;
}

function lengthField(data: Uint8Array): number {
  return data.length <= INLINE_BYTES_MAX ? data.length : BY_PORT;
}

/** What was written there: a view of the ring, valid only while the record is, or bytes of the reader's own. */
function viewBytes(ring: RingConsumer, port: MessagePort, at: number, length: number): Uint8Array {
  return length === BY_PORT ? (receiveDue(port) as Uint8Array) : ring.bytes.subarray(at, at + length);
}

function readBytes(ring: RingConsumer, port: MessagePort, at: number, length: number): Uint8Array {
  return length === BY_PORT ? (receiveDue(port) as Uint8Array) : ring.bytes.slice(at, at + length);
}

/** The message of the port that a record announces. */
export function receiveDue(port: MessagePort): unknown {
  const received = receiveMessageOnPort(port);
  if (received === undefined) throw new Error('a record announces a message, and the port has none');
  return received.message;
}

/** A principal has 29 bytes at most. */
const PRINCIPAL_BYTES = 32;

/** A canister's state without its code, which is named apart. */
export type StateImage = Omit<CanisterImage, 'module'>;

/** A task on its way. */
export interface TaskRecord {
  nowMs: number;
  /** Number of the answer that is waited for. */
  call: number;
  handle: number;
  task: Task;
}

/** What an executor says of a canister with each step. */
export interface StepRecord {
  call: number;
  handle: number;
  step: Step;
  heapBytes: number;
  stableBytes: number;
  /** `ic0.canister_version` afterwards. */
  version: number;
  /** The balance, when something besides the charge changed it. */
  balance: bigint | undefined;
  /** When the message began, ms since 1970. */
  instantMs: number;
  /** Instructions that running its log again takes. */
  loggedInstructions: number;
}

/** What goes by the port to an executor. `install` is answered by a step, the others with a `call` by the port. */
export type Command = HostCommand | CanisterCommand;

/** What is about no canister. */
export type HostCommand =
  /** Comes before the first command that names its hash. */
  | { readonly kind: 'module'; readonly hash: string; readonly code: InstrumentedCode }
  | { readonly kind: 'forgetModule'; readonly hash: string }
  /** The variables of all canisters that come after it. */
  | { readonly kind: 'environment'; readonly variables: ReadonlyMap<string, string> }
  /** The memory that the thread can spare is needed. */
  | { readonly kind: 'trim'; readonly call: number };

/** What is about one canister, and so in order with its tasks. */
export type CanisterCommand =
  | { readonly kind: 'create'; readonly handle: number; readonly spec: CanisterSpec }
  | {
      readonly kind: 'install';
      readonly call: number;
      readonly handle: number;
      readonly hash: string;
      readonly change: CodeChange;
      readonly nowMs: number;
    }
  | { readonly kind: 'uninstall'; readonly call: number; readonly handle: number }
  | { readonly kind: 'configure'; readonly handle: number; readonly settings: CanisterSettings }
  | { readonly kind: 'giveCertificate'; readonly handle: number }
  | { readonly kind: 'capture'; readonly call: number; readonly handle: number }
  | {
      readonly kind: 'restore';
      readonly call: number;
      readonly handle: number;
      readonly image: StateImage;
      readonly hash: string | undefined;
    }
  | { readonly kind: 'addCycles'; readonly call: number; readonly handle: number; readonly amount: bigint }
  | { readonly kind: 'remove'; readonly handle: number }
  | { readonly kind: 'sleep'; readonly call: number; readonly handle: number }
  | {
      readonly kind: 'wake';
      readonly call: number;
      readonly handle: number;
      readonly hash: string | undefined;
      readonly canister: Omit<SleepingCanister, 'module'>;
    }
  /** With `isPreparing`, some of it ahead. */
  | { readonly kind: 'checkpoint'; readonly call: number; readonly handle: number; readonly isPreparing: boolean };

/** What an executor sends by the port. */
export type PortMessage =
  /** Operations for storage that no step brings. */
  | { readonly kind: 'changes'; readonly handle: number; readonly changes: Uint8Array }
  | {
      readonly kind: 'done';
      readonly call: number;
      readonly handle: number;
      readonly changes: Uint8Array | undefined;
      /** Of a checkpoint that is being prepared: not much is left. */
      readonly isReady: boolean;
    }
  | {
      readonly kind: 'awake';
      readonly call: number;
      readonly handle: number;
      readonly changes: Uint8Array | undefined;
      /** Why it is not. */
      readonly problem: string | undefined;
      /** It is that there is no room for it now. */
      readonly isShort: boolean;
      readonly replayed: Replayed | undefined;
    }
  | {
      readonly kind: 'balance';
      readonly call: number;
      readonly handle: number;
      readonly balance: bigint;
      readonly changes: Uint8Array | undefined;
    }
  | { readonly kind: 'image'; readonly call: number; readonly image: StateImage }
  | {
      readonly kind: 'restored';
      readonly call: number;
      readonly handle: number;
      readonly problem: string | undefined;
      readonly isShort: boolean;
      readonly changes: Uint8Array | undefined;
    }
  | { readonly kind: 'trimmed'; readonly call: number }
  /** There is no memory for what was asked. */
  | { readonly kind: 'short'; readonly call: number; readonly problem: string }
  /** A fault of the host's own, for the log. */
  | { readonly kind: 'bug'; readonly message: string };

/** Handed to an executor thread when it starts. */
export interface ExecutorOptions {
  /** Its number. */
  readonly lane: number;
  readonly inbox: SharedArrayBuffer;
  readonly outbox: SharedArrayBuffer;
  readonly port: MessagePort;
  readonly policy: MeteringPolicy;
  readonly wasmStackBytes: number;
  /** How many executors there are. */
  readonly executors: number;
  /** What all of them take memory from: memory-budget.ts. */
  readonly memory: SharedArrayBuffer;
  /** Where all of them write what they do: executor-book.ts. */
  readonly book: SharedArrayBuffer;
}

const EMPTY = new Uint8Array(0);
const encoder = new TextEncoder();
const decoder = new TextDecoder();

// ---- TASK: byte offsets in the payload. f64 and u64 fields are 8-aligned.
const T = {
  NOW: 0,
  INSTRUCTIONS: 8,
  INSTRUCTIONS_MAX: 16,
  DEADLINE: 24,
  AVAILABLE: 32,
  REFUNDED: 48,
  CALL: 64,
  HANDLE: 68,
  KIND: 72,
  ENTRY: 76,
  CAN_ANSWER: 80,
  CODE: 84,
  FRAME: 88,
  CALLER_LENGTH: 92,
  METHOD_LENGTH: 96,
  DATA_LENGTH: 100,
  CALLER: 104,
  CALLBACKS: 104 + PRINCIPAL_BYTES,
  DATA: 104 + PRINCIPAL_BYTES + CALLBACK_BYTES,
} as const;

const TASK_KINDS = [
  'update',
  'query',
  'callback',
  'system',
  'inspect',
  'dropFrame',
  'transform',
] as const satisfies readonly Task['kind'][];

function taskKind(number: number): Task['kind'] {
  const kind = TASK_KINDS[number];
  if (kind === undefined) throw new Error(`no kind of task ${number}`);
  return kind;
}

function isMethod(task: Task): task is Extract<Task, { readonly kind: RunKind }> {
  return task.kind === 'update' || task.kind === 'query' || task.kind === 'transform';
}

/** False when the ring is full now. A large argument of an update or a query is handed over. */
export function writeTask(ring: RingProducer, port: MessagePort, { nowMs, call, handle, task }: TaskRecord): boolean {
  let data: Uint8Array = EMPTY;
  let method: Uint8Array = EMPTY;
  if (isMethod(task)) data = task.argument;
  else if (task.kind === 'callback') {
    data = task.response.kind === 'reply' ? task.response.data : encoder.encode(task.response.message);
  } else if (task.kind === 'inspect') {
    data = task.argument;
    method = encoder.encode(task.method);
  }
  const at = ring.reserve(TASK, T.DATA + method.length + inlineBytes(data));
  if (at < 0) return false;
  const { words, floats, longs, bytes } = ring;
  floats[(at + T.NOW) >> 3] = nowMs;
  words[(at + T.CALL) >> 2] = call;
  words[(at + T.HANDLE) >> 2] = handle;
  words[(at + T.KIND) >> 2] = TASK_KINDS.indexOf(task.kind);
  words[(at + T.METHOD_LENGTH) >> 2] = method.length;
  words[(at + T.DATA_LENGTH) >> 2] = lengthField(data);
  if (isMethod(task) || task.kind === 'callback') {
    const { context } = task;
    floats[(at + T.INSTRUCTIONS) >> 3] = context.instructions;
    floats[(at + T.INSTRUCTIONS_MAX) >> 3] = task.instructionsMax;
    longs[(at + T.DEADLINE) >> 3] = context.deadlineNs;
    writeAmount(longs, at + T.AVAILABLE, context.cyclesAvailable);
    words[(at + T.CAN_ANSWER) >> 2] = context.canAnswer ? 1 : 0;
    words[(at + T.CALLER_LENGTH) >> 2] = context.caller.length;
    copyInto(bytes, at + T.CALLER, context.caller);
  }
  if (task.kind === 'callback') {
    writeAmount(longs, at + T.REFUNDED, task.refunded);
    words[(at + T.CODE) >> 2] = task.response.kind === 'reply' ? 0 : task.response.code;
    words[(at + T.FRAME) >> 2] = task.frame;
    copyInto(bytes, at + T.CALLBACKS, task.callbacks);
  } else if (task.kind === 'dropFrame') {
    words[(at + T.FRAME) >> 2] = task.frame;
  } else {
    words[(at + T.ENTRY) >> 2] = task.entry;
    if (task.kind === 'inspect') {
      words[(at + T.CALLER_LENGTH) >> 2] = task.caller.length;
      copyInto(bytes, at + T.CALLER, task.caller);
    }
  }
  copyInto(bytes, at + T.DATA, method);
  writeBytes(ring, port, at + T.DATA + method.length, data, isMethod(task));
  return true;
}

/** The task at `at`. Its argument may be a view of the ring, valid only while the record is; all else is copied. */
export function readTask(ring: RingConsumer, port: MessagePort, at: number): TaskRecord {
  const { words, floats } = ring;
  const word = (offset: number): number => wordAt(words, at + offset);
  return {
    nowMs: floatAt(floats, at + T.NOW),
    call: word(T.CALL),
    handle: word(T.HANDLE),
    task: readTaskBody(ring, port, at, word),
  };
}

/** The same task with bytes of its own, for later: a view of the ring does not last. */
export function ownTask(task: Task): Task {
  if (isMethod(task) || task.kind === 'inspect') return { ...task, argument: task.argument.slice() };
  if (task.kind === 'callback' && task.response.kind === 'reply')
    return { ...task, response: { kind: 'reply', data: task.response.data.slice() } };
  return task;
}

function readTaskBody(ring: RingConsumer, port: MessagePort, at: number, word: (offset: number) => number): Task {
  const { floats, longs, bytes } = ring;
  const kind = taskKind(word(T.KIND));
  const entry = word(T.ENTRY);
  if (kind === 'system') return { kind, entry };
  if (kind === 'dropFrame') return { kind, frame: word(T.FRAME) };
  const dataAt = at + T.DATA + word(T.METHOD_LENGTH);
  const argument = viewBytes(ring, port, dataAt, word(T.DATA_LENGTH));
  const caller = bytes.slice(at + T.CALLER, at + T.CALLER + word(T.CALLER_LENGTH));
  if (kind === 'inspect') {
    return { kind, entry, argument, caller, method: decoder.decode(bytes.slice(at + T.DATA, dataAt)) };
  }
  const context: ContextView = {
    caller,
    deadlineNs: longAt(longs, at + T.DEADLINE),
    canAnswer: word(T.CAN_ANSWER) === 1,
    cyclesAvailable: readAmount(longs, at + T.AVAILABLE),
    instructions: floatAt(floats, at + T.INSTRUCTIONS),
  };
  const instructionsMax = floatAt(floats, at + T.INSTRUCTIONS_MAX);
  if (kind !== 'callback') return { kind, entry, argument, context, instructionsMax };
  const code = word(T.CODE);
  return {
    kind,
    context,
    instructionsMax,
    callbacks: bytes.slice(at + T.CALLBACKS, at + T.CALLBACKS + CALLBACK_BYTES),
    refunded: readAmount(longs, at + T.REFUNDED),
    frame: word(T.FRAME),
    response:
      code === 0
        ? { kind: 'reply', data: argument }
        : { kind: 'reject', code: rejectCodeOf(code), message: decoder.decode(argument.slice()) },
  };
}

// ---- CALL
const C = {
  CYCLES: 0,
  TIMEOUT: 16,
  CALLEE_LENGTH: 20,
  METHOD_LENGTH: 24,
  PAYLOAD_LENGTH: 28,
  CALLEE: 32,
  CALLBACKS: 32 + PRINCIPAL_BYTES,
  METHOD: 32 + PRINCIPAL_BYTES + CALLBACK_BYTES,
} as const;
const NO_TIMEOUT = -1;

/** False when the ring is full now. */
export function writeCall(ring: RingProducer, port: MessagePort, call: OutgoingCall): boolean {
  const method = encoder.encode(call.method);
  const at = ring.reserve(CALL, C.METHOD + method.length + inlineBytes(call.payload));
  if (at < 0) return false;
  const { words, longs, bytes } = ring;
  writeAmount(longs, at + C.CYCLES, call.cycles);
  words[(at + C.TIMEOUT) >> 2] = call.timeoutSeconds ?? NO_TIMEOUT;
  words[(at + C.CALLEE_LENGTH) >> 2] = call.callee.length;
  words[(at + C.METHOD_LENGTH) >> 2] = method.length;
  words[(at + C.PAYLOAD_LENGTH) >> 2] = lengthField(call.payload);
  copyInto(bytes, at + C.CALLEE, call.callee);
  copyInto(bytes, at + C.CALLBACKS, call.callbacks);
  copyInto(bytes, at + C.METHOD, method);
  writeBytes(ring, port, at + C.METHOD + method.length, call.payload, true);
  return true;
}

export function readCall(ring: RingConsumer, port: MessagePort, at: number): OutgoingCall {
  const { words, longs, bytes } = ring;
  const word = (offset: number): number => wordAt(words, at + offset);
  const payloadAt = at + C.METHOD + word(C.METHOD_LENGTH);
  const timeout = word(C.TIMEOUT);
  return {
    callee: bytes.slice(at + C.CALLEE, at + C.CALLEE + word(C.CALLEE_LENGTH)),
    method: decoder.decode(bytes.slice(at + C.METHOD, payloadAt)),
    payload: readBytes(ring, port, payloadAt, word(C.PAYLOAD_LENGTH)),
    cycles: readAmount(longs, at + C.CYCLES),
    timeoutSeconds: timeout === NO_TIMEOUT ? undefined : timeout,
    callbacks: bytes.slice(at + C.CALLBACKS, at + C.CALLBACKS + CALLBACK_BYTES),
  };
}

// ---- STEP
const S = {
  INSTRUCTIONS: 0,
  CHARGE: 8,
  HEAP: 16,
  STABLE: 24,
  VERSION: 32,
  BALANCE: 40,
  ACCEPTED: 56,
  TIMER: 72,
  CALL: 80,
  HANDLE: 84,
  FAULT: 88,
  ANSWER: 92,
  CODE: 96,
  FLAGS: 100,
  FRAME: 104,
  DATA_LENGTH: 108,
  INSTANT: 112,
  LOGGED: 120,
  DATA: 128,
} as const;
const HAS_BALANCE = 1;
const HAS_TIMER = 2;
const IS_ACCEPTED = 4;
const HAS_ACCEPTED_CYCLES = 8;
const FAULTS = [
  undefined,
  'trap',
  'limit',
  'outOfCycles',
  'unavailable',
  'calledTrap',
  'noCallback',
] as const satisfies readonly (StepFault['kind'] | undefined)[];
const ANSWERS = [undefined, 'reply', 'reject'] as const satisfies readonly (Response['kind'] | undefined)[];

const CHANGES_HEADER_BYTES = 8;

/** False when the ring is full now. Large changes are handed over. */
export function writeChanges(ring: RingProducer, port: MessagePort, changes: Uint8Array): boolean {
  const at = ring.reserve(CHANGES, CHANGES_HEADER_BYTES + inlineBytes(changes));
  if (at < 0) return false;
  ring.words[at >> 2] = lengthField(changes);
  writeBytes(ring, port, at + CHANGES_HEADER_BYTES, changes, true);
  return true;
}

export function readChanges(ring: RingConsumer, port: MessagePort, at: number): Uint8Array {
  return readBytes(ring, port, at + CHANGES_HEADER_BYTES, wordAt(ring.words, at));
}

/** False when the ring is full now. The calls have been written before. A large reply is handed over. */
export function writeStep(ring: RingProducer, port: MessagePort, record: StepRecord): boolean {
  const { step, balance } = record;
  const { fault, answer } = step;
  let data: Uint8Array = EMPTY;
  if (fault !== undefined) data = encoder.encode(fault.message);
  else if (answer !== undefined) data = answer.kind === 'reply' ? answer.data : encoder.encode(answer.message);
  const at = ring.reserve(STEP, S.DATA + inlineBytes(data));
  if (at < 0) return false;
  const { words, floats, longs } = ring;
  floats[(at + S.INSTRUCTIONS) >> 3] = step.instructions;
  floats[(at + S.CHARGE) >> 3] = step.charge;
  floats[(at + S.HEAP) >> 3] = record.heapBytes;
  floats[(at + S.STABLE) >> 3] = record.stableBytes;
  floats[(at + S.VERSION) >> 3] = record.version;
  floats[(at + S.INSTANT) >> 3] = record.instantMs;
  floats[(at + S.LOGGED) >> 3] = record.loggedInstructions;
  let flags = step.isAccepted ? IS_ACCEPTED : 0;
  if (balance !== undefined) {
    flags |= HAS_BALANCE;
    writeAmount(longs, at + S.BALANCE, balance);
  }
  if (step.timerNs !== undefined) {
    flags |= HAS_TIMER;
    longs[(at + S.TIMER) >> 3] = step.timerNs;
  }
  if (step.cyclesAccepted !== 0n) {
    flags |= HAS_ACCEPTED_CYCLES;
    writeAmount(longs, at + S.ACCEPTED, step.cyclesAccepted);
  }
  words[(at + S.CALL) >> 2] = record.call;
  words[(at + S.HANDLE) >> 2] = record.handle;
  words[(at + S.FAULT) >> 2] = FAULTS.indexOf(fault?.kind);
  words[(at + S.ANSWER) >> 2] = fault === undefined ? ANSWERS.indexOf(answer?.kind) : 0;
  words[(at + S.CODE) >> 2] = fault?.code ?? (answer?.kind === 'reject' ? answer.code : 0);
  words[(at + S.FLAGS) >> 2] = flags;
  words[(at + S.FRAME) >> 2] = step.frame;
  words[(at + S.DATA_LENGTH) >> 2] = lengthField(data);
  writeBytes(ring, port, at + S.DATA, data, true);
  return true;
}

/** `calls`: those that came before it. */
export function readStep(
  ring: RingConsumer,
  port: MessagePort,
  at: number,
  calls: readonly OutgoingCall[],
): StepRecord {
  const { words, floats, longs } = ring;
  const word = (offset: number): number => wordAt(words, at + offset);
  const float = (offset: number): number => floatAt(floats, at + offset);
  const length = word(S.DATA_LENGTH);
  const data = length === 0 ? EMPTY : readBytes(ring, port, at + S.DATA, length);
  const flags = word(S.FLAGS);
  const faultKind = FAULTS[word(S.FAULT)];
  const answerKind = ANSWERS[word(S.ANSWER)];
  const code = rejectCodeOf(word(S.CODE));
  const fault: StepFault | undefined =
    faultKind === undefined ? undefined : { kind: faultKind, code, message: decoder.decode(data) };
  let answer: Response | undefined;
  if (answerKind === 'reply') answer = { kind: 'reply', data };
  else if (answerKind === 'reject') answer = { kind: 'reject', code, message: decoder.decode(data) };
  return {
    call: word(S.CALL),
    handle: word(S.HANDLE),
    heapBytes: float(S.HEAP),
    stableBytes: float(S.STABLE),
    version: float(S.VERSION),
    instantMs: float(S.INSTANT),
    loggedInstructions: float(S.LOGGED),
    balance: (flags & HAS_BALANCE) === 0 ? undefined : readAmount(longs, at + S.BALANCE),
    step: {
      fault,
      answer,
      calls,
      cyclesAccepted: (flags & HAS_ACCEPTED_CYCLES) === 0 ? 0n : readAmount(longs, at + S.ACCEPTED),
      timerNs: (flags & HAS_TIMER) === 0 ? undefined : longAt(longs, at + S.TIMER),
      isAccepted: (flags & IS_ACCEPTED) !== 0,
      frame: word(S.FRAME),
      instructions: float(S.INSTRUCTIONS),
      charge: float(S.CHARGE),
    },
  };
}

// ---- DEBUG
const D = { HANDLE: 0, RECORD: 4, TEXT_LENGTH: 8, LENGTH: 12, DATA: 16 } as const;
/** What the canister's log gets of a line. */
const RECORD = { NONE: 0, SAME: 1, OWN: 2 } as const;

/** False when the ring is full now. */
export function writeDebug(
  ring: RingProducer,
  port: MessagePort,
  handle: number,
  { text, record }: OutputLine,
): boolean {
  const kind = record === undefined ? RECORD.NONE : record === text ? RECORD.SAME : RECORD.OWN;
  const textBytes = Buffer.from(text);
  const data = kind === RECORD.OWN ? Buffer.concat([textBytes, Buffer.from(record ?? '')]) : textBytes;
  const at = ring.reserve(DEBUG, D.DATA + inlineBytes(data));
  if (at < 0) return false;
  const { words } = ring;
  words[(at + D.HANDLE) >> 2] = handle;
  words[(at + D.RECORD) >> 2] = kind;
  words[(at + D.TEXT_LENGTH) >> 2] = textBytes.length;
  words[(at + D.LENGTH) >> 2] = lengthField(data);
  writeBytes(ring, port, at + D.DATA, data, false);
  return true;
}

export function readDebug(
  ring: RingConsumer,
  port: MessagePort,
  at: number,
): { readonly handle: number; readonly line: OutputLine } {
  const word = (offset: number): number => wordAt(ring.words, at + offset);
  const data = readBytes(ring, port, at + D.DATA, word(D.LENGTH));
  const textLength = word(D.TEXT_LENGTH);
  const text = decoder.decode(data.subarray(0, textLength));
  const kind = word(D.RECORD);
  const own = kind === RECORD.OWN ? decoder.decode(data.subarray(textLength)) : undefined;
  return { handle: word(D.HANDLE), line: { text, record: kind === RECORD.SAME ? text : own } };
}

/** 128 bits, little endian. Nearly always 0. */
function writeAmount(longs: BigUint64Array, at: number, amount: bigint): void {
  longs[at >> 3] = amount === 0n ? 0n : BigInt.asUintN(64, amount);
  longs[(at >> 3) + 1] = amount === 0n ? 0n : amount >> 64n;
}

function readAmount(longs: BigUint64Array, at: number): bigint {
  const low = longAt(longs, at);
  const high = longAt(longs, at + 8);
  return high === 0n ? low : low | (high << 64n);
}

function rejectCodeOf(code: number): RejectCode {
  return code === 1 || code === 2 || code === 3 || code === 4 || code === 6 ? code : 5;
}

/** What stands at a byte of the ring. One function for each kind of array: V8 looks up each kind that `numberAt` of the kernel sees. */
function wordAt(words: Int32Array, at: number): number {
  const word = words[at >> 2];
  if (word === undefined) throw new Error(`no word at byte ${at} of the ring`);
  return word;
}

function floatAt(floats: Float64Array, at: number): number {
  const float = floats[at >> 3];
  if (float === undefined) throw new Error(`no number at byte ${at} of the ring`);
  return float;
}

function longAt(longs: BigUint64Array, at: number): bigint {
  const long = longs[at >> 3];
  if (long === undefined) throw new Error(`no number at byte ${at} of the ring`);
  return long;
}

/** `set` has a fixed cost of its own that short runs do not pay back. */
function copyInto(to: Uint8Array, at: number, from: Uint8Array): void {
  if (from.length > 64) to.set(from, at);
  // `?? 0`: the loop ends with the array.
  else for (let i = 0; i < from.length; i++) to[at + i] = from[i] ?? 0;
}
