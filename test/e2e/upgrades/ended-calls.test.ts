/**
 * Changes of code while calls are open: no continuation of one code runs in another, every client gets one answer, and
 * nothing stays open. A reinstallation ends the calls; an upgrade waits for them, also a forced one and one by
 * `--watch`.
 */
import assert from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, startInProcess } from '../../support/in-process-server.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { type OutsideServer, startOutsideServer } from '../../support/outside-server.ts';
import { startServer } from '../../support/server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

/** Makes an actor with calls of every kind; the effects of its continuations show the code to which they belong. */
const asker = (version: string, init = ''): string => `
import Text "mo:core/Text";
import Runtime "mo:core/Runtime";
import Timer "mo:core/Timer";
persistent actor Self {
  type Header = { name : Text; value : Text };
  type Response = { status : Nat; headers : [Header]; body : Blob };
  transient let management = actor "aaaaa-aa" : actor {
    http_request : ({ url : Text; max_response_bytes : ?Nat64; method : { #get }; headers : [Header]; body : ?Blob;
      transform : ?{ function : shared query ({ response : Response; context : Blob }) -> async Response;
        context : Blob } }) -> async Response;
  };
  type Holder = actor { hold : () -> async Nat; peek : query () -> async Nat };
  func holder(p : Principal) : Holder = actor (debug_show p) : Holder;
  var log : [Text] = [];
  func note(what : Text) { log := [debug_show (log.size() + 1) # " ${version} " # what, if (log.size() == 0) "" else log[0]] };
  ${init}

  public func ask(url : Text) : async Text {
    let { body } = await (with cycles = 1_000_000) management.http_request({
      url; max_response_bytes = null; method = #get; headers = []; body = null; transform = null;
    });
    note("ask");
    switch (Text.decodeUtf8(body)) { case (?text) "${version} got " # text; case null Runtime.trap("no text") };
  };
  public func there(p : Principal) : async Text { let n = await holder(p).hold(); note("there"); "${version} " # debug_show n };
  func step() : async () {};
  public func loops() : async () { loop { try { await step() } catch _ {} } };
  public func byTimer(p : Principal) : async () {
    ignore Timer.setTimer<system>(#seconds 0, func() : async () { ignore await holder(p).hold(); note("byTimer") });
  };
  func later(p : Principal) : async () { ignore await holder(p).hold(); note("oneWay") };
  public func oneWay(p : Principal) : async () { ignore later(p) };
  public composite query func both(p : Principal) : async Text { "${version} " # debug_show (await holder(p).peek()) };
  public query func seen() : async [Text] { log };
}`;

const HOLDER = `
persistent actor {
  var isHolding = true;
  var holds = 0;
  func nothing() : async () {};
  public func hold() : async Nat { holds += 1; while (isHolding) { await nothing() }; holds };
  public query func peek() : async Nat { holds };
  public func letGo() : async () { isHolding := false };
}`;

interface Inspected {
  readonly name: string;
  readonly principal: string;
  readonly status: string;
  readonly traps: number;
}

interface Served {
  post(path: string, body?: string | Uint8Array): Promise<Answer>;
  get(path: string): Promise<Answer>;
  fetch(path: string, init: RequestInit): Promise<Response>;
}

const ok = ({ status, body }: Answer): string => {
  assert.equal(status, 200, body);
  return body;
};
const moduleOf = async (source: string): Promise<Uint8Array> => (await compileMotoko(source)).wasm;
const json = (...args: readonly unknown[]): string => JSON.stringify(args);

async function until(is: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + 120_000;
  while (!(await is())) {
    assert.ok(performance.now() < endMs, 'it takes too long');
    await sleep(10);
  }
}

const inspect = async (server: Served, name: string): Promise<Inspected> => {
  const all = JSON.parse(ok(await server.get('/inspect'))) as Inspected[];
  const found = all.find((each) => each.name === name);
  assert.ok(found, name);
  return found;
};
const seen = async (server: Served, name = 'asker'): Promise<readonly string[]> =>
  (JSON.parse(ok(await server.post(`/query-json/${name}/seen`))) as [string[]])[0];
const reinstall = (server: Served, module: Uint8Array): Promise<Answer> =>
  server.post('/install/asker?mode=reinstall', module);

/** Asserts that no call of the actor is open, and that it has not trapped. */
async function nothingStaysOpen(server: Served): Promise<void> {
  assert.equal((await inspect(server, 'asker')).traps, 0);
  assert.equal(ok(await server.post('/stop/asker')), 'stopped');
  assert.equal(ok(await server.post('/start/asker')), 'started');
}

function isEnded({ status, body }: Answer): void {
  const { code, message } = JSON.parse(body) as { code: number; message: string };
  assert.deepEqual([status, code], [400, 4], body);
  assert.match(message, /^Canister .* was reinstalled$/);
}

async function withOutside(t: TestContext): Promise<{ readonly outside: OutsideServer; readonly url: string }> {
  const outside = await startOutsideServer(t);
  return { outside, url: `${outside.origin}/held` };
}

