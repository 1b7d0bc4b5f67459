/** Capsules come from anybody: whatever stands in one ends with a reason or a verdict, within stated bounds. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { before, test, type TestContext } from 'node:test';
import { crc32, deflateRawSync } from 'node:zlib';
import { ServerError, systemClock } from '../../../kernel/index.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { CodecPool } from '../../../subsystems/codec/codec-pool.ts';
import { ExecutorPool } from '../../../subsystems/execution/pool/executor-pool.ts';
import { SECTION } from '../../../subsystems/replay/capsule/capsule-format.ts';
import { CapsuleTimeline } from '../../../subsystems/replay/capsule/capsule-timeline.ts';
import { Capsules } from '../../../subsystems/replay/capsule/capsules.ts';
import { type Capsule, decodeCapsule } from '../../../subsystems/replay/capsule/decode-capsule.ts';
import { type CapsuleReplay, CapsuleReplays } from '../../../subsystems/replay/capsule/replay-capsule.ts';
import { capsuleOf, changed, changedAt, rawSections, sectionsOf } from '../../support/capsule-sections.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { startInProcess } from '../../support/in-process-server.ts';
import { RecordingLogger, SeededRandom } from '../../support/kernel.ts';
import { compileCounter } from '../../support/motoko.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const HEAD_BYTES = 12;
const SECTION_HEAD_BYTES = 13;

/** Two messages of a counter: an `inc`, and an upgrade. */
let capsule: Buffer;
before(async () => {
  const ends: (() => Promise<void>)[] = [];
  const owner = { after: (end: () => Promise<void>) => void ends.push(end) };
  const server = await startInProcess(owner, { args: ['--state', await temporaryDirectory(), '--timeline', '3600'] });
  const counter = await compileCounter();
  assert.equal((await server.post('/install/counter', counter)).status, 200);
  do assert.equal((await server.post('/call-json/counter/inc')).status, 200);
  while ((await server.get('/x/time/state/counter')).status !== 200);
  assert.equal((await server.post('/call-json/counter/inc')).status, 200);
  assert.equal((await server.post('/upgrade/counter', counter)).status, 200);
  const { body } = await server.get('/x/time/timeline/counter?limit=1000');
  const seq = (JSON.parse(body) as { seq: number }[]).at(-1)?.seq ?? 0;
  const response = await server.fetch(`/x/time/capsule/counter?seq=${seq - 1}&count=2`);
  assert.equal(response.status, 200);
  capsule = Buffer.from(await response.arrayBuffer());
  for (const end of ends) await end();
});

/** Resolves with the reason why a capsule cannot be read, or with the capsule. Anything else is a bug. */
async function decoded(file: Buffer, what: string): Promise<Capsule | string> {
  try {
    return await decodeCapsule(file);
  } catch (error) {
    assert.ok(error instanceof ServerError, `${what}: ${String(error)}`);
    assert.equal(error.code, 'capsule-bad', what);
    assert.match(error.message, /^at byte \d+: ./, what);
    return error.message;
  }
}

test('a capsule that was cut, and one with any other byte, is refused with the place', async () => {
  assert.equal(typeof (await decoded(capsule, 'whole')), 'object');
  const ends = new Set<number>();
  let at = HEAD_BYTES;
  for (const section of rawSections(capsule)) {
    for (const near of [-1, 0, 1, SECTION_HEAD_BYTES - 1, SECTION_HEAD_BYTES, SECTION_HEAD_BYTES + 1])
      ends.add(at + near);
    at += section.length;
  }
  const random = new SeededRandom(7);
  const anywhere = (): number => Buffer.from(random.bytes(4)).readUInt32LE() % capsule.length;
  for (let n = 0; n < 100; n++) ends.add(anywhere());
  for (const end of ends) {
    const reason = await decoded(capsule.subarray(0, end), `cut at ${end}`);
    assert.equal(typeof reason, 'string', `cut at ${end}`);
  }
  const places = [...ends, ...Array.from({ length: 400 }, anywhere), ...Array(HEAD_BYTES).keys()];
  for (const place of places.filter((each) => each < capsule.length)) {
    const other = Buffer.from(capsule);
    other[place] = (other[place] ?? 0) ^ (1 << (place % 8));
    assert.equal(typeof (await decoded(other, `byte ${place}`)), 'string', `byte ${place}`);
  }
});

