/** Real servers and the real command: messages are taken along as a file, and are executed again where no server is. */
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { SECTION } from '../../subsystems/replay/capsule/capsule-format.ts';
import { CapsuleTimeline } from '../../subsystems/replay/capsule/capsule-timeline.ts';
import { decodeCapsule } from '../../subsystems/replay/capsule/decode-capsule.ts';
import { capsulePieces } from '../../subsystems/replay/capsule/encode-capsule.ts';
import { changed } from '../support/capsule-sections.ts';
import { compileCounter, compileMotoko } from '../support/motoko.ts';
import { replayFile, replayIn } from '../support/replay-file.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';
import { Deployment } from './durability/deployment.ts';
import type { Host } from './semantics/host.ts';
import { begun, call, FLAGS, HOLDER, PEER, SHOP, traffic } from './shop.ts';

let shop: Uint8Array;
let peer: Uint8Array;
let holder: Uint8Array;
let counter: Uint8Array;
before(async () => {
  shop = (await compileMotoko(SHOP)).wasm;
  peer = (await compileMotoko(PEER)).wasm;
  holder = (await compileMotoko(HOLDER)).wasm;
  counter = await compileCounter();
});

interface Listed {
  readonly seq: number;
  readonly kind: string;
  readonly method: string;
  readonly outcome: string;
  readonly instructions: number;
}

async function started(
  t: TestContext,
  modules: Readonly<Record<string, Uint8Array>> = { shop, peer, holder },
): Promise<{ deployment: Deployment; host: Host }> {
  const deployment = await Deployment.create(t, { args: FLAGS, modules });
  await deployment.start();
  return { deployment, host: deployment.host };
}

async function listed({ server }: Host, name: string): Promise<readonly Listed[]> {
  return JSON.parse((await server.get(`/x/time/timeline/${name}?limit=1000`)).body) as Listed[];
}

async function capsule({ server }: Host, name: string, query: string): Promise<Buffer> {
  const response = await server.fetch(`/x/time/capsule/${name}?${query}`);
  const bytes = Buffer.from(await response.arrayBuffer());
  assert.equal(response.status, 200, bytes.toString());
  return bytes;
}

/** Resolves with the number of a message of a counter that is answered, whose state before is kept. */
async function increased(host: Host): Promise<number> {
  const { server } = host;
  await host.until(async () => {
    assert.equal((await server.post('/call-json/counter/inc', '[]')).status, 200);
    assert.equal((await server.get('/x/time/state/counter')).status, 200);
  });
  assert.equal((await server.post('/call-json/counter/inc', '[]')).status, 200);
  return (await listed(host, 'counter')).at(-1)?.seq ?? 0;
}

test('messages of every kind are exact where there is neither server nor state', async (t) => {
  const { deployment, host } = await started(t);
  await begun(host);
  await traffic(host, (await host.find('peer')).principal);
  assert.equal((await host.server.post('/upgrade/shop', shop)).body, 'upgraded');
  await call(host, 'add', [{ book: '8' }]);
  const messages = await listed(host, 'shop');
  const wanted = ['update reply', 'update trap', 'callback reply', 'timer done', 'upgrade done'];
  const capsules: (readonly [Listed, Buffer])[] = [];
  for (const kind of wanted) {
    const message = messages.findLast((each) => `${each.kind} ${each.outcome}` === kind);
    assert.ok(message, kind);
    capsules.push([message, await capsule(host, 'shop', `seq=${message.seq}`)]);
  }
  const last = messages.at(-1)?.seq ?? 0;
  const many = await capsule(host, 'shop', `seq=${last - 12}&count=100`);
  await deployment.kill();
  for (const [{ seq, kind, method, outcome, instructions }, bytes] of capsules) {
    const { code, stdout, stderr } = await replayFile(bytes);
    const what = method === '' ? kind : `${kind} ${method}`;
    const line = `seq:${seq} ${what}: ${outcome}, ${instructions} instructions: exact`;
    assert.deepEqual(stdout.split('\n').slice(1), [line, '1 of 1 message(s) exact', ''], stdout + stderr);
    assert.deepEqual([code, stderr], [0, '']);
  }
  const { parts } = await decodeCapsule(many);
  for (const { entry, found } of parts.slice(1))
    assert.deepEqual([...found.heap.numbers, ...found.stable.numbers], [], `seq:${entry.seq} found what was left`);
  const { code, stdout } = await replayFile(many);
  assert.equal(code, 0, stdout);
  assert.match(
    stdout,
    new RegExp(`^fewer messages than were asked for: the actor's newest message is seq:${last}$`, 'm'),
  );
  assert.match(stdout, /^13 of 13 message\(s\) exact$/m);
});