async function installHolder(server: Served): Promise<string> {
  ok(await server.post('/install/holder', await moduleOf(HOLDER)));
  return (await inspect(server, 'holder')).principal;
}

const MODES = {
  'in memory': () => Promise.resolve([]),
  'with --state': async () => ['--state', await temporaryDirectory()],
  'with a log': async () => ['--state', await temporaryDirectory(), '--snapshot-below', '0'],
};

for (const [mode, argsOf] of Object.entries(MODES)) {
  suite(`a reinstallation, ${mode},`, () => {
    test('ends an outcall of the old code, and the new code gets its own', { timeout: 240_000 }, async (t) => {
      const server = await startInProcess(t, { args: await argsOf() });
      const { outside, url } = await withOutside(t);
      const [first, second] = await Promise.all([asker('one'), asker('two')].map(moduleOf));
      assert.ok(first !== undefined && second !== undefined);
      ok(await server.post('/install/asker', first));
      const before = server.post('/call-json/asker/ask', json(url));
      await outside.arrived(1);
      ok(await reinstall(server, second));
      isEnded(await before);
      const after = server.post('/call-json/asker/ask', json(url));
      await outside.arrived(2);
      outside.release();
      assert.deepEqual(JSON.parse(ok(await after)), ['two got at last']);
      assert.deepEqual(await seen(server), ['1 two ask', '']);
      await nothingStaysOpen(server);
    });

    test('ends calls of every kind, and nobody waits for those who were called', { timeout: 240_000 }, async (t) => {
      const server = await startInProcess(t, { args: await argsOf() });
      const [first, second] = await Promise.all([asker('one'), asker('two')].map(moduleOf));
      assert.ok(first !== undefined && second !== undefined);
      const holder = await installHolder(server);
      ok(await server.post('/install/asker', first));
      const held = async (count: number): Promise<void> =>
        until(async () => ok(await server.post('/query-json/holder/peek')) === `[${count}]`);
      const open = [server.post('/call-json/asker/there', json(holder)), server.post('/call-json/asker/loops')];
      await held(1);
      ok(await server.post('/call-json/asker/byTimer', json(holder)));
      await held(2);
      ok(await server.post('/call-json/asker/oneWay', json(holder)));
      await held(3);
      const composite = server.post('/query-json/asker/both', json(holder));
      ok(await reinstall(server, second));
      for (const call of open) isEnded(await call);
      const { status, body } = await composite;
      assert.ok([200, 503].includes(status), body);

      // The holder still holds the calls.
      ok(await server.post('/upgrade/asker', second));
      await nothingStaysOpen(server);
      ok(await server.post('/call-json/holder/letGo'));
      assert.equal(ok(await server.post('/stop/holder')), 'stopped');
      assert.equal(ok(await server.post('/start/holder')), 'started');
      assert.deepEqual(await seen(server), []);
      assert.deepEqual(JSON.parse(ok(await server.post('/call-json/asker/there', json(holder)))), ['two 4']);
      await nothingStaysOpen(server);
    });
  });
}

/** Has a method that runs for a while, and one whose result has another type in each version. */
const typed = (result: string): string => `
import Nat64 "mo:core/Nat64";
persistent actor {
  public func spin(rounds : Nat64) : async Nat64 {
    var sum : Nat64 = 0;
    var k : Nat64 = 0;
    while (k < rounds) { sum := sum *% 31 +% k; k += 1 };
    sum;
  };
  public func value() : async ${result};
}`;

test('a call that waits while its actor is reinstalled is answered by the types of the code that runs it', async (t) => {
  const server = await startInProcess(t);
  ok(await server.post('/install/asker', await moduleOf(typed('Nat { 1 }'))));
  const second = await moduleOf(typed('{ word : Text } { { word = "two" } }'));
  // So that the module is ready when the reinstallation comes: nothing else may begin before that.
  ok(await server.post('/install/other', second));
  const spinning = server.post('/call-json/asker/spin', json(200_000_000));
  const tasks = async (count: number): Promise<void> =>
    until(async () =>
      new RegExp(`^svc_executor_tasks\\{[^}]*\\} ${count}$`, 'mu').test(ok(await server.get('/metrics'))),
    );
  // Calls that come by two connections may change places: one has to execute before the other is sent.
  await tasks(1);
  const waiting = server.post('/call-json/asker/value');
  await tasks(2);
  ok(await reinstall(server, second));
  await spinning;
  assert.deepEqual(JSON.parse(ok(await waiting)), [{ word: 'two' }]);
});

const isStopping = async (server: Served): Promise<boolean> => (await inspect(server, 'asker')).status === 'stopping';

