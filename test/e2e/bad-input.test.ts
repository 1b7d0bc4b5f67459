/**
 * Hostile and clumsy requests: a clear 4xx that names the place, in bounded time; the host lives, and the state is
 * untouched.
 */
import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type RunningServer, startServer } from '../support/server.ts';
import { wat } from '../support/wat.ts';

/**
 * Every request here must be refused, or run to its end, within this time. It takes less than a second; unbounded work
 * takes hours, and a machine that is busy elsewhere some seconds.
 */
const ANSWER_MS_MAX = 30_000;

let server: RunningServer;
before(async (t) => {
  server = await startServer(t as TestContext);
});

interface Refusal {
  readonly status: number;
  readonly message: string;
}

/** Sends a request, and checks the time, that the host lives, and that the counter is untouched. */
async function refused(
  path: string,
  body: string | Uint8Array,
  headers: Record<string, string> = {},
): Promise<Refusal> {
  const started = performance.now();
  const answer = await server.post(path, body, headers);
  const ms = performance.now() - started;
  assert.ok(ms < ANSWER_MS_MAX, `${path} took ${ms.toFixed(0)} ms`);
  assert.deepEqual(await server.get('/health'), { status: 200, body: 'ok' });
  assert.deepEqual(await server.post('/query-json/counter/get'), { status: 200, body: '[0]' });
  const { message } = JSON.parse(answer.body) as { message: string };
  return { status: answer.status, message };
}

/** Makes a Candid message: magic, then the given type table, argument types and values. */
const candid = (...bytes: number[]): Uint8Array => Uint8Array.from([0x44, 0x49, 0x44, 0x4c, ...bytes]);
/** 2^40 as LEB128. */
const TWO_TO_40 = [0x80, 0x80, 0x80, 0x80, 0x80, 0x20];
/** `vec null` with 2^40 elements. */
const VEC_NULL_BOMB = candid(1, 0x6d, 0x7f, 1, 0, ...TWO_TO_40);
/** A type table that claims 2^32 entries. */
const TABLE_BOMB = candid(0x80, 0x80, 0x80, 0x80, 0x10);
/** Makes 200,000 nested `opt`, each its own entry. */
function nestedOptBomb(): Uint8Array {
  const depth = 200_000;
  const leb = (n: number): number[] => (n < 128 ? [n] : [(n & 127) | 128, ...leb(n >>> 7)]);
  const sleb = (n: number): number[] => (n < 64 ? [n] : [(n & 127) | 128, ...sleb(n >> 7)]);
  const bytes = [0x44, 0x49, 0x44, 0x4c, ...leb(depth)];
  for (let i = 0; i < depth; i++) bytes.push(0x6e, ...(i + 1 < depth ? sleb(i + 1) : [0x7f]));
  bytes.push(1, 0);
  for (let i = 0; i < depth; i++) bytes.push(1);
  return Uint8Array.from(bytes);
}

test('modules: empty, truncated, malformed, not wasm at all', async () => {
  const header = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0];
  const cases: Record<string, Uint8Array> = {
    empty: new Uint8Array(0),
    text: Buffer.from('this is no module'),
    magicOnly: Uint8Array.from(header.slice(0, 4)),
    truncatedSection: Uint8Array.from([...header, 1, 100, 1]),
    hugeCount: Uint8Array.from([...header, 1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f]),
    wrongVersion: Uint8Array.from([0, 0x61, 0x73, 0x6d, 2, 0, 0, 0]),
  };
  for (const [name, bytes] of Object.entries(cases)) {
    const { status, message } = await refused(`/install/bad_${name}`, bytes);
    assert.equal(status, 400, `${name}: ${message}`);
    assert.ok(message.length > 10, `${name}: ${message}`);
  }
});

test('modules: WASI is refused with the fix, unknown imports and unsupported features by name', async () => {
  const wasi = wat('(module (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32))))');
  const { status, message } = await refused('/install/wasi', wasi);
  assert.equal(status, 400);
  assert.match(message, /wasi2ic/);
  const unknown = await refused('/install/unknown', wat('(module (import "ic0" "msg_reply_all" (func)))'));
  assert.equal(unknown.status, 400);
  assert.match(unknown.message, /msg_reply_all/);
  const twoMemories = await refused('/install/memories', wat('(module (memory 1) (memory 1))'));
  assert.equal(twoMemories.status, 400);
  assert.match(twoMemories.message, /memor/);
});

test('modules: a gzip bomb and gzip of garbage', async () => {
  const bomb = gzipSync(Buffer.alloc(200 * 1024 * 1024));
  const { status, message } = await refused('/install/bomb', bomb);
  assert.equal(status, 400);
  assert.match(message, /gzip/);
  const cut = await refused('/install/cut', gzipSync(Buffer.from('x'.repeat(1000))).subarray(0, 20));
  assert.equal(cut.status, 400);
  const twice = await refused('/install/twice', gzipSync(gzipSync(Buffer.from('x'))));
  assert.equal(twice.status, 400);
});

test('Candid bombs as arguments do no harm', async () => {
  for (const bytes of [VEC_NULL_BOMB, TABLE_BOMB, nestedOptBomb(), candid(), new Uint8Array([1, 2, 3])]) {
    const { status, message } = await refused('/call/counter/add', bytes);
    assert.equal(status, 400, message);
  }
});