test('a capsule of a counter has a name, and its code, and is told by JSON lines', async (t) => {
  const { host } = await started(t, { counter });
  const seq = await increased(host);
  const response = await host.server.fetch(`/x/time/capsule/counter?seq=${seq}`);
  assert.equal(response.headers.get('content-type'), 'application/octet-stream');
  assert.equal(response.headers.get('content-disposition'), `attachment; filename="counter-${seq}.capsule"`);
  const bytes = Buffer.from(await response.arrayBuffer());
  const { head, parts, modules } = await decodeCapsule(bytes);
  assert.deepEqual([head.actor, head.from, head.hasCalls, parts.length], ['counter', seq, true, 1]);
  assert.deepEqual(Object.keys(head.facts), [
    'svc',
    'V8',
    'the processor',
    'the price of a message',
    'the instruction limit',
    'the instrumenter',
  ]);
  assert.deepEqual(
    [...modules.values()].map(({ length }) => length),
    [counter.length],
  );
  const { code, stdout } = await replayFile(bytes, '--log-json');
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const [message, end] = lines;
  assert.deepEqual([code, lines.length], [0, 2]);
  assert.deepEqual(Object.keys(message ?? {}), ['seq', 'kind', 'method', 'outcome', 'instructions', 'exact']);
  assert.deepEqual([message?.['seq'], message?.['method'], message?.['exact']], [seq, 'inc', true]);
  assert.deepEqual(end, { messages: 1, exact: 1, otherServer: null, why: null });
  assert.match((await host.server.get('/metrics')).body, /^svc_capsules_total 1$/m);
});

test('a profile of the messages is written in the form that the name of the file says', async (t) => {
  const { host } = await started(t, { counter });
  const seq = await increased(host);
  assert.equal((await host.server.post('/call-json/counter/inc', '[]')).status, 200);
  const folder = await temporaryDirectory();
  await writeFile(join(folder, 'one.capsule'), await capsule(host, 'counter', `seq=${seq}&count=2`));
  const written = async (name: string): Promise<string> => {
    const { code, stdout, stderr } = await replayIn(folder, '--replay', 'one.capsule', '--profile', name);
    assert.equal(code, 0, stdout + stderr);
    assert.match(stdout, /^2 of 2 message\(s\) exact$/m);
    return await readFile(join(folder, name), 'utf8');
  };
  const { instructions } = (await listed(host, 'counter')).at(-1) ?? { instructions: 0 };
  const folded = await written('out.txt');
  assert.match(folded, /^counter;inc;inc \d+$/m);
  const numbers = [...folded.matchAll(/ (\d+)$/gm)].map(([, number]) => Number(number));
  assert.equal(
    numbers.reduce((sum, number) => sum + number, 0),
    2 * instructions,
  );
  assert.match(await written('out.svg'), /^<svg .*<title>counter: [\d,]+ instructions/s);
  const { samples } = JSON.parse(await written('out.cpuprofile')) as { readonly samples: readonly number[] };
  assert.equal(samples.length, 500);
  await mkdir(join(folder, 'folder.svg'));
  for (const [out, reason] of [
    ['nowhere/out.svg', /--profile: .*out\.svg cannot be written: ENOENT/],
    ['folder.svg', /--profile: .*folder\.svg cannot be written: it is a directory/],
  ] as const) {
    const lost = await replayIn(folder, '--replay', 'one.capsule', '--profile', out);
    // Nothing is executed for it.
    assert.deepEqual([lost.code, lost.stdout], [2, '']);
    assert.match(lost.stderr, reason);
  }
  assert.equal((await host.server.post('/upgrade/counter', counter)).status, 200);
  const last = (await listed(host, 'counter')).at(-1)?.seq ?? 0;
  await writeFile(join(folder, 'one.capsule'), await capsule(host, 'counter', `seq=${last}`));
  const none = await replayIn(folder, '--replay', 'one.capsule', '--profile', 'none.svg');
  assert.deepEqual([none.code, /there is nothing to profile/.test(none.stderr)], [1, true], none.stderr);
});