/** Returns a section of the kind head, whose length is what it says. */
function headOf(packed: Buffer, length: number): Buffer {
  const head = Buffer.alloc(SECTION_HEAD_BYTES);
  head.writeUInt8(SECTION.head);
  head.writeUInt32LE(packed.length, 1);
  head.writeUInt32LE(length, 5);
  head.writeUInt32LE(crc32(packed, crc32(head.subarray(0, 9))), 9);
  return Buffer.concat([capsule.subarray(0, HEAD_BYTES), head, packed]);
}

test('bytes that unpack to more than they say, or than there may be, are not unpacked', async () => {
  const bomb = deflateRawSync(Buffer.alloc(100 * 2 ** 20));
  const cases: readonly (readonly [Buffer, RegExp])[] = [
    [headOf(bomb, 100), /cannot be unpacked to 100 bytes: Cannot create a Buffer larger than 100 bytes/],
    [headOf(bomb, 0), /cannot be unpacked to 0 bytes/],
    [headOf(bomb, 100 * 2 ** 20), /has 104857600 bytes unpacked, which is too many/],
    [headOf(bomb.subarray(0, 100), 100), /cannot be unpacked|says that it has/],
    [headOf(Buffer.from('no deflate'), 100), /cannot be unpacked/],
    [headOf(deflateRawSync(Buffer.from('{}')), 3), /says that it has 3 bytes unpacked, and has 2/],
    [headOf(deflateRawSync(Buffer.from('[')), 1), /it is no JSON/],
    [headOf(deflateRawSync(Buffer.alloc(7 * 2 ** 20, '[')), 7 * 2 ** 20), /it is no JSON/],
    [headOf(deflateRawSync(Buffer.from([0xff])), 1), /it is no JSON/],
    [headOf(deflateRawSync(Buffer.from('[]')), 2), /it is no object/],
  ];
  for (const [file, why] of cases) {
    const reason = await decoded(file, String(why));
    assert.ok(typeof reason === 'string');
    assert.match(reason, why);
  }
  const sections = sectionsOf(capsule);
  const modules = Array.from({ length: 1_001 }, (_, at) => ({ kind: SECTION.module, bytes: Buffer.alloc(at) }));
  const many = await decoded(await capsuleOf([...sections.slice(0, 1), ...modules, ...sections.slice(1)]), 'modules');
  assert.ok(typeof many === 'string');
  assert.match(many, /it has more than 1000 modules/);
});

test('pages and sections that do not fit are refused', async () => {
  const pages = (change: (bytes: Buffer) => Buffer): Promise<Buffer> => changed(capsule, SECTION.heapBefore, change);
  const cases: readonly (readonly [Buffer, RegExp])[] = [
    [await pages((bytes) => bytes.subarray(0, -1)), /pages have others/],
    [await pages(() => Buffer.alloc(3)), /it has 3 bytes/],
    [await pages(() => Buffer.from('ffffffff', 'hex')), /it has 4 bytes, and 4294967295 pages have others/],
    [await pages((bytes) => withNumber(bytes, 0xffff_ffff)), /page 4294967295 lies beyond \d+ bytes/],
    [
      await pages((bytes) =>
        Buffer.concat([bytes.subarray(0, 4), bytes.subarray(8, 12), bytes.subarray(4, 8), bytes.subarray(12)]),
      ),
      /page \d+ stands behind page \d+/,
    ],
    [
      await changed(capsule, SECTION.module, (bytes) => Buffer.concat([bytes, Buffer.alloc(1)])),
      /the module [0-9a-f]{64} of seq:\d+ is not before it/,
    ],
    [
      await changed(capsule, SECTION.end, () => Buffer.from('{"messages":3}')),
      /there are 2 messages, and there were 3/,
    ],
  ];
  for (const [file, why] of cases) {
    const reason = await decoded(file, String(why));
    assert.ok(typeof reason === 'string', String(why));
    assert.match(reason, why);
  }
  const sections = sectionsOf(capsule);
  for (let at = 0; at < sections.length; at++) {
    const others = [
      sections.toSpliced(at, 1),
      sections.toSpliced(at, 0, ...sections.slice(at, at + 1)),
      sections.slice(0, at),
    ];
    for (const other of others) {
      // A module that stands twice, and pages that nobody changed, are no harm.
      const found = await decoded(await capsuleOf(other), `section ${at}`);
      const { kind } = sections[at] ?? { kind: 0 };
      if (kind === SECTION.head || kind === SECTION.message || kind === SECTION.argument || kind === SECTION.end)
        assert.equal(typeof found, 'string', `section ${at}`);
    }
  }
});

