/**
 * Records of a step, and of the calls and changes that precede it, in the ring. The executor writes them, the main
 * thread reads them (wire.ts).
 */
import type { MessagePort } from 'node:worker_threads';
import {
  CALLBACK_BYTES,
  MESSAGE_NUMBERS,
  type MessageNumbers,
  placeOf,
  putNumbers,
  type OutgoingCall,
  type Response,
  type StepFault,
  type ToldStep,
} from '../../ic/index.ts';
import type { RingConsumer, RingProducer } from '../../threads/index.ts';
import {
  PRINCIPAL_BYTES,
  copyInto,
  floatAt,
  inlineBytes,
  lengthField,
  longAt,
  readAmount,
  readBytes,
  rejectCodeOf,
  wordAt,
  writeAmount,
  writeBytes,
} from './ring-bytes.ts';
import { PAYLOAD_KEY_BYTES } from '../../storage/index.ts';
import { CALL, CHANGES, STEP } from './wire.ts';
import { NameCache, NO_BYTES } from '../../bytes/index.ts';

/** An executor's report of a canister with each step. */
export interface StepRecord extends ToldStep {
  readonly call: number;
  readonly handle: number;
}

/** The same as it is written: its calls, changes and lines have been written before. */
type WrittenStep = Omit<StepRecord, 'isReturned' | 'changes' | 'lines' | keyof MessageNumbers> & {
  readonly numbers: MessageNumbers;
};

