/**
 * Stored bytes, and bytes that cross threads: a state directory of today has to open tomorrow, so none of these may
 * change unless the format's version does. After a wanted change: `node --test --test-update-snapshots
 * test/formats/pins.test.ts`, and read the diff.
 */
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MessageChannel } from 'node:worker_threads';
import { baseFile, epochFile, lineName, segmentFile } from '../../subsystems/archive/names.ts';
import { frameHeader, segmentHeader } from '../../subsystems/archive/segment-format.ts';
import { numbersBytes } from '../../subsystems/canisters/stored-values.ts';
import { CallbackBuffer, CLEANUP, REJECT, REPLY } from '../../subsystems/ic/callback-buffer.ts';
import {
  FULL_LIMIT,
  NO_FACTS,
  NO_NUMBERS,
  NOTHING_RAN,
  type OutgoingCall,
  type Task,
} from '../../subsystems/ic/index.ts';
import {
  encodeRecord,
  encodeCheckpointHeader,
  type LogRecord,
} from '../../subsystems/execution/persistence/log-record.ts';
import { PageEntries } from '../../subsystems/bytes/page-patch.ts';
import { RecordWriter } from '../../subsystems/bytes/record-bytes.ts';
import { writeCall, writeChanges, writeStep } from '../../subsystems/execution/wire/step-record.ts';
import { writeDebug } from '../../subsystems/execution/wire/debug-record.ts';
import { writeTask } from '../../subsystems/execution/wire/task-record.ts';
import { writeHistoryEntry } from '../../subsystems/management/records/history-value.ts';
import {
  chunkKey,
  historyKey,
  pieceKey,
  snapshotContentOf,
  snapshotKey,
} from '../../subsystems/management/records/record-keys.ts';
import { writeSettings } from '../../subsystems/management/records/settings-value.ts';
import { fileHead } from '../../subsystems/replay/capsule/capsule-format.ts';
import { pagesBytes } from '../../subsystems/replay/capsule/capsule-pages.ts';
import { endText, headText, messageText } from '../../subsystems/replay/capsule/capsule-texts.ts';
import { writeSnapshot } from '../../subsystems/management/records/snapshot-value.ts';
import { ScheduledCanister, CallContext, OpenCall } from '../../subsystems/scheduler/scheduled-canister.ts';
import { CALL, CONTEXT, keyOf, CallRecordWriter } from '../../subsystems/scheduler/call-records.ts';
import { AnswerRow } from '../../subsystems/scheduler/idempotency/answer-record.ts';
import { digestOf } from '../../subsystems/scheduler/idempotency/argument-digest.ts';
import { CanisterKeys, UnderWay } from '../../subsystems/scheduler/idempotency/canister-keys.ts';
import { idToText } from '../../subsystems/ic/id-text.ts';
import { backupHeader, blockCrc } from '../../subsystems/storage/backup-format.ts';
import { answersKey, logKey, memoryId, META, metaKey, payloadKey, WriteBatch } from '../../subsystems/storage/index.ts';
import { encodeFloor } from '../../subsystems/storage/log-floor.ts';
import { encodeHeader, encodePart, HEADER_BLOCK_BYTES, partBytes } from '../../subsystems/storage/step-log-format.ts';
import { createRing, RingConsumer, RingProducer } from '../../subsystems/threads/index.ts';

const ID = Uint8Array.of(128, 0, 0, 0, 0, 16, 0, 1, 1, 1);
const CALLER = Uint8Array.from({ length: 29 }, (_, at) => at + 1);
const HASH = Uint8Array.from({ length: 32 }, (_, at) => 255 - at);
const BYTES = Uint8Array.of(1, 2, 3, 250);
const LARGE = 2n ** 100n + 7n;
const PAYLOAD = payloadKey(ID, { version: 2 ** 40 + 1, index: 2 ** 20 + 3, piece: 258 });

const context = {
  caller: CALLER,
  deadlineNs: 5_000_000_000n,
  canAnswer: true,
  cyclesAvailable: LARGE,
  instructions: 7,
};
const bare = { caller: ID, deadlineNs: 0n, canAnswer: false, cyclesAvailable: 0n, instructions: 0 };