test('Candid bombs in a reply: a clear 400 through /call-json, the bytes as they are through /call', async () => {
  const bombs = {
    manyNulls: VEC_NULL_BOMB,
    hugeTable: TABLE_BOMB,
    deepOpt: nestedOptBomb(),
    garbage: new Uint8Array([1, 2, 3]),
  };
  const escaped = (bytes: Uint8Array): string =>
    [...bytes].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('');
  const did = `service : { ${Object.keys(bombs)
    .map((name) => `${name} : () -> (opt nat) query`)
    .join('; ')} }`;
  let offset = 0;
  const functions: string[] = [];
  const data: string[] = [];
  for (const [name, bytes] of Object.entries(bombs)) {
    functions.push(`(func (export "canister_query ${name}")
      (call $append (i32.const ${offset}) (i32.const ${bytes.length})) (call $reply))`);
    data.push(`(data (i32.const ${offset}) "${escaped(bytes)}")`);
    offset += bytes.length;
  }
  const module = wat(`(module
    (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
    (import "ic0" "msg_reply" (func $reply))
    (memory ${Math.ceil(offset / 65536) + 1}) ${functions.join('\n')} ${data.join('\n')}
    (func (export "get_candid_pointer") (result i32) (i32.const ${offset}))
    (data (i32.const ${offset}) "${did}\\00"))`);
  const installed = await server.post('/install/bomber', module);
  assert.equal(installed.status, 200, installed.body);
  for (const [name, bytes] of Object.entries(bombs)) {
    const { status, message } = await refused(`/query-json/bomber/${name}`, '[]');
    assert.equal(status, 400, `${name}: ${message}`);
    assert.match(message, new RegExp(name), 'the message names the method');
    const raw = await server.fetch(`/query/bomber/${name}`, { method: 'POST', body: candid(0, 0) });
    assert.equal(raw.status, 200);
    assert.deepEqual(new Uint8Array(await raw.arrayBuffer()), bytes);
  }
});

test('JSON: duplicate keys, huge numbers, deep nesting, wrong counts and types, each with its place', async () => {
  const draft = (extra: string): string => `[{"title":"t","body":"b","tags":[],"attachment":null${extra}}]`;
  const cases: readonly (readonly [string, string | Uint8Array, RegExp])[] = [
    ['/call-json/notes/create', draft(',"title":"again"'), /args\[0\].*title/],
    ['/call-json/notes/create', draft(',"colour":"red"'), /args\[0\].*colour/],
    ['/call-json/counter/add', '[1.5]', /args\[0\]/],
    ['/call-json/counter/add', '[-1]', /args\[0\]/],
    ['/call-json/counter/add', '[1e400]', /args\[0\]/],
    ['/call-json/counter/add', `["${'9'.repeat(200_000)}"]`, /args\[0\]/],
    ['/call-json/counter/add', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, /args/],
    ['/call-json/counter/add', '[1,2]', /1 argument/],
    ['/call-json/counter/add', '{"a":1}', /array/],
    ['/call-json/counter/add', '["\\ud800"]', /args\[0\]/],
    ['/call-json/counter/add', '[1', /./],
    ['/call-json/counter/add', Uint8Array.of(0x5b, 0x22, 0xff, 0x22, 0x5d), /./],
  ];
  for (const [path, body, place] of cases) {
    const { status, message } = await refused(path, body);
    const shown = Buffer.from(body).toString('latin1').slice(0, 60);
    assert.equal(status, 400, `${shown}: ${message}`);
    assert.match(message, place, shown);
    assert.ok(message.length < 1000, 'the message does not repeat the input');
  }
});

test('wrong actor, wrong method, wrong kind of call, unusable caller', async () => {
  assert.equal((await refused('/call-json/nobody/inc', '[]')).status, 404);
  assert.equal((await refused('/call-json/counter/nothing', '[]')).status, 404);
  assert.equal((await refused('/query-json/counter/inc', '[]')).status, 400);
  assert.equal((await refused('/call-json/__proto__/constructor', '[]')).status, 404);
  assert.equal((await refused('/call-json/counter/toString', '[]')).status, 404);
  for (const caller of ['nonsense', 'aaaaa-aa-', '2vxsx-fa', 'x'.repeat(5000), '2VXSX fae']) {
    const { status } = await refused('/call-json/counter/inc', '[]', { 'x-caller': caller });
    assert.equal(status, 400, caller.slice(0, 20));
  }
});

test('deep recursion is a trap, and rolled back', async () => {
  const module = wat(`(module
    (import "ic0" "msg_reply" (func $reply))
    (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
    (memory 1)
    (func $down (param i32) (result i32)
      (i32.store (i32.const 0) (local.get 0))
      (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 0))
        (else (i32.add (i32.const 1) (call $down (i32.sub (local.get 0) (i32.const 1)))))))
    (func (export "canister_update deep") (drop (call $down (i32.const 10000000))) (call $reply))
    (func (export "canister_query word") (call $append (i32.const 0) (i32.const 4)) (call $reply)))`);
  const installed = await server.post('/install/deep', module);
  assert.equal(installed.status, 200, installed.body);
  const { status, message } = await refused('/call/deep/deep', '');
  assert.equal(status, 400);
  assert.match(message, /stack overflow/);
  const word = await server.fetch('/query/deep/word', { method: 'POST', body: '' });
  assert.deepEqual(new Uint8Array(await word.arrayBuffer()), new Uint8Array(4));
});

test('the name of an actor: taken, bad, or without end', async () => {
  const module = wat('(module)');
  assert.equal((await refused('/install/counter', module)).status, 400);
  assert.match((await refused('/install/counter', module)).message, /already installed/);
  for (const name of ['1st', 'a%2Fb', '%20', 'x'.repeat(65)]) {
    const { status } = await refused(`/install/${name}`, module);
    assert.ok(status === 400 || status === 404, `${name}: ${status}`);
  }
});
