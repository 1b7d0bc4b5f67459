/** A task in the ring: the main thread writes it, the executor reads it (wire.ts). */
import type { MessagePort } from 'node:worker_threads';
import { CALLBACK_BYTES, type ContextView, type RunKind, type Task } from '../../ic/index.ts';
import type { RingConsumer, RingProducer } from '../../threads/index.ts';
import {
  PRINCIPAL_BYTES,
  copyInto,
  floatAt,
  INLINE_BYTES_MAX,
  inlineBytes,
  lengthField,
  longAt,
  readAmount,
  rejectCodeOf,
  viewBytes,
  wordAt,
  writeAmount,
  writeBytes,
} from './ring-bytes.ts';
import { TASK } from './wire.ts';
import { NameCache, NO_BYTES } from '../../bytes/index.ts';

/** A task on its way. */
export interface TaskRecord {
  nowMs: number;
  /** Number of the answer that is awaited. */
  call: number;
  handle: number;
  task: Task;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const names = new NameCache();

// ---- TASK: byte offsets in the payload. f64 and u64 fields are 8-aligned.
const T = {
  NOW: 0,
  INSTRUCTIONS: 8,
  INSTRUCTIONS_MAX: 16,
  DEADLINE: 24,
  AVAILABLE: 32,
  REFUNDED: 48,
  /** Number of a method's context: methods have no refund. */
  NUMBER: 48,
  CALL: 64,
  HANDLE: 68,
  KIND: 72,
  ENTRY: 76,
  FLAGS: 80,
  CODE: 84,
  FRAME: 88,
  CALLER_LENGTH: 92,
  METHOD_LENGTH: 96,
  DATA_LENGTH: 100,
  CALLER: 104,
  CALLBACKS: 104 + PRINCIPAL_BYTES,
  DATA: 104 + PRINCIPAL_BYTES + CALLBACK_BYTES,
} as const;

const CAN_ANSWER = 1;
const KEEPS_ANSWER = 2;
const KEEPS_ARGUMENT = 4;

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

function flagsOf({ canAnswer, keepsAnswer, keepsArgument }: ContextView): number {
  return (
    (canAnswer ? CAN_ANSWER : 0) |
    (keepsAnswer === true ? KEEPS_ANSWER : 0) |
    (keepsArgument === true ? KEEPS_ARGUMENT : 0)
  );
}

/** Writes a task. Returns false if the ring is full now. A large argument of an update or a query is handed over. */
export function writeTask(ring: RingProducer, port: MessagePort, { nowMs, call, handle, task }: TaskRecord): boolean {
  let data: Uint8Array = NO_BYTES;
  let method: Uint8Array = NO_BYTES;
  if (isMethod(task)) data = task.argument;
  else if (task.kind === 'callback') {
    data = task.response.kind === 'reply' ? task.response.data : encoder.encode(task.response.message);
  } else if (task.kind === 'inspect') {
    data = task.argument;
    method = names.bytesOf(task.method);
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
    words[(at + T.FLAGS) >> 2] = flagsOf(context);
    words[(at + T.CALLER_LENGTH) >> 2] = context.caller.length;
    copyInto(bytes, at + T.CALLER, context.caller);
  }
  if (isMethod(task)) floats[(at + T.NUMBER) >> 3] = task.context.number ?? 0;
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

/**
 * Returns the task at `at`. Its argument may be a view of the ring, valid only as long as the record; all else is
 * copied.
 */
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

/** Returns the same task with bytes of its own, for later: a view of the ring does not last. */
export function ownTask(task: Task): Task {
  if (isMethod(task) || task.kind === 'inspect') return { ...task, argument: ownBytes(task.argument) };
  if (task.kind === 'callback' && task.response.kind === 'reply')
    return { ...task, response: { kind: 'reply', data: ownBytes(task.response.data) } };
  return task;
}

/** Bytes that came by the port are the reader's own; others are a view of the ring. */
function ownBytes(bytes: Uint8Array): Uint8Array {
  return bytes.length > INLINE_BYTES_MAX ? bytes : bytes.slice();
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
    return { kind, entry, argument, caller, method: names.textOf(bytes, at + T.DATA, word(T.METHOD_LENGTH)) };
  }
  const flags = word(T.FLAGS);
  const context: ContextView = {
    caller,
    deadlineNs: longAt(longs, at + T.DEADLINE),
    canAnswer: (flags & CAN_ANSWER) !== 0,
    keepsAnswer: (flags & KEEPS_ANSWER) !== 0,
    keepsArgument: (flags & KEEPS_ARGUMENT) !== 0,
    cyclesAvailable: readAmount(longs, at + T.AVAILABLE),
    instructions: floatAt(floats, at + T.INSTRUCTIONS),
    number: kind === 'callback' ? 0 : floatAt(floats, at + T.NUMBER),
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