function callbacks(): Uint8Array {
  const buffer = new CallbackBuffer();
  buffer.set(REPLY, 1, 0x1234_5678_9abcn);
  buffer.set(REJECT, 2 ** 32 - 1, 7);
  buffer.set(CLEANUP, 3, -1n);
  buffer.slot = 9;
  return buffer.write();
}

const update = { kind: 'update', entry: 300, argument: BYTES, context, instructionsMax: FULL_LIMIT } as const;
const query: Task = { kind: 'query', entry: 1, argument: new Uint8Array(0), context: bare, instructionsMax: 1e9 };
const reply = {
  kind: 'callback',
  callbacks: callbacks(),
  response: { kind: 'reply', data: BYTES },
  refunded: 12n,
  context,
  frame: 0,
  instructionsMax: FULL_LIMIT,
} as const;
const reject: Task = {
  ...reply,
  response: { kind: 'reject', code: 4, message: 'nein, ünd' },
  refunded: LARGE,
  context: bare,
};
const system: Task = { kind: 'system', entry: 2 };
const inspect: Task = { kind: 'inspect', entry: 3, method: 'größe', argument: BYTES, caller: CALLER };
const dropFrame: Task = { kind: 'dropFrame', frame: 77 };
const settings = {
  controllers: [ID, CALLER],
  env: new Map([['A', 'ö']]),
  status: 'stopping',
  version: 17,
  heapBytesMax: 65_536,
} as const;

const shown = (name: string, bytes: Uint8Array): string =>
  `${name}\n${(
    Buffer.from(bytes)
      .toString('hex')
      .match(/.{1,96}/g) ?? []
  )
    .map((line) => `    ${line}\n`)
    .join('')}`;

function records(): string[] {
  const writer = new RecordWriter();
  const logged: Record<string, LogRecord> = {
    'an update': { kind: 'task', nowMs: 1.5, task: update, shared: undefined },
    'an update, after the shared variables changed': {
      kind: 'task',
      nowMs: 2,
      task: { ...update, context: bare, instructionsMax: 5 },
      shared: new Map([['B', 'x']]),
    },
    'an update that was refused memory': {
      kind: 'task',
      nowMs: 2,
      task: update,
      shared: undefined,
      shortages: [{ kind: 'refused', granted: 3 }],
    },
    'a callback that was stopped, and its cleanup refused memory': {
      kind: 'task',
      nowMs: 2,
      task: reply,
      shared: undefined,
      shortages: [
        { kind: 'stopped', instructions: 1234 },
        { kind: 'refused', granted: 0 },
      ],
    },
    'a callback of a reject': { kind: 'task', nowMs: 3, task: reject, shared: undefined },
    'a system task': { kind: 'task', nowMs: 4, task: system, shared: undefined },
    'new settings': { kind: 'configure', settings },
    'no settings': { kind: 'configure', settings: {} },
    numbers: { ...NO_NUMBERS, kind: 'numbers', balance: LARGE, version: 5, timerNs: 6n },
  };
  const standing = encodeCheckpointHeader(writer, {
    ...NO_NUMBERS,
    policy: {
      isEnabled: true,
      startingCycles: LARGE,
      cyclesPerMessage: 590_000,
      cyclesPer10Instructions: 4,
      instructionLimit: 4e10,
    },
    balance: 3n,
    version: 4,
    timerNs: 5n,
    instantMs: 6.25,
    settings,
    heapBytes: 131_072,
    stablePages: 2,
    openCalls: [
      { callee: CALLER, slot: 1, count: 2 },
      { callee: new Uint8Array(0), slot: 2, count: 500 },
    ],
  });
  return [
    shown('log: what it begins with', standing),
    ...Object.entries(logged).map(([name, record]) => shown(`log: ${name}`, encodeRecord(writer, record))),
  ];
}