/** Parts of a message that came before its step. */
interface BeforeStep {
  readonly calls: readonly OutgoingCall[];
  readonly changes: StepRecord['changes'];
  readonly lines: StepRecord['lines'];
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const names = new NameCache();

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
/** Flag in CALLEE_LENGTH: behind the method stands where the payload is stored. */
const IS_STORED = 1 << 8;

/** Returns false if the ring is full now. */
export function writeCall(ring: RingProducer, port: MessagePort, call: OutgoingCall): boolean {
  const method = names.bytesOf(call.method);
  const { storedAs = NO_BYTES } = call;
  const at = ring.reserve(CALL, C.METHOD + method.length + storedAs.length + inlineBytes(call.payload));
  if (at < 0) return false;
  const { words, longs, bytes } = ring;
  writeAmount(longs, at + C.CYCLES, call.cycles);
  words[(at + C.TIMEOUT) >> 2] = call.timeoutSeconds ?? NO_TIMEOUT;
  words[(at + C.CALLEE_LENGTH) >> 2] = call.callee.length | (storedAs.length > 0 ? IS_STORED : 0);
  words[(at + C.METHOD_LENGTH) >> 2] = method.length;
  words[(at + C.PAYLOAD_LENGTH) >> 2] = lengthField(call.payload);
  copyInto(bytes, at + C.CALLEE, call.callee);
  copyInto(bytes, at + C.CALLBACKS, call.callbacks);
  copyInto(bytes, at + C.METHOD, method);
  copyInto(bytes, at + C.METHOD + method.length, storedAs);
  writeBytes(ring, port, at + C.METHOD + method.length + storedAs.length, call.payload, true);
  return true;
}

export function readCall(ring: RingConsumer, port: MessagePort, at: number): OutgoingCall {
  const { words, longs, bytes } = ring;
  const word = (offset: number): number => wordAt(words, at + offset);
  const methodEnd = at + C.METHOD + word(C.METHOD_LENGTH);
  const isStored = (word(C.CALLEE_LENGTH) & IS_STORED) !== 0;
  const payloadAt = isStored ? methodEnd + PAYLOAD_KEY_BYTES : methodEnd;
  const timeout = word(C.TIMEOUT);
  const call = {
    callee: bytes.slice(at + C.CALLEE, at + C.CALLEE + (word(C.CALLEE_LENGTH) & ~IS_STORED)),
    method: names.textOf(bytes, at + C.METHOD, word(C.METHOD_LENGTH)),
    payload: readBytes(ring, port, payloadAt, word(C.PAYLOAD_LENGTH)),
    cycles: readAmount(longs, at + C.CYCLES),
    timeoutSeconds: timeout === NO_TIMEOUT ? undefined : timeout,
    callbacks: bytes.slice(at + C.CALLBACKS, at + C.CALLBACKS + CALLBACK_BYTES),
  };
  return isStored ? { ...call, storedAs: bytes.slice(methodEnd, payloadAt) } : call;
}

// ---- STEP
/** End of the numbers. */
const N = 32 + 8 * MESSAGE_NUMBERS;
const S = {
  INSTRUCTIONS: 0,
  CHARGE: 8,
  HEAP: 16,
  STABLE: 24,
  NUMBERS: 32,
  BALANCE: N,
  ACCEPTED: N + 16,
  TIMER: N + 32,
  CALL: N + 40,
  HANDLE: N + 44,
  FAULT: N + 48,
  ANSWER: N + 52,
  CODE: N + 56,
  FLAGS: N + 60,
  FRAME: N + 64,
  DATA_LENGTH: N + 68,
  INSTANT: N + 72,
  LOGGED: N + 80,
  DATA: N + 88,
} as const;
const VERSION_AT = S.NUMBERS + 8 * placeOf('version');
const HAS_BALANCE = 1;
const HAS_TIMER = 2;
const IS_ACCEPTED = 4;
const HAS_ACCEPTED_CYCLES = 8;
/** Before the reply stands where it is stored. */
const IS_REPLY_STORED = 16;
/** Behind a fault's message stand a NUL and its stack. */
const HAS_STACK = 32;
const STACK_BEGIN = '\0';
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

/** Writes a piece of a step's changes. Returns false if the ring is full now. A large piece is handed over. */
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

/** Writes a step, after its calls. Returns false if the ring is full now. A large reply is handed over. */
export function writeStep(ring: RingProducer, port: MessagePort, record: WrittenStep): boolean {
  const { step, balance } = record;
  const { fault, answer } = step;
  let data: Uint8Array = NO_BYTES;
  if (fault !== undefined) data = encoder.encode(faultText(fault));
  else if (answer !== undefined) data = answer.kind === 'reply' ? answer.data : encoder.encode(answer.message);
  const storedAs = (answer?.kind === 'reply' && answer.storedAs) || NO_BYTES;
  const at = ring.reserve(STEP, S.DATA + storedAs.length + inlineBytes(data));
  if (at < 0) return false;
  const { words, floats, longs } = ring;
  floats[(at + S.INSTRUCTIONS) >> 3] = step.instructions;
  floats[(at + S.CHARGE) >> 3] = step.charge;
  floats[(at + S.HEAP) >> 3] = record.heapBytes;
  floats[(at + S.STABLE) >> 3] = record.stableBytes;
  putNumbers(floats, (at + S.NUMBERS) >> 3, record.numbers);
  floats[(at + S.INSTANT) >> 3] = record.instantMs;
  floats[(at + S.LOGGED) >> 3] = record.loggedInstructions;
  let flags = step.isAccepted ? IS_ACCEPTED : 0;
  if (fault?.stack !== undefined) flags |= HAS_STACK;
  if (storedAs.length > 0) {
    flags |= IS_REPLY_STORED;
    copyInto(ring.bytes, at + S.DATA, storedAs);
  }
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
  writeBytes(ring, port, at + S.DATA + storedAs.length, data, true);
  return true;
}

export function readStep(ring: RingConsumer, port: MessagePort, at: number, before: BeforeStep): StepRecord {
  const { words, floats, longs } = ring;
  const word = (offset: number): number => wordAt(words, at + offset);
  const float = (offset: number): number => floatAt(floats, at + offset);
  const length = word(S.DATA_LENGTH);
  const flags = word(S.FLAGS);
  const storedBytes = (flags & IS_REPLY_STORED) === 0 ? 0 : PAYLOAD_KEY_BYTES;
  const dataAt = at + S.DATA + storedBytes;
  const data = length === 0 ? NO_BYTES : readBytes(ring, port, dataAt, length);
  const faultKind = FAULTS[word(S.FAULT)];
  const answerKind = ANSWERS[word(S.ANSWER)];
  const code = rejectCodeOf(word(S.CODE));
  const fault: StepFault | undefined =
    faultKind === undefined
      ? undefined
      : { kind: faultKind, code, ...faultTexts(decoder.decode(data), (flags & HAS_STACK) !== 0) };
  let answer: Response | undefined;
  if (answerKind === 'reply' && storedBytes > 0)
    answer = { kind: 'reply', data, storedAs: ring.bytes.slice(at + S.DATA, dataAt) };
  else if (answerKind === 'reply') answer = { kind: 'reply', data };
  else if (answerKind === 'reject') answer = { kind: 'reject', code, message: decoder.decode(data) };
  return {
    isReturned: false,
    call: word(S.CALL),
    handle: word(S.HANDLE),
    changes: before.changes,
    lines: before.lines,
    heapBytes: float(S.HEAP),
    stableBytes: float(S.STABLE),
    version: float(VERSION_AT),
    instantMs: float(S.INSTANT),
    loggedInstructions: float(S.LOGGED),
    balance: (flags & HAS_BALANCE) === 0 ? undefined : readAmount(longs, at + S.BALANCE),
    step: {
      fault,
      answer,
      calls: before.calls,
      cyclesAccepted: (flags & HAS_ACCEPTED_CYCLES) === 0 ? 0n : readAmount(longs, at + S.ACCEPTED),
      timerNs: (flags & HAS_TIMER) === 0 ? undefined : longAt(longs, at + S.TIMER),
      isAccepted: (flags & IS_ACCEPTED) !== 0,
      frame: word(S.FRAME),
      instructions: float(S.INSTRUCTIONS),
      charge: float(S.CHARGE),
    },
  };
}

function faultText({ message, stack }: StepFault): string {
  return stack === undefined ? message : `${message}${STACK_BEGIN}${stack}`;
}

/** A message may have a NUL of its own, and the name of a function has none. */
function faultTexts(text: string, hasStack: boolean): Pick<StepFault, 'message' | 'stack'> {
  if (!hasStack) return { message: text };
  const at = text.lastIndexOf(STACK_BEGIN);
  return { message: text.slice(0, at), stack: text.slice(at + 1) };
}
