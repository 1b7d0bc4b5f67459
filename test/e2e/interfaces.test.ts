/** Sources of interfaces: the module's section, the given file, and the module's own answer. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { EventClient } from '../support/event-client.ts';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const NO_ACTORS = '{"actors":{}}';
const DID = 'service : { add : (nat8) -> (nat8); total : () -> (nat8) query }';

interface Shape {
  /** Answer of `__get_candid_interface_tmp_hack`. */
  readonly says?: string;
  /** Instructions of that method instead of an answer. */
  readonly asked?: string;
  /** Text behind `get_candid_pointer`. */
  readonly carries?: string;
}

/** Makes a module that adds bytes, like a Rust module: with or without an interface. */
function adder({ says, asked, carries }: Shape = {}): Uint8Array {
  const escaped = (text: string): string =>
    [...Buffer.from(text)].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('');
  const length = Buffer.byteLength(says ?? '');
  const header = `DIDL\\00\\01\\71\\${((length & 0x7f) | 0x80).toString(16)}\\${(length >> 7).toString(16).padStart(2, '0')}`;
  const answer = `(call $append (i32.const 4096) (i32.const ${9 + length})) (call $reply)`;
  const hack = asked ?? (says === undefined ? undefined : answer);
  return wat(`(module
    (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
    (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
    (import "ic0" "msg_reply" (func $reply))
    (memory 4)
    (data (i32.const 0) "DIDL\\00\\01\\7b\\00")
    (data (i32.const 4096) "${header}${escaped(says ?? '')}")
    (data (i32.const 65536) "${escaped(carries ?? '')}\\00")
    (func $answer (call $append (i32.const 0) (i32.const 8)) (call $reply))
    (func (export "canister_update add")
      (call $copy (i32.const 16) (i32.const 0) (i32.const 8))
      (i32.store8 (i32.const 7) (i32.add (i32.load8_u (i32.const 7)) (i32.load8_u (i32.const 23))))
      (call $answer))
    (func (export "canister_query total") (call $answer))
    ${hack === undefined ? '' : `(func (export "canister_query __get_candid_interface_tmp_hack") ${hack})`}
    ${carries === undefined ? '' : '(func (export "get_candid_pointer") (result i32) (i32.const 65536))'})`);
}

async function put(
  server: RunningServer | InProcessServer,
  actor: string,
  did: string | Uint8Array,
): Promise<{ status: number; body: string }> {
  const response = await server.fetch(`/candid/${actor}`, { method: 'PUT', body: did as string });
  return { status: response.status, body: await response.text() };
}

function formOf(parts: Readonly<Record<string, string | Uint8Array>>): FormData {
  const form = new FormData();
  for (const [name, part] of Object.entries(parts)) {
    // A field with a string would get other line ends.
    if (typeof part === 'string') form.set(name, new Blob([part]), `${name}.txt`);
    else form.set(name, new Blob([new Uint8Array(part)]), `${name}.bin`);
  }
  return form;
}

async function send(
  server: RunningServer | InProcessServer,
  path: string,
  parts: Parameters<typeof formOf>[0],
): Promise<{ status: number; body: string }> {
  const response = await server.fetch(path, { method: 'POST', body: formOf(parts) });
  return { status: response.status, body: await response.text() };
}

test('an interface that is given to a module without one is used at once, and after kill, stop, upgrade and restore', async (t) => {
  const args = ['--state', await temporaryDirectory()];
  let backup: Uint8Array;
  {
    const server = await startServer(t, { args, manifest: NO_ACTORS });
    assert.equal((await server.post('/install/adder', adder())).status, 200);
    for (const path of ['/candid/adder', '/openapi/adder']) {
      const { status, body } = await server.get(path);
      assert.equal(status, 404);
      assert.match(body, /carries no Candid interface; give it one: curl -X PUT .*\/candid\/adder/);
    }
    assert.match((await server.post('/call-json/adder/add', '[5]')).body, /PUT \/candid\/adder/);
    assert.deepEqual(await put(server, 'adder', DID), { status: 200, body: 'kept' });
    assert.deepEqual(await server.get('/candid/adder'), { status: 200, body: DID });
    assert.deepEqual(await server.post('/call-json/adder/add', '[5]'), { status: 200, body: '[5]' });
    assert.match((await server.get('/openapi/adder')).body, /"\/call-json\/adder\/add"/);
    assert.match(server.output.stderr, /candid adder 80000000001000010101 ok/);
    await server.kill();
  }
  {
    const server = await startServer(t, { args, manifest: NO_ACTORS });
    assert.deepEqual(await server.get('/candid/adder'), { status: 200, body: DID });
    assert.deepEqual(await server.post('/query-json/adder/total'), { status: 200, body: '[5]' });
    const described = `// another\n${DID}`;
    assert.equal((await put(server, 'adder', described)).status, 200, 'another text takes its place');
    assert.equal((await server.post('/upgrade/adder', adder({ asked: '(nop)' }))).status, 200);
    assert.equal((await server.get('/candid/adder')).body, described, 'a new module has it, too');
    backup = new Uint8Array(await (await server.fetch('/backup')).arrayBuffer());
    await server.stop();
  }
  const file = join(await temporaryDirectory(), 'svc.backup');
  await writeFile(file, backup);
  const restored = ['--state', await temporaryDirectory(), '--restore', file];
  const server = await startServer(t, { args: restored, manifest: NO_ACTORS });
  assert.equal((await server.get('/candid/adder')).body, `// another\n${DID}`);
});