function writeSet(): Uint8Array {
  const set = new WriteBatch();
  set.put('meta', metaKey(META.settings), BYTES);
  set.delete('log', logKey(ID, 70_000));
  set.clear('heap', memoryId(ID, 1));
  const page = new Uint8Array(4096);
  page.set([1, 0, 0, 0, 0, 0, 0, 0, 2], 4000);
  page[100] = 9;
  const entries = new PageEntries((pages, body) => set.patch('heap', memoryId(ID, 0), pages, body), 3);
  entries.addWhole(70_000, page, 0);
  entries.addChanged(1, undefined, 0, page, 0);
  entries.end();
  return set.take();
}

function callRecords(): string[] {
  const writer = new CallRecordWriter();
  const canister = new ScheduledCanister(3, idToText(ID));
  const client = new CallContext(
    canister,
    { kind: 'ingress', done: () => undefined, noted: undefined },
    { caller: CALLER, deadlineNs: 5n, cycles: LARGE },
  );
  const call = new OpenCall(client, CALLER, { callbacks: callbacks(), deadlineMs: 123.5, cycles: LARGE });
  const keyed = new CallContext(
    canister,
    { kind: 'ingress', done: () => undefined, noted: undefined },
    { caller: CALLER },
  );
  const asked = { caller: CALLER, method: 'm' };
  keyed.underWay = new UnderWay(asked, 'key', '=abc', 0, new CanisterKeys(canister), undefined, () => undefined);
  const started = new CallContext(canister, { kind: 'canister', call }, { caller: ID });
  started.pending = { kind: 'start', context: started, call: 'update', method: 'größe', argument: BYTES, order: 8 };
  const deleted = new CallContext(canister, { kind: 'system' }, { caller: new Uint8Array(0) });
  deleted.isDeleted = true;
  deleted.hasAnswered = true;
  deleted.instructions = 10;
  deleted.charge = 20;
  deleted.deletion = { kind: 'unavailable', code: 2, message: 'gone' };
  deleted.fault = { kind: 'noCallback', code: 5, message: 'none' };
  const stored = new CallContext(canister, { kind: 'canister', call }, { caller: ID });
  stored.pending = started.pending;
  stored.storedAs = PAYLOAD;
  const open = new OpenCall(client, CALLER, { callbacks: callbacks(), deadlineMs: 123.5, cycles: LARGE });
  open.pending = { kind: 'response', call: open, response: { kind: 'reply', data: BYTES }, refunded: 1n, order: 2 };
  open.storedAs = PAYLOAD;
  const between = new OpenCall(client, CALLER, { callbacks: callbacks(), deadlineMs: 123.5, cycles: LARGE });
  between.madeAs = { node: 'node-1', number: 2 ** 40 };
  const answered = (response: OpenCall['pending']): Uint8Array => {
    call.pending = response;
    return writer.call(call, 2 ** 40);
  };
  return [
    shown('calls: key of a context', keyOf(CONTEXT, 2 ** 40 + 1)),
    shown('calls: key of a call', keyOf(CALL, 3)),
    shown('calls: context of a client', writer.context(client, 0)),
    shown('calls: context of a call that has not begun', writer.context(started, 2 ** 33)),
    shown('calls: context that was deleted', writer.context(deleted, 0)),
    shown('calls: a call', answered(undefined)),
    shown(
      'calls: a call with a reply',
      answered({ kind: 'response', call, response: { kind: 'reply', data: BYTES }, refunded: 1n, order: 2 }),
    ),
    shown(
      'calls: a call with a reject',
      answered({
        kind: 'response',
        call,
        response: { kind: 'reject', code: 3, message: 'ü' },
        refunded: LARGE,
        order: 2 ** 35,
      }),
    ),
    shown('calls: a credit', writer.credit(ID, LARGE)),
    shown('calls: context of a client that gave it a key', writer.context(keyed, 0)),
    shown('calls: key of a row of a payload', PAYLOAD),
    shown('calls: context of a call whose argument is stored in rows', writer.context(stored, 2 ** 33)),
    shown('calls: a call with a reply that is stored in rows', writer.call(open, 2 ** 40)),
    shown('calls: a call between shards', writer.call(between, 2 ** 40)),
  ];
}