test('another state behind a message, another argument or another record is told by the first difference', async (t) => {
  const { host } = await started(t, { counter });
  const seq = await increased(host);
  const bytes = await capsule(host, 'counter', `seq=${seq}`);
  const flip = (at: number) => (section: Buffer) => {
    section[at] = (section[at] ?? 0) ^ 1;
    return section;
  };
  const text = (from: string, to: string) => (section: Buffer) => {
    const other = section.toString().replace(from, to);
    assert.notEqual(other, section.toString(), from);
    return Buffer.from(other);
  };
  const { instructions } = (await listed(host, 'counter')).at(-1) ?? { instructions: 0 };
  const cases: readonly (readonly [Buffer, RegExp])[] = [
    [await changed(bytes, SECTION.heapBehind, flip(4_096)), /heap at byte \d+ was [0-9a-f]{32} and is [0-9a-f]{32}$/m],
    [
      await changed(
        bytes,
        SECTION.message,
        text(`"instructions":${instructions}`, `"instructions":${instructions + 1}`),
      ),
      new RegExp(`: different: instructions was ${instructions + 1} and is ${instructions}$`, 'm'),
    ],
    [await changed(bytes, SECTION.message, text('"outcome":"reply"', '"outcome":"trap"')), /: outcome was trap and is/],
  ];
  for (const [other, told] of cases) {
    const { code, stdout, stderr } = await replayFile(other);
    assert.equal(code, 1, stdout + stderr);
    assert.match(stdout, told);
    assert.match(stdout, /^0 of 1 message\(s\) exact$/m);
  }
  const json = await replayFile(cases[1]?.[0] ?? bytes, '--log-json');
  const [message = '{}'] = json.stdout.split('\n');
  const { exact, difference } = JSON.parse(message) as Record<string, unknown>;
  assert.deepEqual([exact, difference], [false, { what: 'instructions', was: instructions + 1, is: instructions }]);
});

test('a capsule of another svc, V8 or processor is exact, or claims no more than that it differs', async (t) => {
  const { host } = await started(t, { counter });
  const seq = await increased(host);
  const bytes = await capsule(host, 'counter', `seq=${seq}`);
  const facts = (section: Buffer): Buffer => {
    const head = JSON.parse(section.toString()) as { facts: Record<string, string> };
    return Buffer.from(JSON.stringify({ ...head, facts: { ...head.facts, V8: '1.2.3', 'the processor': 'pdp11' } }));
  };
  const other = await changed(bytes, SECTION.head, facts);
  const exact = await replayFile(other);
  assert.equal(exact.code, 0, exact.stdout);
  assert.match(exact.stdout, /^made by another server.*: V8 was 1\.2\.3 and is .*, the processor was pdp11 and is /m);
  const flipped = await changed(other, SECTION.heapBehind, (section) => {
    section[5_000] = (section[5_000] ?? 0) ^ 1;
    return section;
  });
  const { code, stdout } = await replayFile(flipped);
  assert.equal(code, 1, stdout);
  assert.match(stdout, /: unsure: heap at byte .*; another server executed the message: V8 was 1\.2\.3/);
});