test('what cannot be the interface is refused with the reason, and changes nothing', async (t) => {
  const server = await startServer(t, { manifest: NO_ACTORS });
  assert.equal((await server.post('/install/adder', adder())).status, 200);
  const parts = Array.from({ length: 10_001 }, (_, at) => `f${at} : nat`).join(';');
  const cases: readonly (readonly [did: string | Uint8Array, message: RegExp])[] = [
    ['service : { add : (Nat65) -> () }', /line 1, column 20: the type .*Nat65.* is not defined/],
    ['', /describes no service/],
    [
      'service : { add : (nat8) -> (nat8); sub : () -> (); "odd one" : () -> () }',
      /module of adder does not export: .*sub.*, .*odd one/,
    ],
    [`service : { ${Array.from({ length: 9 }, (_, at) => `m${at} : () -> ()`).join(';')} }`, /m4.* and 4 more/],
    [new Uint8Array([0xff, 0xfe, 0x00]), /not UTF-8/],
    [`service : { add : (record { ${parts} }) -> () }`, /more than 10000 fields/],
    [`service : { add : (${'opt '.repeat(300)} nat) -> () }`, /nested deeper/],
  ];
  for (const [did, message] of cases) {
    const { status, body } = await put(server, 'adder', did);
    assert.equal(status, 400, body);
    assert.match(body, message);
  }
  const large = await put(server, 'adder', ' '.repeat(1024 * 1024 + 1));
  assert.equal(large.status, 413);
  assert.match(large.body, /larger than 1048576 bytes/);
  assert.equal((await put(server, 'nobody', DID)).status, 404);
  assert.equal((await put(server, 'adder?x=1', DID)).status, 404);
  assert.equal((await server.get('/candid/adder')).status, 404);
  assert.match(server.output.stderr, /candid adder 80000000001000010101 failed/);

  // Long interfaces are parsed in another thread, and those with very many types are used there as well.
  const types = Array.from({ length: 4_500 }, (_, at) => `type T${at} = record { nat };`).join('\n');
  for (const did of [`// ${'-'.repeat(20_000)}\n${DID}`, `${types}\n${DID}`]) {
    assert.deepEqual(await put(server, 'adder', did), { status: 200, body: 'kept' });
    const before = JSON.parse((await server.post('/query-json/adder/total', '[]')).body) as [number];
    assert.deepEqual(await server.post('/call-json/adder/add', '[3]'), { status: 200, body: `[${before[0] + 3}]` });
    const wrong = await server.post('/call-json/adder/add', '[-1]');
    assert.deepEqual([wrong.status, /args\[0\]/.test(wrong.body)], [400, true]);
    assert.equal((await server.get('/candid/adder')).body, did);
  }
});

/** An `adder` that cannot add any more. */
const TOTAL_ONLY = wat(`(module
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_reply" (func $reply))
  (memory 1)
  (data (i32.const 0) "DIDL\\00\\01\\7b\\00")
  (func (export "canister_query total") (call $append (i32.const 0) (i32.const 8)) (call $reply)))`);