function answers(): string[] {
  const call = { caller: CALLER, key: 'key', method: 'größer', digest: '=abc' };
  const nothing = { instructions: 0, charge: 0 };
  const row = new AnswerRow().begin(2 ** 40 + 3);
  row.add(call, { kind: 'reply', data: BYTES, ...nothing }, 1_800_000_000_000.9);
  const kinds = ['reject', 'trap', 'limit', 'noReply', 'outOfCycles', 'unavailable'] as const;
  for (const [at, kind] of kinds.entries()) row.add(call, { kind, code: 5, message: 'ü', ...nothing }, at);
  return [
    shown('answers: key of a row', answersKey(ID, 2 ** 40 + 3)),
    shown('answers: that there are some', metaKey(META.answers, ID)),
    shown('answers: a row', row.view()),
    shown('answers: digest of 32 bytes', Buffer.from(digestNow(HASH), 'latin1')),
    shown('answers: digest of more', Buffer.from(digestNow(Buffer.concat([HASH, BYTES])), 'latin1')),
  ];
}

function digestNow(argument: Uint8Array): string {
  const digest = digestOf(argument);
  if (typeof digest !== 'string') throw new Error('it takes no time');
  return digest;
}

function management(): string[] {
  const own = {
    computeAllocation: 0n,
    memoryAllocation: 1n,
    freezingThreshold: 2_592_000n,
    reservedCyclesLimit: LARGE,
    minimumIncomingCanisterCallCycles: 4n,
    wasmMemoryLimit: 5n,
    wasmMemoryThreshold: 6n,
    logVisibility: { kind: 'controllers' },
    snapshotVisibility: { kind: 'viewers', viewers: [ID, CALLER] },
    statusVisibility: { kind: 'public' },
  } as const;
  const entry = { timeNs: 10n ** 18n, version: 300 };
  const user = { kind: 'user', id: CALLER } as const;
  const canister = { kind: 'canister', id: ID, version: 7n } as const;
  const history = [
    { kind: 'creation', controllers: [ID, CALLER], environmentHash: HASH },
    { kind: 'codeUninstall' },
    { kind: 'codeDeployment', mode: 'upgrade', moduleHash: HASH },
    {
      kind: 'loadSnapshot',
      from: undefined,
      snapshotId: BYTES,
      version: 8n,
      takenAtNs: 9n,
      isUploaded: true,
    },
    { kind: 'controllersChange', controllers: [] },
  ] as const;
  const description = {
    source: 'taken',
    wasmBytes: 100,
    heapBytes: 65_536,
    stableBytes: 131_072,
    bytes: 300_000,
    certifiedData: BYTES,
    chunkHashes: [Buffer.from(HASH).toString('hex')],
    version: 6,
    timerNs: 7n,
    lowMemoryHook: 'ready',
  } as const;
  const snapshot = snapshotContentOf(ID, 5n);
  return [
    shown('management: settings', writeSettings(own)),
    ...history.map((details, at) =>
      shown(
        `management: history, ${details.kind}`,
        writeHistoryEntry({ ...entry, origin: at % 2 === 0 ? user : canister, details }),
      ),
    ),
    shown('management: a snapshot', writeSnapshot({ takenAtNs: 3n, pieces: 4, description })),
    shown(
      'management: an uploaded snapshot',
      writeSnapshot({
        takenAtNs: 3n,
        pieces: 0,
        description: { ...description, source: 'uploaded', timerNs: undefined, lowMemoryHook: undefined },
      }),
    ),
    shown('management: key of a snapshot', snapshotKey(ID, 5n)),
    shown('management: key of a chunk', chunkKey(ID, HASH)),
    shown('management: key of a change', historyKey(ID, 6)),
    shown("management: key of a snapshot's piece", pieceKey(snapshot, 'h', 2 ** 33)),
  ];
}

function archive(): string[] {
  const place = { epoch: 2, first: 7, last: 2 ** 40, timeMs: Date.UTC(2026, 0, 2) + 0.25 };
  const line = lineName(place.timeMs, HASH.subarray(0, 4));
  const { epoch, first, last } = place;
  const times = { firstMs: place.timeMs, lastMs: place.timeMs + 1000 };
  const header = segmentHeader({ stateFormat: 3, line, epoch, first, last, ...times, bytes: 99 });
  const files = [epochFile(epoch), baseFile({ epoch, unit: 6, timeMs: place.timeMs }), segmentFile(place)];
  return [
    shown('archive: header of a segment', header),
    shown('archive: a frame', Buffer.concat([frameHeader(9, place.timeMs, [BYTES]), BYTES])),
    shown('archive: names', Buffer.from([line, ...files].join('\n'))),
  ];
}

