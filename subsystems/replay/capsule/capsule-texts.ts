/**
 * The parts of a capsule that are JSON: its head, what it has of each message, and its end. Bytes are hex, numbers of
 * 64 and 128 bits are texts, and null stands for what is not there.
 */
import type { ServerError } from '../../../kernel/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import {
  CALLBACK_BYTES,
  CANISTER_STATUSES,
  factsAmong,
  NO_FACTS,
  PRINCIPAL_BYTES_MAX,
  WASM_PAGE_BYTES,
} from '../../ic/index.ts';
import type { MeteringPolicy } from '../../metering/index.ts';
import {
  MESSAGE_KINDS,
  MESSAGE_OUTCOMES,
  type Note,
  type NotedAnswer,
  type NotedCall,
  type PastMessage,
  type PastState,
  type Place,
  type ServerFacts,
} from '../../timeline/index.ts';
import { CAPSULE_BYTES_MAX } from './capsule-format.ts';
import { type JsonMembers, membersOf } from './json-members.ts';

type Refuse = (reason: string) => ServerError;

/** The begin of a capsule, before its messages. */
export interface CapsuleHead {
  /** Name of the actor when the capsule was made. */
  readonly actor: string;
  readonly id: Uint8Array;
  /** The first message that was asked for: those before it are there for calls that they made. */
  readonly from: number;
  /** True if no message answers a call that was made before the first one of the capsule. */
  readonly hasCalls: boolean;
  /** Facts of the server that made the capsule. */
  readonly facts: ServerFacts;
  /** Prices and limits of that server. */
  readonly policy: Omit<MeteringPolicy, 'startingCycles'>;
  /** Variables that all of its actors had, and its root key if one of them read it. */
  readonly variables: ReadonlyMap<string, string>;
}

export interface CapsuleEnd {
  readonly messages: number;
  /** Why there are fewer than were asked for; undefined: there are as many. */
  readonly why: string | undefined;
}

/** State as a capsule's JSON has it: memories and modules stand in sections of their own. */
type CapsuleState = Omit<PastState, 'image' | 'wasm' | 'sha256'> & {
  readonly image: Pick<PastState['image'], 'globals' | 'certifiedData'>;
};

/** Message as a capsule's JSON has it. */
export interface CapsuleMessage extends Omit<PastMessage, 'before' | 'after'> {
  readonly before: CapsuleState;
  readonly after: CapsuleState & { readonly isNew: boolean };
}

const ID_BYTES = 10;
const HASH_BYTES = 32;
const NAME_CHARACTERS_MAX = 1_024;
const METHOD_CHARACTERS_MAX = 65_536;
/** The year 2255, from which on there are no nanoseconds in 63 bits. */
const MS_MAX = 9e12;
const REJECT_CODE_MAX = 6;
const UNIT_MAX = 2 ** 48;
/** Heaps of a capsule are in memory whole. */
const HEAP_BYTES_MAX = CAPSULE_BYTES_MAX;
/** Bytes of a stable memory: the numbers of its pages have 32 bits, and those of zeros are not in memory. */
const STABLE_BYTES_MAX = 2 ** 32 * PAGE_BYTES;
const CONTROLLERS_MAX = 1_024;
const VARIABLES_MAX = 65_536;
const FACTS_MAX = 64;
/** Reasons and facts are printed. */
const REASON_CHARACTERS_MAX = 4_096;
const TIMERS_MAX = 8;

// ---- head and end

export function headText({ id, variables, ...head }: CapsuleHead): Buffer {
  return textOf({ ...head, id: hexOf(id), variables: Object.fromEntries(variables) });
}