test('an upgrade to a module without a method of the given interface is refused, and tells it with force', async (t) => {
  const server = await startInProcess(t);
  assert.equal((await send(server, '/install/adder', { wasm: adder(), candid: DID })).status, 200);
  const refused = await server.post('/upgrade/adder', TOTAL_ONLY);
  assert.equal(refused.status, 400);
  assert.match(refused.body, /the new interface of adder breaks callers of the old one: add is gone/);
  assert.deepEqual(await server.post('/call-json/adder/add', '[5]'), { status: 200, body: '[5]' });
  const forced = await server.post('/upgrade/adder?force=true&report=1', TOTAL_ONLY);
  const { candid } = JSON.parse(forced.body) as { candid: { compatible: boolean; removed: { path: string }[] } };
  assert.deepEqual([candid.compatible, candid.removed.map(({ path }) => path)], [false, ['add']]);
  assert.equal((await server.post('/call-json/adder/add', '[5]')).status, 404);
  // Nothing more is lost.
  assert.equal((await server.post('/upgrade/adder', TOTAL_ONLY)).body, 'upgraded');
});

test('an upgrade with an empty body takes the .did file of the manifest as it is now', async (t) => {
  const folder = await temporaryDirectory();
  const [module, did, manifestFile] = ['adder.wasm', 'adder.did', 'actors.json'].map((name) => join(folder, name));
  assert.ok(module !== undefined && did !== undefined && manifestFile !== undefined);
  await writeFile(module, adder());
  await writeFile(did, DID);
  await writeFile(manifestFile, JSON.stringify({ actors: { adder: { wasm: module, candid: did } } }));
  const args = ['--state', join(folder, 'state')];
  for (const more of ['one', 'two']) {
    const server = await startInProcess(t, { manifestFile, args });
    const described = `// ${more}\n${DID}`;
    await writeFile(did, described);
    assert.deepEqual(await server.post('/upgrade/adder', ''), { status: 200, body: 'upgraded' });
    assert.equal((await server.get('/candid/adder')).body, described);
    // The module has changed as well, as the interface says.
    await writeFile(module, TOTAL_ONLY);
    await writeFile(did, 'service : { total : () -> (nat8) query }');
    assert.match((await server.post('/upgrade/adder', '')).body, /add is gone/);
    assert.equal((await server.get('/candid/adder')).body, described, 'a refusal changes nothing');
    await writeFile(did, 'service : { other : () -> () }');
    assert.match((await server.post('/upgrade/adder', '')).body, /does not export: .*other/);
    await writeFile(module, adder());
    await server.stop();
  }
});