function storage(): string[] {
  const { bytes, seed } = encodeHeader(
    { generation: 3, start: { unit: 2 ** 40, part: 5 }, durable: 2 ** 40 - 1, segmentBytes: 2 ** 26 },
    HASH.subarray(0, 8),
  );
  const part = Buffer.alloc(partBytes(BYTES.length));
  encodePart(part, 0, { unit: 9, part: 3, isLast: true, isMark: false, durable: 7, length: BYTES.length }, BYTES, seed);
  const { line, crc } = backupHeader(2, Date.UTC(2026, 0, 2));
  const block = Buffer.concat([Buffer.alloc(9, 1), BYTES]);
  return [
    shown('storage: a unit', writeSet()),
    shown(`storage: header of a segment, ${HEADER_BLOCK_BYTES} bytes are reserved for it`, bytes),
    shown('storage: a part', part),
    shown('storage: what the tables know of the log', encodeFloor({ generation: 2 ** 33, durable: 2 ** 40 })),
    shown('storage: first line of a backup', line),
    shown(
      'storage: checksum of its first block',
      Buffer.from(blockCrc(block, crc).toString(16).padStart(8, '0'), 'hex'),
    ),
  ];
}

function wire(): string[] {
  const shared = createRing(1 << 16);
  const producer = new RingProducer(shared);
  const consumer = new RingConsumer(shared);
  const { port1: port } = new MessageChannel();
  const call: OutgoingCall = {
    callee: CALLER,
    method: 'größe',
    payload: BYTES,
    cycles: LARGE,
    timeoutSeconds: 10,
    callbacks: callbacks(),
  };
  const step = {
    ...NOTHING_RAN,
    answer: { kind: 'reply', data: BYTES } as const,
    cyclesAccepted: LARGE,
    timerNs: 5n,
    instructions: 1000,
    charge: 2000,
  };
  const faulty = {
    ...NOTHING_RAN,
    fault: { kind: 'trap', code: 5, message: 'größe' } as const,
    isAccepted: true,
    frame: 3,
  };
  const about = {
    call: 4,
    handle: 5,
    heapBytes: 65_536,
    stableBytes: 131_072,
    numbers: { ...NO_NUMBERS, version: 6 },
    instantMs: 7.5,
    loggedInstructions: 8,
  };
  const written: Record<string, () => boolean> = {};
  for (const task of [update, query, reply, reject, system, inspect, dropFrame]) {
    const kind = task.kind === 'callback' ? `callback of a ${task.response.kind}` : task.kind;
    written[`task: ${kind}`] = () => writeTask(producer, port, { nowMs: 1.5, call: 2, handle: 3, task });
  }
  written['call'] = () => writeCall(producer, port, call);
  written['call without limit'] = () => writeCall(producer, port, { ...call, timeoutSeconds: undefined });
  written['step with an answer'] = () => writeStep(producer, port, { ...about, step, balance: undefined });
  written['step with a fault'] = () => writeStep(producer, port, { ...about, step: faulty, balance: LARGE });
  const { fault } = faulty;
  written['step with a fault and its stack'] = () =>
    writeStep(producer, port, {
      ...about,
      step: { ...faulty, fault: { ...fault, stack: 'inner\nouter' } },
      balance: LARGE,
    });
  written['task: update of a canister'] = () =>
    writeTask(producer, port, {
      nowMs: 1.5,
      call: 2,
      handle: 3,
      task: { ...update, context: { ...context, keepsAnswer: true } },
    });
  written['call whose payload is stored'] = () => writeCall(producer, port, { ...call, storedAs: PAYLOAD });
  written['step with an answer that is stored'] = () =>
    writeStep(producer, port, {
      ...about,
      step: { ...step, answer: { ...step.answer, storedAs: PAYLOAD } },
      balance: undefined,
    });
  written['changes'] = () => writeChanges(producer, port, BYTES);
  written['debug line'] = () => writeDebug(producer, port, 3, { text: 'größe', record: undefined });
  written['debug line with a record'] = () => writeDebug(producer, port, 3, { text: 'a', record: '[TRAP]: a' });
  const lines: string[] = [];
  for (const [name, write] of Object.entries(written)) {
    if (!write()) throw new Error(`${name} did not fit`);
    producer.publish();
    consumer.drain((type, at, length) => {
      lines.push(shown(`thread: ${name}, type ${type}`, consumer.bytes.subarray(at, at + length)));
    });
  }
  port.close();
  return lines;
}