/** Throws what `refuse` returns. */
export function readHead(utf8: Uint8Array, refuse: Refuse): CapsuleHead {
  const head = membersOf(utf8, refuse);
  const policy = head.object('policy');
  return {
    actor: head.text('actor', NAME_CHARACTERS_MAX),
    id: head.bytes('id', ID_BYTES, ID_BYTES),
    from: head.whole('from'),
    hasCalls: head.flag('hasCalls'),
    facts: Object.fromEntries(head.texts('facts', FACTS_MAX, REASON_CHARACTERS_MAX)),
    policy: {
      isEnabled: policy.flag('isEnabled'),
      cyclesPerMessage: policy.whole('cyclesPerMessage'),
      cyclesPer10Instructions: policy.whole('cyclesPer10Instructions'),
      instructionLimit: policy.whole('instructionLimit'),
    },
    variables: head.texts('variables', VARIABLES_MAX),
  };
}

export function endText({ messages, why }: CapsuleEnd): Buffer {
  return textOf({ messages, why: why ?? null });
}

/** Throws what `refuse` returns. */
export function readEnd(utf8: Uint8Array, refuse: Refuse): CapsuleEnd {
  const end = membersOf(utf8, refuse);
  return {
    messages: end.whole('messages'),
    why: end.isNone('why') ? undefined : end.text('why', REASON_CHARACTERS_MAX),
  };
}

// ---- messages

export function messageText({ entry, before, after, isAlone, otherServer }: PastMessage): Buffer {
  const { note, bytes, isArgumentCut: _cut, ...place } = entry;
  return textOf({
    ...place,
    bytes,
    note: noteJson(note),
    before: stateJson(before),
    after: { ...stateJson(after), isNew: after.isNew },
    isAlone,
    otherServer: otherServer ?? null,
  });
}

/** Throws what `refuse` returns. `argument`: that of the message, which has a section of its own. */
export function readMessage(utf8: Uint8Array, refuse: Refuse): (argument: Uint8Array) => CapsuleMessage {
  const message = membersOf(utf8, refuse);
  const [place, note] = [readPlace(message), readNote(message.object('note'))];
  const [before, after] = [message.object('before'), message.object('after')];
  const read = {
    before: readState(before),
    after: { ...readState(after), isNew: after.flag('isNew') },
    isAlone: message.flag('isAlone'),
    otherServer: message.isNone('otherServer') ? undefined : message.text('otherServer', REASON_CHARACTERS_MAX),
  };
  const bytes = message.whole('bytes');
  return (argument) => ({
    ...read,
    entry: { ...place, bytes, isArgumentCut: false, note: { ...note, argument } },
  });
}

function readPlace(members: JsonMembers): Place {
  const [seq, unit] = [members.whole('seq'), members.whole('unit', UNIT_MAX)];
  return { seq, unit, timeMs: members.number('timeMs', MS_MAX) };
}

function noteJson({ argument: _argument, ...note }: Note): object {
  const { caller, balance, timerNs, call } = note;
  return {
    ...note,
    caller: hexOf(caller),
    balance: digitsOf(balance),
    timerNs: digitsOf(timerNs),
    call: call === undefined ? null : callJson(call),
  };
}

function callJson({ answered, cyclesAvailable, deadlineNs, canAnswer }: NotedCall): object {
  const told = { canAnswer, cyclesAvailable: digitsOf(cyclesAvailable), deadlineNs: digitsOf(deadlineNs) };
  if (answered === undefined) return { ...told, answered: null };
  const { callbacks, rejectCode, refunded } = answered;
  return { ...told, answered: { callbacks: hexOf(callbacks), rejectCode, refunded: digitsOf(refunded) } };
}

function readNote(note: JsonMembers): Omit<Note, 'argument'> {
  return {
    kind: note.among('kind', MESSAGE_KINDS),
    outcome: note.among('outcome', MESSAGE_OUTCOMES),
    instantMs: note.number('instantMs', MS_MAX),
    instructions: note.whole('instructions'),
    charge: note.number('charge'),
    version: note.whole('version'),
    heapBytes: note.whole('heapBytes'),
    stableBytes: note.whole('stableBytes'),
    openCalls: note.whole('openCalls', 2 ** 32),
    balance: note.isNone('balance') ? undefined : note.natural('balance', 128),
    timerNs: note.isNone('timerNs') ? undefined : note.natural('timerNs', 64),
    caller: note.bytes('caller', PRINCIPAL_BYTES_MAX),
    method: note.text('method', METHOD_CHARACTERS_MAX),
    call: note.isNone('call') ? undefined : readCall(note.object('call')),
    ...(!note.isNone('upgrade') && { upgrade: readUpgrade(note.object('upgrade')) }),
  };
}

