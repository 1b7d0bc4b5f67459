/**
 * Stable variables of actors over HTTP: what is decoded from a copy of the memory is what the actor itself answers, and
 * reading changes nothing.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc, { cases } from '../support/properties.ts';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { ANY_ACTOR, compileMotoko } from '../support/motoko.ts';
import type { TestOwner } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';
import { EVERY_TYPE, everyValue } from '../subsystems/variables/every-type.ts';

interface Value {
  readonly copy: number;
  readonly value: unknown;
  readonly total: number | null;
  readonly next: number | null;
  readonly cuts: readonly { readonly path: string; readonly total: number | null; readonly next: number }[];
}

interface List {
  readonly decoded: boolean;
  readonly reason: string | null;
  readonly persistence: string | null;
  readonly heapBytes: number;
  readonly variables: readonly {
    readonly name: string;
    readonly type: string;
    readonly mutable: boolean;
    readonly collection: string | null;
    readonly size: { readonly bytes: number; readonly complete: boolean } | null;
  }[];
}

async function install(server: InProcessServer, name: string, source: string): Promise<void> {
  const installed = await server.post(`/install/${name}`, (await compileMotoko(source)).wasm);
  assert.equal(installed.status, 200, installed.body);
}

async function startWith(owner: TestOwner, args: readonly string[] = []): Promise<InProcessServer> {
  const server = await startInProcess(owner, { args });
  await install(server, 'it', EVERY_TYPE);
  return server;
}

async function read(server: InProcessServer, query = '', actor = 'it'): Promise<unknown> {
  for (let left = 20; ; left--) {
    const { status, body } = await server.get(`/x/actors/${actor}/variables${query}`);
    if (status === 200) return JSON.parse(body);
    if (left === 0 || !body.includes('try again')) throw new Error(`${status} ${body}`);
    await sleep(100);
  }
}

const valueAt = async (server: InProcessServer, path: string, more = ''): Promise<Value> =>
  (await read(server, `?path=${encodeURIComponent(path)}${more}`)) as Value;

async function refusal(server: InProcessServer, query: string): Promise<string> {
  const { status, body } = await server.get(`/x/actors/it/variables${query}`);
  assert.notEqual(status, 200, body);
  return `${status} ${(JSON.parse(body) as { readonly message: string }).message}`;
}

async function call(server: InProcessServer, method: string, args: readonly unknown[] = []): Promise<void> {
  const { status, body } = await server.post(`/call-json/it/${method}`, JSON.stringify(args));
  assert.equal(status, 200, body);
}

async function asked(server: InProcessServer, method: string): Promise<unknown> {
  const { status, body } = await server.post(`/query-json/it/${method}`);
  assert.equal(status, 200, body);
  return (JSON.parse(body) as readonly unknown[])[0];
}

test('a value of every type is decoded as the actor answers it', async (t) => {
  const server = await startWith(t);
  assert.equal((await valueAt(server, 'all')).value, null);
  const check = async (value: unknown): Promise<void> => {
    await call(server, 'put', [value]);
    const { value: decoded, cuts } = await valueAt(server, 'all');
    // Texts are compared: the order of fields counts as well.
    assert.equal(JSON.stringify(decoded), JSON.stringify(await asked(server, 'get')));
    assert.deepEqual(cuts, []);
  };
  await fc.assert(fc.asyncProperty(everyValue, check), { numRuns: cases(40) });
});

test('variables have names, types, sizes and kinds', async (t) => {
  const server = await startWith(t);
  await call(server, 'grow', [100]);
  const { decoded, reason, persistence, variables, heapBytes } = (await read(server)) as List;
  assert.deepEqual([decoded, reason, persistence], [true, null, 'enhanced']);
  assert.ok(heapBytes > 4 * 2 ** 20);
  const byName = new Map(variables.map((each) => [each.name, each]));
  assert.deepEqual(byName.get('fixed'), {
    name: 'fixed',
    type: '(Nat, Text)',
    mutable: false,
    collection: null,
    size: { bytes: 24 + 2 * 8 + 24 + 8, complete: true },
  });
  assert.equal(byName.get('rope')?.mutable, true);
  assert.deepEqual(
    ['map', 'set', 'queue', 'chain'].map((name) => byName.get(name)?.collection),
    ['map', 'set', 'list', null],
  );
  assert.ok((byName.get('map')?.size?.bytes ?? 0) > 100 * 40);
});

test('collections are shown as what they are, and in pages of one copy', async (t) => {
  const server = await startWith(t);
  for (const n of [0, 1, 2, 33, 700]) {
    if (n > 0) await call(server, 'grow', [n]);
    assert.deepEqual((await valueAt(server, 'map')).value, await asked(server, 'entries'));
    assert.deepEqual((await valueAt(server, 'set')).value, await asked(server, 'members'));
    assert.deepEqual((await valueAt(server, 'queue')).value, await asked(server, 'items'));
    assert.deepEqual((await valueAt(server, 'cells')).value, await asked(server, 'getCells'));
    assert.deepEqual((await valueAt(server, 'chain')).value, await asked(server, 'getChain'));
    if (n > 0) await call(server, 'shrink');
  }
  for (const path of ['map', 'set', 'queue']) {
    const whole = await valueAt(server, path);
    const paged: unknown[] = [];
    for (let from: number | null = 0; from !== null;) {
      const page = await valueAt(server, path, `&from=${from}&count=90&copy=${whole.copy}`);
      paged.push(...(page.value as readonly unknown[]));
      assert.equal(page.total, whole.total);
      from = page.next;
    }
    assert.deepEqual(paged, whole.value);
  }
  const entries = (await asked(server, 'entries')) as readonly (readonly [string, number])[];
  assert.deepEqual((await valueAt(server, 'map[400]')).value, entries[400]);
  assert.deepEqual((await valueAt(server, 'map[400][0]')).value, entries[400]?.[0]);
  const items = (await asked(server, 'items')) as readonly { readonly label: string }[];
  assert.deepEqual((await valueAt(server, 'queue[5].label')).value, items[5]?.label);
  assert.equal((await valueAt(server, 'chain.next.name')).value, 'two');
});

test('ropes, long blobs and long arrays come in pages that fit together', async (t) => {
  const server = await startWith(t);
  await call(server, 'join', ['längere🦊', 40_000]);
  const rope = await asked(server, 'getRope');
  let text = '';
  let pages = 0;
  for (let from: number | null = 0; from !== null; pages++) {
    const page = await valueAt(server, 'rope', `&from=${from}`);
    text += page.value as string;
    from = page.next;
  }
  assert.equal(text, rope);
  assert.ok(pages > 1);
  for (const size of [2 ** 20 - 1, 2 ** 20, 2 ** 20 + 1]) {
    const bytes = Buffer.alloc(size, 'some bytes');
    await call(server, 'fill', [bytes.toString('base64')]);
    const parts: Buffer[] = [];
    for (let from: number | null = 0; from !== null;) {
      const page = await valueAt(server, 'data', `&from=${from}`);
      assert.equal(page.total, size);
      parts.push(Buffer.from(page.value as string, 'base64'));
      from = page.next;
    }
    assert.ok(Buffer.concat(parts).equals(bytes));
  }
  await call(server, 'many', [300_000]);
  const { value, next, total } = await valueAt(server, 'large');
  assert.ok(next !== null && next > 10_000 && next === (value as readonly unknown[]).length, String(next));
  assert.equal(total, 300_000);
  assert.deepEqual((await valueAt(server, 'large', '&from=299999')).value, [299_999 ** 2]);
  assert.deepEqual((await valueAt(server, 'large', '&from=300000')).value, []);
});

test('cycles and deep values end in a cut that says where to go on', async (t) => {
  const server = await startWith(t);
  await call(server, 'circle');
  await call(server, 'deepen', [100_000]);
  for (const path of ['chain', 'deep']) {
    const { cuts, value } = await valueAt(server, path);
    const cut = cuts[0]?.path ?? '';
    assert.ok(cuts.length > 0 && cut.length > 200, JSON.stringify(cuts));
    assert.ok(JSON.stringify(value).length < 10_000);
    assert.notEqual((await valueAt(server, cut)).value, null);
  }
});

test('reading touches neither a running, a stopped nor a sleeping actor, and sees an upgrade', async (t) => {
  const state = await temporaryDirectory();
  const server = await startWith(t, ['--state', state, '--live-cap', '1']);
  await call(server, 'option', [5]);
  const stateOf = async (): Promise<Record<string, unknown>> =>
    (JSON.parse((await server.get('/inspect')).body) as Record<string, unknown>[]).find(({ name }) => name === 'it') ??
    {};
  const before = await stateOf();
  assert.equal((await valueAt(server, 'optional')).value, 5);
  const { messages, heapBytes, live } = await stateOf();
  assert.deepEqual(
    { messages, heapBytes, live },
    { messages: before['messages'], heapBytes: before['heapBytes'], live: true },
  );

  assert.equal((await server.post('/stop/it')).status, 200);
  assert.equal((await valueAt(server, 'optional')).value, 5);
  assert.equal((await server.post('/start/it')).status, 200);

  await install(server, 'other', ANY_ACTOR);
  assert.equal((await server.post('/call-json/other/inc')).status, 200);
  assert.equal((await stateOf())['live'], false);
  const changed = EVERY_TYPE.replace(
    'var optional : ?Nat = null',
    'var optional : ?Nat = null; var added : Text = "new"',
  );
  assert.deepEqual((await valueAt(server, 'fixed')).value, [7, 'fixed']);
  assert.equal((await stateOf())['live'], false);
  const upgraded = await server.post('/upgrade/it', (await compileMotoko(changed)).wasm);
  assert.equal(upgraded.status, 200, upgraded.body);
  assert.equal((await valueAt(server, 'added')).value, 'new');
  assert.equal((await valueAt(server, 'optional')).value, 5);
});

test('an actor that is called all the time is read all the same', async (t) => {
  const server = await startWith(t);
  await call(server, 'option', [0]);
  let calls = 0;
  let isOver = false;
  const busy = (async () => {
    for (; !isOver; calls++) await call(server, 'option', [calls]);
  })();
  let last = -1;
  for (let k = 0; k < 20; k++) {
    const { value } = await valueAt(server, 'optional');
    assert.ok(typeof value === 'number' && value >= last, `${String(value)} after ${last}`);
    last = value;
  }
  isOver = true;
  await busy;
  assert.ok(last > 0);
});

test('classical persistence, other languages, empty hooks and hooks that fail say why nothing is decoded', async (t) => {
  const server = await startInProcess(t);
  const classical = await compileMotoko(ANY_ACTOR, { persistence: 'classical' });
  assert.equal((await server.post('/install/old', classical.wasm)).status, 200);
  const old = (await read(server, '', 'old')) as List;
  assert.deepEqual([old.decoded, old.persistence], [false, 'classical']);
  assert.match(old.reason ?? '', /classical persistence/);
  assert.deepEqual(
    old.variables.map(({ name, type, size }) => [name, type, size]),
    [['n', 'Nat', null]],
  );
  assert.equal((await server.get('/x/actors/old/variables?path=n')).status, 400);

  assert.equal((await server.post('/install/bare', wat('(module (memory 1))'))).status, 200);
  const bare = (await read(server, '', 'bare')) as List;
  assert.deepEqual([bare.decoded, bare.persistence, bare.variables], [false, null, []]);

  const hooked = (body: string): string => `persistent actor {
    var n = 1;
    var isBad = false;
    public func spoil() : async () { isBad := true };
    public query func get() : async Nat { n };
    system func preupgrade() { n += 1; if (isBad) { ${body} } };
  }`;
  for (const [name, body, why] of [
    ['traps', 'assert false', /hook preupgrade failed: .*assertion failed/],
    ['loops', 'loop { n += 1 }', /hook preupgrade took longer than 1000 ms/],
  ] as const) {
    await install(server, name, hooked(body));
    // The hook runs on the copy alone: the actor's variable stays.
    assert.equal(((await read(server, '?path=n', name)) as Value).value, 2);
    assert.equal((await server.post(`/query-json/${name}/get`)).body, '[1]');
    assert.equal((await server.post(`/call-json/${name}/spoil`)).status, 200);
    await server.get(`/x/actors/${name}/variables?path=n`);
    // The copy fails while nobody asks: whoever comes next is told.
    await sleep(800);
    const next = await server.get(`/x/actors/${name}/variables?path=n`);
    assert.match(next.body, why);
    assert.equal((await server.post(`/query-json/${name}/get`)).body, '[1]');
  }
});

test('what cannot be answered says why', async (t) => {
  const server = await startWith(t, ['--auth-token', 'sesame']).catch(() => startWith(t));
  await call(server, 'option', [5]);
  assert.match(await refusal(server, '?path=optionl'), /^400 path "optionl": .*did you mean optional/);
  assert.match(await refusal(server, '?path=fixed[2]'), /^400 .*\[2\] is not there: there are 2 elements/);
  assert.match(await refusal(server, '?path=fixed.x'), /^400 .*expected a number in brackets/);
  assert.match(await refusal(server, '?path=chain.nam'), /^400 .*no field \.nam; did you mean name|no field \.nam/);
  assert.match(await refusal(server, '?path=all.nat'), /^400 .*the option is null/);
  assert.match(await refusal(server, `?path=${'x'.repeat(5000)}`), /^400 path "x{80}…"/);
  assert.match(await refusal(server, '?path='), /^400 .*begins with the name/);
  assert.match(await refusal(server, '?path=map[0'), /^400 .*expected \.field or \[number\]/);
  assert.match(await refusal(server, '?path=map&from=-1'), /^400 from is a whole number/);
  assert.match(await refusal(server, '?from=1'), /^400 from, count and copy go with path/);
  assert.match(await refusal(server, '?path=map&copy=999'), /^404 the copy 999 is not kept/);
  const silent = await startInProcess(t, { args: ['--no-variables'] });
  await install(silent, 'it', ANY_ACTOR);
  assert.match(await refusal(silent, ''), /^404 the server runs with --no-variables/);
});