test('a reinstallation whose init fails ends no call', { timeout: 240_000 }, async (t) => {
  const server = await startInProcess(t);
  const { outside, url } = await withOutside(t);
  ok(await server.post('/install/asker', await moduleOf(asker('one'))));
  const call = server.post('/call-json/asker/ask', json(url));
  await outside.arrived(1);
  const failed = await reinstall(server, await moduleOf(asker('three', 'Runtime.trap("not now");')));
  assert.deepEqual([failed.status, /not now/.test(failed.body)], [400, true], failed.body);
  outside.release();
  assert.deepEqual(JSON.parse(ok(await call)), ['one got at last']);
  await nothingStaysOpen(server);
});

test('an upgrade waits for an outcall, also with ?force=true', { timeout: 240_000 }, async (t) => {
  const server = await startInProcess(t);
  const { outside, url } = await withOutside(t);
  ok(await server.post('/install/asker', await moduleOf(asker('one'))));
  const call = server.post('/call-json/asker/ask', json(url));
  await outside.arrived(1);
  const upgrading = server.post('/upgrade/asker?force=true', await moduleOf(asker('two')));
  await until(() => isStopping(server));
  outside.release();
  assert.deepEqual(JSON.parse(ok(await call)), ['one got at last']);
  assert.equal(ok(await upgrading), 'upgraded');
  assert.deepEqual(await seen(server), ['1 one ask', '']);
  await nothingStaysOpen(server);
});

test('an actor under the name of one that was deleted gets no answer of its', { timeout: 240_000 }, async (t) => {
  const server = await startInProcess(t, { args: ['--state', await temporaryDirectory()] });
  const { outside, url } = await withOutside(t);
  const module = await moduleOf(asker('one'));
  ok(await server.post('/install/asker', module));
  const before = server.post('/call-json/asker/ask', json(url));
  await outside.arrived(1);
  const deleted = await server.fetch('/actors/asker?force=true', { method: 'DELETE' });
  assert.equal(await deleted.text(), 'deleted');
  assert.match((await before).body, /"code":4,.* was deleted/);
  ok(await server.post('/install/asker', module));
  const after = server.post('/call-json/asker/ask', json(url));
  await outside.arrived(2);
  outside.release();
  assert.deepEqual(JSON.parse(ok(await after)), ['one got at last']);
  assert.deepEqual(await seen(server), ['1 one ask', '']);
  await nothingStaysOpen(server);
});

test('--watch takes up a saved source when the open calls have come back', { timeout: 240_000 }, async (t) => {
  const root = await temporaryDirectory();
  const source = join(root, 'Asker.mo');
  const save = (version: string): void => {
    writeFileSync(`${source}.draft`, asker(version));
    renameSync(`${source}.draft`, source);
  };
  save('one');
  const manifestFile = join(root, 'actors.json');
  writeFileSync(manifestFile, JSON.stringify({ actors: { asker: { main: 'Asker.mo' } } }));
  const { outside, url } = await withOutside(t);
  const server = await startServer(t, { manifestFile, args: ['--watch'] });
  await until(() => Promise.resolve(server.output.stdout.includes('watching the files')));
  const call = server.post('/call-json/asker/ask', json(url));
  await outside.arrived(1);
  save('two');
  await until(() => isStopping(server));
  outside.release();
  assert.deepEqual(JSON.parse(ok(await call)), ['one got at last']);
  await until(() => Promise.resolve(server.output.stdout.includes('reloaded asker')));
  assert.deepEqual(await seen(server), ['1 one ask', '']);
  await nothingStaysOpen(server);
});

for (const args of [[], ['--snapshot-below', '0']]) {
  const what = args.length === 0 ? '' : ', with a log';
  test(`what a reinstallation has ended stays ended after SIGKILL${what}`, { timeout: 240_000 }, async (t) => {
    const options = { manifest: '{ "actors": {} }', args: ['--state', await temporaryDirectory(), ...args] };
    let server = await startServer(t, options);
    const [first, second] = await Promise.all([asker('one'), asker('two')].map(moduleOf));
    assert.ok(first !== undefined && second !== undefined);
    const holder = await installHolder(server);
    ok(await server.post('/install/asker', first));
    const before = server.post('/call-json/asker/there', json(holder));
    await until(async () => ok(await server.post('/query-json/holder/peek')) === '[1]');
    // In the second round the ended calls come from a server that was killed before.
    for (const module of [second, first]) {
      ok(await reinstall(server, module));
      await server.kill();
      server = await startServer(t, options);
      if (module === second) void server.post('/call-json/asker/there', json(holder)).catch(() => undefined);
      await until(async () => ok(await server.post('/query-json/holder/peek')) === '[2]');
    }
    isEnded(await before);
    ok(await server.post('/upgrade/asker', first));
    await nothingStaysOpen(server);
    ok(await server.post('/call-json/holder/letGo'));
    for (const name of ['holder', 'asker']) assert.equal(ok(await server.post(`/stop/${name}`)), 'stopped');
    ok(await server.post('/start/asker'));
    assert.deepEqual(await seen(server), []);
    assert.equal((await inspect(server, 'asker')).traps, 0);
  });
}