function withNumber(bytes: Buffer, number: number): Buffer {
  const count = bytes.readUInt32LE();
  bytes.writeUInt32LE(number, 4 * count);
  return bytes;
}

/** Values in the place of others. */
const OTHERS: readonly unknown[] = [
  null,
  -1,
  0,
  1.5,
  7,
  65_536,
  2 ** 29,
  2 ** 31,
  2 ** 53,
  1e300,
  true,
  '',
  '5',
  'zz',
  '00',
  '9'.repeat(39),
  '1'.repeat(50),
  'update',
  'callback',
  'upgrade',
  'timer',
  'install',
  [],
  [null],
  ['00'],
  {},
  { x: 'y' },
];

/** Yields copies of a value in which one member, at any depth, is another or is left out. */
function* mutations(value: unknown): Generator {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, member] of Object.entries(value)) {
    const put = (other: unknown): unknown =>
      Array.isArray(value) ? value.with(Number(key), other) : { ...value, [key]: other };
    for (const other of OTHERS) yield put(other);
    yield put(undefined);
    for (const inner of mutations(member)) yield put(inner);
  }
}

type Kind = CapsuleReplay['verdict']['kind'];

/** Returns who replays a capsule, and tells the verdicts. */
function replayer(t: TestContext, { head }: Capsule): (file: Capsule) => Promise<readonly Kind[]> {
  const policy = { ...head.policy, startingCycles: 0n };
  const execution = new ExecutorPool(
    { policy, clock: systemClock, log: new RecordingLogger() },
    { executors: 1, wasmStackBytes: 4 << 20, memoryBytes: 2 ** 30 },
  );
  const codecs = new CodecPool();
  t.after(async () => {
    await execution.close();
    await codecs.close();
  });
  // As a server in this process tells it.
  const server = { version: '0.0.0 (test)', policy };
  const needs = { execution, codec: createCodec(codecs), clock: systemClock, server };
  return async (file) => {
    const kinds: Kind[] = [];
    for await (const { verdict } of new CapsuleReplays(needs, file).messages()) kinds.push(verdict.kind);
    return kinds;
  };
}

const TEXTS: ReadonlySet<number> = new Set([SECTION.head, SECTION.message, SECTION.end]);

test('any other value in its JSON ends with a reason or with a verdict', { timeout: 900_000 }, async (t) => {
  const whole = await decodeCapsule(capsule);
  const replayed = replayer(t, whole);
  assert.deepEqual(await replayed(whole), ['exact', 'exact']);
  const ends = new Map<string, number>();
  const count = (end: string): void => void ends.set(end, (ends.get(end) ?? 0) + 1);
  let turn = 0;
  for (const [place, { kind, bytes }] of sectionsOf(capsule).entries()) {
    if (!TEXTS.has(kind)) continue;
    for (const mutation of mutations(JSON.parse(bytes.toString()))) {
      const json = JSON.stringify(mutation);
      const file = await decoded(await changedAt(capsule, place, () => Buffer.from(json)), json);
      if (typeof file === 'string') count('refused');
      // A part of those that can be read: each takes a moment.
      else if (++turn % 4 === 0) for (const end of await replayed(file)) count(end);
    }
  }
  for (const end of ['refused', 'exact', 'different', 'unsure', 'failed'])
    assert.ok((ends.get(end) ?? 0) > 0, `${end} is not among ${JSON.stringify([...ends])}`);
  assert.deepEqual(await replayed(whole), ['exact', 'exact'], 'nothing of that stays');
  t.diagnostic(JSON.stringify([...ends]));
});