/** Code whose callback keeps how many instructions its whole call took. */
const COUNTING = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "canister_self_copy" (func $self (param i32 i32 i32)))
  (import "ic0" "performance_counter" (func $counted (param i32) (result i64)))
  (import "ic0" "call_new" (func $new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_perform" (func $perform (result i32)))
  (memory 1)
  (table 1 1 funcref)
  (elem (i32.const 0) $called)
  (data (i32.const 0) "get")
  (func $called (param i32)
    (i64.store (i32.const 200) (call $counted (i32.const 1)))
    (call $reply))
  (func (export "canister_update get") (call $reply))
  (func (export "canister_update go")
    (call $self (i32.const 100) (i32.const 0) (i32.const 10))
    (call $new (i32.const 100) (i32.const 10) (i32.const 0) (i32.const 3)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
    (drop (call $perform))))`);

test('messages before a callback come along, or a difference is said to be unsure', async (t) => {
  const { host } = await started(t, { shop: COUNTING });
  await host.until(async () => {
    assert.equal((await host.server.post('/call/shop/get', '')).status, 200);
    assert.equal((await host.server.get('/x/time/state/shop')).status, 200);
  });
  for (let n = 0; n < 2; n++) assert.equal((await host.server.post('/call/shop/go', '')).status, 200);
  const seq = (await listed(host, 'shop')).findLast(({ kind }) => kind === 'callback')?.seq ?? 0;
  const bytes = await capsule(host, 'shop', `seq=${seq}`);
  const { head, parts } = await decodeCapsule(bytes);
  assert.deepEqual([head.from, head.hasCalls], [seq, true]);
  assert.deepEqual(
    parts.map(({ entry }) => entry.seq - seq),
    [-3, -2, -1, 0],
  );
  const { code, stdout } = await replayFile(bytes);
  assert.equal(code, 0, stdout);
  assert.match(stdout, /^1 of 1 message\(s\) exact$/m);
  const whole = new CapsuleTimeline(await decodeCapsule(bytes), undefined);
  const timeline = {
    messageAt: whole.messageAt.bind(whole),
    entries: async () => ({ entries: parts.slice(-1).map(({ entry }) => entry), next: undefined, reach: undefined }),
  };
  const { id, facts, policy } = head;
  const pieces = capsulePieces(
    { execution: {}, timeline, facts, policy: { ...policy, startingCycles: 0n } },
    { id, name: 'shop', seq, count: 1 },
    new AbortController().signal,
  );
  const bytesAlone: Uint8Array[] = [];
  for await (const piece of pieces) bytesAlone.push(piece);
  const alone = await replayFile(Buffer.concat(bytesAlone));
  assert.equal(alone.code, 1, alone.stdout);
  assert.match(alone.stdout, /: unsure: heap at byte 200 .*; the call that it works for began before the capsule/);
});

test('variables that all actors have come along', async (t) => {
  const reading = wat(`(module
    (import "ic0" "msg_reply" (func $reply))
    (import "ic0" "env_var_count" (func $count (result i32)))
    (memory 1)
    (func (export "canister_update look") (i32.store (i32.const 0) (call $count)) (call $reply)))`);
  const { host } = await started(t, { shop: reading, counter });
  await host.until(async () => {
    assert.equal((await host.server.post('/call/shop/look', '')).status, 200);
    assert.equal((await host.server.get('/x/time/state/shop')).status, 200);
  });
  assert.equal((await host.server.post('/call/shop/look', '')).status, 200);
  const seq = (await listed(host, 'shop')).at(-1)?.seq ?? 0;
  const bytes = await capsule(host, 'shop', `seq=${seq}`);
  assert.equal((await decodeCapsule(bytes)).head.variables.size, 2);
  assert.equal((await replayFile(bytes)).code, 0);
  const none = await changed(bytes, SECTION.head, (section) =>
    Buffer.from(JSON.stringify({ ...(JSON.parse(section.toString()) as object), variables: {} })),
  );
  assert.match((await replayFile(none)).stdout, /: different: heap at byte 0 was 02/);
});

test('what cannot be taken along is refused, and restores are taken along', async (t) => {
  const { host } = await started(t, { counter });
  const seq = await increased(host);
  const { server } = host;
  const path = '/x/time/capsule/counter';
  const refused: readonly (readonly [string, number, RegExp])[] = [
    ['', 400, /\?seq= is the number of a message/],
    ['?seq=0', 400, /\?seq= is/],
    [`?seq=${seq}&count=0`, 400, /\?count= is a number from 1 to 100/],
    [`?seq=${seq}&count=101`, 400, /\?count= is/],
    [`?seq=${seq}&count=`, 400, /\?count= is/],
    [`?seq=${seq}&redact=args`, 404, /./],
    [`?seq=${seq + 1}`, 404, new RegExp(`its newest message is seq:${seq}`)],
    ['?seq=1', 404, /the state before seq:1 is not kept/],
  ];
  for (const [query, status, why] of refused) {
    const { status: is, body } = await server.get(`${path}${query}`);
    assert.equal(is, status, `${query}: ${body}`);
    assert.match(body, why);
  }
  assert.equal((await server.post(`/x/time/restore/counter?to=seq:${seq}`, '')).status, 200);
  const { status, body } = await server.get(`${path}?seq=${seq + 1}`);
  assert.deepEqual([status, /a restore puts a state in place/.test(body)], [400, true]);
  assert.equal((await server.post('/call-json/counter/inc', '[]')).status, 200);
  const { code, stdout } = await replayFile(await capsule(host, 'counter', `seq=${seq}&count=3`));
  assert.equal(code, 0, stdout);
  assert.match(
    stdout,
    /^seq:\d+ restore: done, 0 instructions: a restore puts a state in place, and executes nothing$/m,
  );
  assert.match(stdout, /^2 of 3 message\(s\) exact$/m);
});

test('a snapshot that was loaded between two messages is in what the later one found', async (t) => {
  const { host } = await started(t, { counter });
  const { server } = host;
  const begin = await increased(host);
  const taken = await server.post('/x/actors/counter/snapshots', '');
  assert.equal(taken.status, 200, taken.body);
  const { id } = JSON.parse(taken.body) as { readonly id: string };
  const inc = async (): Promise<string> => (await server.post('/call-json/counter/inc', '[]')).body;
  const answers = [await inc(), await inc()];
  assert.equal((await server.post(`/x/actors/counter/snapshots/${id}/load`, '')).status, 200);
  answers.push(await inc(), await inc());
  assert.deepEqual(answers.slice(2), answers.slice(0, 2));
  const bytes = await capsule(host, 'counter', `seq=${begin + 1}&count=4`);
  const { parts } = await decodeCapsule(bytes);
  assert.deepEqual(
    parts.map(({ found }) => found.heap.numbers.length > 0),
    [true, false, true, false],
  );
  const { code, stdout } = await replayFile(bytes);
  assert.match(stdout, /^4 of 4 message\(s\) exact$/m);
  assert.equal(code, 0);
});

test('command lines and files that cannot be are told, with exit code 2', async (t) => {
  const folder = await temporaryDirectory();
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['--replay', 'missing.capsule'], /^svc: --replay: .*missing\.capsule cannot be read: ENOENT/],
    [['--replay', '.'], /cannot be read: it is a folder/],
    [['--replay'], /--replay needs a value: --replay FILE/],
    [['--replay', 'x', '--state', 'y'], /nothing else: drop --state/],
    [
      ['--replay', 'x', '--profile', 'out.png'],
      /--profile: expected a file whose name ends in \.svg, \.cpuprofile, \.txt/,
    ],
    [['--profile', 'out.svg'], /--profile needs --replay FILE/],
    [['--replay', 'x', '--check', '--no-replay'], /: drop --check\n.*: drop --no-replay\nsvc: run svc --help/],
  ];
  for (const [args, told] of cases) {
    const { code, stdout, stderr } = await replayIn(folder, ...args);
    assert.deepEqual([code, stdout], [2, ''], stderr);
    assert.match(stderr, told);
  }
  const { host } = await started(t, { counter });
  const bytes = await capsule(host, 'counter', `seq=${await increased(host)}`);
  const damaged = Buffer.from(bytes);
  damaged[5_000] = (damaged[5_000] ?? 0) ^ 1;
  const newer = Buffer.from(bytes);
  newer.writeUInt32LE(2, 8);
  const files: readonly (readonly [Uint8Array, RegExp])[] = [
    [Buffer.alloc(0), /at byte 0: this is no capsule of svc/],
    [Buffer.from('GIF89a'), /at byte 0: this is no capsule of svc/],
    [bytes.subarray(0, bytes.length - 1), /at byte \d+: end has \d+ bytes, and the file ends behind \d+/],
    [Buffer.concat([bytes, Buffer.alloc(1)]), /at byte \d+: something stands behind the end/],
    [damaged, /at byte \d+: the check sum of module is wrong: the file is damaged/],
    [newer, /at byte 8: it is of version 2, and this svc reads version 1/],
  ];
  for (const [file, told] of files) {
    const { code, stdout, stderr } = await replayFile(file);
    assert.deepEqual([code, stdout], [2, ''], stderr);
    assert.match(stderr, told);
  }
});