function readCall(call: JsonMembers): NotedCall {
  return {
    canAnswer: call.flag('canAnswer'),
    cyclesAvailable: call.natural('cyclesAvailable', 128),
    deadlineNs: call.natural('deadlineNs', 64),
    answered: call.isNone('answered') ? undefined : readAnswer(call.object('answered')),
  };
}

function readAnswer(answer: JsonMembers): NotedAnswer {
  return {
    callbacks: answer.bytes('callbacks', CALLBACK_BYTES, CALLBACK_BYTES),
    rejectCode: answer.whole('rejectCode', REJECT_CODE_MAX),
    refunded: answer.natural('refunded', 128),
  };
}

function readUpgrade(upgrade: JsonMembers): Note['upgrade'] & object {
  return { keepsHeap: upgrade.flag('keepsHeap'), skipsPreUpgrade: upgrade.flag('skipsPreUpgrade') };
}

// ---- states

function stateJson(state: CapsuleState): object {
  const { seq, unit, timeMs, moduleHash, balance, version, status, openCalls, heapBytes, stableBytes, image } = state;
  const { controllers, environment, facts, heapBytesMax, givenCandid } = state.settings;
  const { timerMs, timersNs } = state;
  return {
    seq,
    unit,
    timeMs,
    moduleHash: moduleHash ?? null,
    balance: digitsOf(balance),
    version,
    status,
    settings: {
      controllers: controllers.map(hexOf),
      environment: Object.fromEntries(environment),
      facts,
      heapBytesMax: heapBytesMax === Infinity ? null : heapBytesMax,
      givenCandid: givenCandid ?? null,
    },
    timerMs: timerMs === Infinity ? null : timerMs,
    timersNs: timersNs.map(digitsOf),
    openCalls,
    heapBytes,
    stableBytes,
    globals: hexOf(image.globals),
    certifiedData: hexOf(image.certifiedData),
  };
}

function readState(state: JsonMembers): CapsuleState {
  const settings = state.object('settings');
  return {
    ...readPlace(state),
    moduleHash: state.isNone('moduleHash') ? undefined : hexOf(state.bytes('moduleHash', HASH_BYTES, HASH_BYTES)),
    balance: state.natural('balance', 128),
    version: state.whole('version'),
    status: state.among('status', CANISTER_STATUSES),
    settings: {
      controllers: settings.bytesList('controllers', CONTROLLERS_MAX, PRINCIPAL_BYTES_MAX),
      environment: settings.texts('environment', VARIABLES_MAX),
      facts: readFacts(settings.object('facts')),
      heapBytesMax: settings.isNone('heapBytesMax') ? Infinity : settings.whole('heapBytesMax'),
      givenCandid: settings.isNone('givenCandid') ? undefined : settings.text('givenCandid'),
    },
    timerMs: state.isNone('timerMs') ? Infinity : state.number('timerMs'),
    timersNs: state.naturals('timersNs', 64, TIMERS_MAX),
    openCalls: state.whole('openCalls', 2 ** 32),
    heapBytes: state.multiple('heapBytes', WASM_PAGE_BYTES, HEAP_BYTES_MAX),
    stableBytes: state.multiple('stableBytes', WASM_PAGE_BYTES, STABLE_BYTES_MAX),
    image: { globals: state.bytes('globals'), certifiedData: state.bytes('certifiedData') },
  };
}

/** Facts that are not there are the default. */
function readFacts(facts: JsonMembers): PastState['settings']['facts'] {
  const given = Object.keys(NO_FACTS).filter((name) => !facts.isNone(name));
  return factsAmong(Object.fromEntries(given.map((name) => [name, facts.flag(name)]))) ?? NO_FACTS;
}

function textOf(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');
}

function digitsOf(number: bigint | undefined): string | null {
  return number === undefined ? null : String(number);
}