test('callbacks, arguments, pages and modules of any bytes end with a verdict', { timeout: 900_000 }, async (t) => {
  const whole = await decodeCapsule(capsule);
  const replayed = replayer(t, whole);
  const random = new SeededRandom(11);
  const sections = sectionsOf(capsule);
  const place = (kind: number): number => sections.findIndex((section) => section.kind === kind);
  const answers = (at: number): object => ({
    callbacks: Buffer.from(at % 3 === 0 ? random.bytes(56) : Buffer.alloc(56, at)).toString('hex'),
    rejectCode: at % 7,
    refunded: String(2n ** 128n - 1n),
  });
  const texts: Buffer[] = [];
  for (let at = 0; at < 24; at++) {
    const answered = answers(at);
    texts.push(
      await changedAt(capsule, place(SECTION.message), (bytes) => {
        const message = JSON.parse(bytes.toString()) as { readonly note: object };
        const call = { canAnswer: at % 2 === 0, cyclesAvailable: String(2n ** 128n - 1n), deadlineNs: '5', answered };
        return Buffer.from(JSON.stringify({ ...message, note: { ...message.note, kind: 'callback', call } }));
      }),
    );
    texts.push(await changedAt(capsule, place(SECTION.argument), () => Buffer.from(random.bytes(at * 40))));
    texts.push(
      await changedAt(capsule, place(SECTION.heapBefore), (bytes) => {
        const from = bytes.readUInt32LE() * 4 + 4;
        // Many places at once: what the code reads is among them.
        for (let n = at * 911; n < bytes.length - from; n += 97) bytes[from + n] = random.bytes(1)[0] ?? 0;
        return bytes;
      }),
    );
  }
  const module = Buffer.from('0061736d01000000', 'hex');
  const hash = createHash('sha256').update(module).digest('hex');
  const [own = ''] = whole.modules.keys();
  const named = await changedAt(capsule, place(SECTION.module), () => module);
  texts.push(
    await capsuleOf(
      sectionsOf(named).map(({ kind, bytes }) =>
        kind === SECTION.message
          ? { kind, bytes: Buffer.from(bytes.toString().replaceAll(own, hash)) }
          : { kind, bytes },
      ),
    ),
  );
  for (const [at, bytes] of texts.entries()) {
    const file = await decoded(bytes, `mutation ${at}`);
    assert.ok(typeof file !== 'string', `mutation ${at} cannot be read`);
    const [first] = await replayed(file);
    assert.notEqual(first, undefined);
    assert.ok(at % 3 !== 0 || first !== 'exact', `mutation ${at}: a callback of nothing is exact`);
  }
  assert.deepEqual(await replayed(whole), ['exact', 'exact'], 'nothing of that stays');
});

/** Returns who makes capsules of the messages of one. */
function making(whole: Capsule): { readonly capsules: Capsules; readonly clock: FakeClock } {
  const clock = new FakeClock();
  const timeline = new CapsuleTimeline(whole, undefined);
  const policy = { ...whole.head.policy, startingCycles: 0n };
  return { capsules: new Capsules({ execution: {}, timeline, clock }, { version: '0', policy }), clock };
}

test('one capsule is made at a time, until its client goes or ten minutes are over', async () => {
  const whole = await decodeCapsule(capsule);
  const { capsules, clock } = making(whole);
  const asked = { id: whole.head.id, name: 'counter', seq: whole.head.from, count: 2 };
  const gone = new AbortController();
  const make = (): AsyncGenerator<Uint8Array> => capsules.make(asked, gone.signal);
  const first = make();
  assert.equal((await first.next()).done, false);
  await assert.rejects(make().next(), { code: 'capsule-busy' });
  await first.return(undefined);
  const second = make();
  await second.next();
  clock.advance(600_000);
  await assert.rejects(second.next(), { code: 'capsule-late' });
  const third: Uint8Array[] = [];
  for await (const piece of make()) third.push(piece);
  const again = await decodeCapsule(Buffer.concat(third));
  assert.deepEqual(again.parts, whole.parts, 'a capsule of a capsule is the same');
  assert.equal(capsules.made, 1);
  const fourth = make();
  await fourth.next();
  gone.abort(new Error('the client is gone'));
  await assert.rejects(fourth.next(), /the client is gone/);
});