test("a module's own interface wins over a given one, and a given one over what was not understood", async (t) => {
  const { wasm } = await compileMotoko('persistent actor { public func one() : async Nat { 1 } }');
  const folder = await temporaryDirectory();
  const broken = adder({ carries: 'service : { add : (Nat65) -> () }' });
  await writeFile(join(folder, 'broken.wasm'), broken);
  await writeFile(join(folder, 'given.did'), DID);
  const manifest = JSON.stringify({
    actors: { mended: { wasm: join(folder, 'broken.wasm'), candid: join(folder, 'given.did') } },
  });
  const manifestFile = join(folder, 'actors.json');
  await writeFile(manifestFile, manifest);
  const server = await startInProcess(t, { manifestFile });
  assert.deepEqual(await server.post('/call-json/mended/add', '[3]'), { status: 200, body: '[3]' });
  assert.equal((await server.get('/candid/mended')).body, DID);

  assert.equal((await server.post('/install/broken', broken)).status, 200);
  assert.match((await server.get('/openapi/broken')).body, /was not understood \(line 1, column 20/);
  assert.match((await server.get('/candid/broken')).body, /Nat65/, 'the text whose place is named can be read');
  assert.equal((await put(server, 'broken', DID)).status, 200);
  assert.deepEqual(await server.post('/call-json/broken/add', '[4]'), { status: 200, body: '[4]' });

  assert.equal((await server.post('/install/motoko', wasm)).status, 200);
  const refused = await put(server, 'motoko', 'service : {}');
  assert.equal(refused.status, 400);
  assert.match(refused.body, /carries an interface of its own/);
  assert.match((await server.get('/candid/motoko')).body, /one: \(\) -> \(nat\)/);
});

test('a module with neither is asked for its interface: when it is installed, and after a restart by the first who needs it', async (t) => {
  const args = ['--state', await temporaryDirectory()];
  for (const first of ['installed', 'call', 'candid', 'openapi']) {
    const server = await startInProcess(t, { args });
    if (first === 'installed') {
      assert.equal((await server.post('/install/old', adder({ says: DID }))).status, 200);
      const [inspected] = JSON.parse((await server.get('/inspect')).body) as { candid: string; messages: number }[];
      assert.equal(inspected?.candid, DID);
      assert.equal(inspected.messages, 0, 'to ask is nobody else’s message');
    }
    if (first === 'call')
      assert.deepEqual(await server.post('/call-json/old/add', '[1]'), { status: 200, body: '[1]' });
    if (first === 'openapi') assert.match((await server.get('/openapi/old')).body, /"call_add"/);
    assert.deepEqual(await server.get('/candid/old'), { status: 200, body: DID });
    await server.stop();
  }
});

test('a module that answers nonsense, traps, or does not end when it is asked is installed all the same', async (t) => {
  // Each instruction of the endless one costs some cycles, so that on any machine the cycles last for more than its
  // 2000 ms, but not much more.
  const args = ['--instruction-limit', '5000000000'];
  const server = await startServer(t, { args, manifest: NO_ACTORS });
  const parts = 'opt '.repeat(240);
  const roots = `${'(f64.sqrt '.repeat(8)}(f64.load (i32.const 32))${')'.repeat(8)}`;
  const shapes: readonly Shape[] = [
    { says: 'no interface at all' },
    { says: `service : { add : (${parts}) -> () }` },
    { asked: '(unreachable)' },
    { asked: '(nop)' },
    { asked: '(call $append (i32.const 0) (i32.const 8)) (call $reply)' },
    { asked: `(loop $again (f64.store (i32.const 32) ${roots}) (br $again))` },
  ];
  for (const [at, shape] of shapes.entries()) {
    const name = `odd${at}`;
    assert.equal((await server.post(`/install/${name}`, adder(shape))).status, 200);
    assert.equal((await server.get(`/candid/${name}`)).status, 404);
    assert.equal((await server.post(`/call-json/${name}/add?lossless=1`, '[{"$svc":"nat8","value":"5"}]')).status, 200);
    assert.deepEqual(await put(server, name, DID), { status: 200, body: 'kept' });
    assert.deepEqual(await server.post(`/call-json/${name}/add`, '[1]'), { status: 200, body: '[6]' });
  }
  assert.match(
    server.output.stderr,
    /odd0: what __get_candid_interface_tmp_hack answers is no Candid interface: line 1/,
  );
  assert.match(server.output.stderr, /odd5: __get_candid_interface_tmp_hack did not answer within 2000 ms/);
});

test('a live query goes on through upgrades to modules that have to be asked', async (t) => {
  const server = await startInProcess(t);
  assert.equal((await server.post('/install/adder', adder({ says: DID }))).status, 200);
  assert.equal((await server.post('/call-json/adder/add', '[5]')).status, 200);
  await using client = await EventClient.open(server.origin, '/watch/adder/total');
  assert.equal((await client.next())?.data, '[5]');
  for (let version = 1; version <= 3; version++) {
    const wasm = adder({ says: `// ${version}\n${DID}` });
    assert.equal((await server.post('/upgrade/adder?force=true', wasm)).status, 200);
    assert.equal((await client.next())?.event, 'upgrade');
    assert.equal((await client.next())?.data, '[0]');
    assert.equal((await server.post('/call-json/adder/add', `[${version}]`)).status, 200);
    assert.equal((await client.next())?.data, `[${version}]`);
  }
});

test('a form brings module, interface, arguments and cycles', async (t) => {
  const args = ['--state', await temporaryDirectory()];
  {
    const server = await startServer(t, { args, manifest: NO_ACTORS });
    const installed = await send(server, '/install/adder', { wasm: adder(), candid: DID, cycles: ' 5000000000000 ' });
    assert.equal(installed.status, 200, installed.body);
    assert.match(installed.body, /^[0-9a-f]{20}$/);
    // The installation's own cost is subtracted.
    assert.deepEqual(await server.get('/cycles/adder'), { status: 200, body: '4999999410000' });
    assert.deepEqual(await server.post('/call-json/adder/add', '[5]'), { status: 200, body: '[5]' });
    const upgraded = await send(server, '/upgrade/adder', { wasm: adder({ carries: '' }), candid: `// two\n${DID}` });
    assert.deepEqual(upgraded, { status: 200, body: 'upgraded' });
    const unfit = await send(server, '/upgrade/adder', { wasm: adder(), candid: 'service : { sub : () -> () }' });
    assert.equal(unfit.status, 400);
    assert.match(unfit.body, /does not export: .*sub/);
    await server.kill();
  }
  const server = await startServer(t, { args, manifest: NO_ACTORS });
  assert.equal((await server.get('/candid/adder')).body, `// two\n${DID}`, 'what came with the upgrade is kept');
  const again = await send(server, '/install/adder?mode=reinstall', { wasm: adder(), candid: `// three\n${DID}` });
  assert.equal(again.status, 200, again.body);
  assert.equal((await server.get('/candid/adder')).body, `// three\n${DID}`);
  const unfit = await send(server, '/install/other', { wasm: adder(), candid: 'service : { sub : () -> () }' });
  assert.equal(unfit.status, 400);
  assert.equal((await server.get('/cycles/other')).status, 404, 'nothing was installed');
});

test('arguments in a form are Candid text or JSON of any size', async (t) => {
  const { wasm } = await compileMotoko(`
    persistent actor class Keeper(init : { name : Text; data : [Nat32]; bytes : ?Blob }) {
      public query func size() : async (Text, Nat, Nat) {
        (init.name, init.data.size(), switch (init.bytes) { case null 0; case (?b) b.size() })
      };
    }`);
  const server = await startInProcess(t);
  const numbers = Array.from({ length: 250_000 }, (_, at) => at);
  const blob = Buffer.alloc(700_000, 0xab);
  const forms: Readonly<Record<string, readonly [args: string, size: readonly unknown[]]>> = {
    text: ['\n (record { name = "a"; data = vec { 1; 2 }; bytes = null })', ['a', 2, 0]],
    json: ['\n [{"name":"b","data":[1,2,3]}]', ['b', 3, 0]],
    largetext: [
      `(record { name = "c"; data = vec {${numbers.join(';')}}; bytes = opt blob "${[...blob].map(() => '\\ab').join('')}" })`,
      ['c', 250_000, 700_000],
    ],
    largejson: [
      JSON.stringify([{ name: 'd', data: numbers, bytes: blob.toString('base64') }]),
      ['d', 250_000, 700_000],
    ],
  };
  for (const [name, [args, size]] of Object.entries(forms)) {
    const installed = await send(server, `/install/${name}`, { wasm, args });
    assert.equal(installed.status, 200, installed.body.slice(0, 300));
    assert.deepEqual(JSON.parse((await server.post(`/query-json/${name}/size`)).body), size);
  }
  const bad = await send(server, '/install/bad', { wasm, args: '(record { data = vec {}; name = 5 })' });
  assert.equal(bad.status, 400);
  assert.match(bad.body, /line 1, column 33: expected text, found the number 5/);
  const badJson = await send(server, '/install/bad', { wasm, args: '[{"name":5}]' });
  assert.match(badJson.body, /args\[0\]\.name: expected text, found the number 5/);
});

test('a method that gets a further optional parameter goes on serving those who know nothing of it', async (t) => {
  const server = await startServer(t, { manifest: NO_ACTORS });
  const actorOf = (parameters: string, reply: string): string =>
    `persistent actor { public func greet(${parameters}) : async Text { ${reply} } }`;
  const old = await compileMotoko(actorOf('name : Text', 'name'));
  const grown = await compileMotoko(
    actorOf(
      'name : Text, from : ?Text, _ : Null',
      'switch from { case null name # " from nowhere"; case (?f) name # " from " # f }',
    ),
  );
  assert.equal((await server.post('/install/greeter', old.wasm)).status, 200);
  assert.equal((await server.post('/call-json/greeter/greet', '["Ada"]')).body, '["Ada"]');
  const upgraded = await server.post('/upgrade/greeter', grown.wasm);
  assert.equal(upgraded.status, 200, upgraded.body);
  const answers = [];
  for (const args of ['["Ada"]', '["Ada",null]', '["Ada","Turin"]', '["Ada","Turin",null]'])
    answers.push((await server.post('/call-json/greeter/greet', args)).body);
  const nowhere = '["Ada from nowhere"]';
  assert.deepEqual(answers, [nowhere, nowhere, '["Ada from Turin"]', '["Ada from Turin"]']);
  const headers = { 'idempotency-key': 'k' };
  for (const args of ['["Eve"]', '["Eve",null,null]']) {
    const { status, body } = await server.post('/call-json/greeter/greet', args, headers);
    assert.deepEqual([status, body], [200, '["Eve from nowhere"]'], 'a key goes with what the actor is given');
  }
  for (const args of ['', '[]', '["a","b",null,1]'])
    assert.deepEqual(await server.post('/call-json/greeter/greet', args), {
      status: 400,
      body: `{"code":400,"message":"args: expected an array of 1 to 3 arguments, found ${args.length > 2 ? 'more' : '0'}"}`,
    });
});