/** Parts of a capsule before they are deflated, which another zlib may do otherwise. */
function capsules(): string[] {
  const head = {
    actor: 'größe',
    id: ID,
    from: 7,
    hasCalls: true,
    facts: { svc: '0.1.0 (dev)' },
    policy: {
      isEnabled: true,
      cyclesPerMessage: 590_000,
      cyclesPer10Instructions: 4,
      instructionLimit: 40_000_000_000,
    },
    variables: new Map([['A', 'b']]),
  };
  const place = { seq: 7, unit: 9, timeMs: 1.5 };
  const state = {
    ...place,
    moduleHash: Buffer.from(HASH).toString('hex'),
    wasm: undefined,
    balance: LARGE,
    version: 3,
    status: 'running',
    settings: {
      controllers: [CALLER],
      environment: new Map([['C', 'd']]),
      facts: NO_FACTS,
      heapBytesMax: Infinity,
      givenCandid: undefined,
    },
    timerMs: Infinity,
    timersNs: [0n, 5n],
    openCalls: 1,
    heapBytes: 65_536,
    stableBytes: 0,
    image: { heap: BYTES, stable: [], stablePages: 0, globals: BYTES, certifiedData: BYTES },
  } as const;
  const answered = { callbacks: new Uint8Array(56).fill(7), rejectCode: 4, refunded: LARGE };
  const note = {
    kind: 'callback',
    outcome: 'reply',
    instantMs: 1.5,
    instructions: 8,
    charge: 590_004,
    version: 3,
    heapBytes: 65_536,
    stableBytes: 0,
    openCalls: 0,
    balance: LARGE,
    timerNs: undefined,
    caller: CALLER,
    method: '',
    argument: BYTES,
    call: { canAnswer: true, cyclesAvailable: LARGE, deadlineNs: 5n, answered },
  } as const;
  const pages = { numbers: Uint32Array.of(3), bytes: new Uint8Array(4_096).fill(1) };
  const none = { numbers: new Uint32Array(0), bytes: new Uint8Array(0) };
  const message = {
    entry: { ...place, note, bytes: 12, isArgumentCut: false },
    before: state,
    after: { ...state, isNew: false, changed: { heap: pages, stable: none } },
    isAlone: true,
    otherServer: undefined,
  };
  return [
    shown('capsule: what it begins with', fileHead()),
    shown('capsule: head', headText(head)),
    shown('capsule: message', messageText(message)),
    shown('capsule: end', endText({ messages: 1, why: undefined })),
    shown('capsule: pages', pagesBytes(pages).subarray(0, 16)),
  ];
}

test('what is stored, and what crosses threads, is byte for byte as recorded', (t) => {
  const numbers = numbersBytes({
    balance: LARGE,
    ofMessages: { ...NO_NUMBERS, version: 1 },
    timerMs: Number.POSITIVE_INFINITY,
    heapBytes: 2,
    stableBytes: 3,
    messages: 4,
    traps: 5,
    lastMessageMs: 6.5,
    instantMs: 7.5,
    cyclesCharged: 8,
    status: 'stopped',
    lowMemoryHook: 'executed',
  });
  const text = [
    ...records(),
    shown("a canister's numbers", numbers),
    ...callRecords(),
    ...answers(),
    ...management(),
    ...storage(),
    ...archive(),
    ...capsules(),
    ...wire(),
  ].join('\n');
  t.assert.fileSnapshot(text, fileURLToPath(new URL('../fixtures/formats.txt', import.meta.url)), {
    serializers: [String],
  });
});
