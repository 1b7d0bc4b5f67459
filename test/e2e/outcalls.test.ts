/** Outcalls of a real Motoko actor, through a real server, to external servers that behave well and badly. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { EXAMPLES, type RunningServer, startServer, type TestOwner } from '../support/server.ts';
import { compileMotoko } from '../support/motoko.ts';
import { type OutsideServer, OUTSIDE_CA_FILE, startOutsideServer } from '../support/outside-server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** Makes any request, and remembers the answer. */
const PROBE = `
import Error "mo:core/Error";
import Cycles "mo:core/Cycles";
import Blob "mo:core/Blob";
import Debug "mo:core/Debug";
import Text "mo:core/Text";
import Principal "mo:core/Principal";
import Runtime "mo:core/Runtime";

persistent actor Probe {
  type Header = { name : Text; value : Text };
  type Response = { status : Nat; headers : [Header]; body : Blob };
  type Args = { response : Response; context : Blob };
  type Function = shared query Args -> async Response;
  type Method = { #get; #head; #post; #put; #delete; #patch };
  transient let management = actor "aaaaa-aa" : actor {
    http_request : ({ url : Text; max_response_bytes : ?Nat64; method : Method; headers : [Header]; body : ?Blob;
      transform : ?{ function : Function; context : Blob }; is_replicated : ?Bool }) -> async Response;
  };
  var outcomes : [Text] = [];
  var kept = 0;

  func functionOf(name : Text) : ?{ function : Function; context : Blob } {
    switch (name) {
      case "tidy" ?{ function = tidy; context = "!" };
      case "trap" ?{ function = fail; context = "" };
      case "spin" ?{ function = spin; context = "" };
      case _ null;
    };
  };

  public func ask(url : Text, transform : Text, max : ?Nat64) : async { status : Nat; headers : [Header]; body : ?Text; refunded : Nat } {
    let response = await (with cycles = 1_000_000) management.http_request({
      url; max_response_bytes = max; method = #get; headers = []; body = null; transform = functionOf(transform); is_replicated = null;
    });
    { response with body = Text.decodeUtf8(response.body); refunded = Cycles.refunded() };
  };

  public func remember(url : Text) : async () {
    kept += 1;
    let outcome = try {
      ignore await management.http_request({
        url; max_response_bytes = null; method = #get; headers = []; body = null; transform = null; is_replicated = null;
      });
      "answered";
    } catch (error) debug_show (Error.code(error)) # " " # Error.message(error);
    outcomes := [outcome];
  };

  public query func remembered() : async { outcomes : [Text]; kept : Nat } { { outcomes; kept } };

  public shared query ({ caller }) func tidy({ response; context } : Args) : async Response {
    kept += 1;
    Debug.print("tidied");
    if (not Principal.isAnonymous(caller) and caller != Principal.fromText("aaaaa-aa")) Runtime.trap("not the system");
    { response with headers = [{ name = "kept"; value = debug_show kept }]; body = context };
  };
  public query func fail(_ : Args) : async Response { Runtime.trap("transform says no") };
  public query func spin(_ : Args) : async Response { loop {} };
};`;

interface Asked {
  readonly status: number;
  readonly body: string;
}

let probe: Uint8Array;
before(async () => {
  ({ wasm: probe } = await compileMotoko(PROBE));
});

async function startProbe(
  t: TestOwner,
  args: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<RunningServer> {
  const server = await startServer(t, { manifest: '{"actors":{}}', args, env });
  const installed = await server.post('/install/probe', probe);
  assert.equal(installed.status, 200, installed.body);
  return server;
}

const ask = (server: RunningServer, url: string, transform = '', max: number | null = null): Promise<Asked> =>
  server.post('/call-json/probe/ask', JSON.stringify([url, transform, max]));

const remembered = async (server: RunningServer): Promise<{ outcomes: string[]; kept: number }> =>
  (JSON.parse((await server.post('/query-json/probe/remembered')).body) as [{ outcomes: string[]; kept: number }])[0];

describe('an actor that asks the outside', () => {
  let server: RunningServer;
  let outside: OutsideServer;
  let secure: OutsideServer;
  const owner: { ends: (() => Promise<void>)[]; after: (end: () => Promise<void>) => void } = {
    ends: [],
    after: (end) => void owner.ends.push(end),
  };

  before(async () => {
    [outside, secure] = await Promise.all([
      startOutsideServer(owner),
      startOutsideServer(owner, { certificate: 'good' }),
    ]);
    const args = ['--outcall-timeout-secs', '3', '--instruction-limit', '200000000'];
    server = await startProbe(owner, args, { NODE_EXTRA_CA_CERTS: OUTSIDE_CA_FILE });
  });
  test('gets the response, over HTTP and HTTPS, and its cycles back', async () => {
    for (const { origin } of [outside, secure]) {
      const { status, body } = await ask(server, `${origin}/json/5`);
      assert.equal(status, 200, body);
      assert.deepEqual(JSON.parse(body), [
        {
          status: 200,
          headers: [
            { name: 'content-length', value: '20' },
            { name: 'x-mixed', value: 'Case' },
          ],
          body: '{"n":5,"name":"Ada"}',
          refunded: 1_000_000,
        },
      ]);
    }
    assert.equal(secure.received[0]?.headers.get('user-agent'), 'ic/1.0');
  });

  test('gets what its transform made of it; what the transform wrote is gone', async () => {
    const earlier = await remembered(server);
    const { status, body } = await ask(server, `${outside.origin}/json/5`, 'tidy');
    assert.equal(status, 200, body);
    const [answer] = JSON.parse(body) as [{ headers: unknown; body: string }];
    assert.deepEqual(answer.headers, [{ name: 'kept', value: String(earlier.kept + 1) }]);
    assert.equal(answer.body, '!');
    assert.equal((await remembered(server)).kept, earlier.kept);
  });

  test('is told why there is none', async () => {
    await outside.arrived(0);
    const cases: readonly (readonly [url: string, transform: string, max: number | null, message: RegExp])[] = [
      [`${outside.origin}/stall`, '', null, /no complete response came within 3 s/],
      [`${outside.origin}/drip`, '', null, /no complete response came within 3 s/],
      [`${outside.origin}/flood`, '', null, /more than the 2000000 bytes/],
      [`${outside.origin}/bytes/600`, '', 500, /more than the 500 bytes/],
      [`${outside.origin}/badheader`, '', null, /HTTP/],
      [`${outside.origin}/closeearly`, '', null, /content-length|closed the connection/],
      ['http://127.0.0.1:1/', '', null, /nobody listens there/],
      [`https://127.0.0.1:${outside.port}/`, '', null, /SSL|TLS|EPROTO|closed/i],
      [`${outside.origin}/json/1`, 'trap', null, /the transform "fail" failed: .*transform says no/],
      [`${outside.origin}/json/1`, 'spin', null, /the transform "spin" failed: .*instruction/],
      ['gopher://example.org/', '', null, /IC0408: url begins with "gopher:"/],
      [outside.origin, '', 2_000_001, /max_response_bytes is 2000001/],
    ];
    const answers = await Promise.all(cases.map(([url, transform, max]) => ask(server, url, transform, max)));
    for (const [at, { status, body }] of answers.entries()) {
      const [url, , , message] = cases[at] ?? assert.fail();
      assert.equal(status, 400, `${url}: ${body}`);
      const error = JSON.parse(body) as { code: number; message: string };
      assert.match(error.message, message, url);
    }
    assert.ok(outside.written < 64 * 1024 * 1024, `${outside.written} bytes were taken`);
  });

  test('a redirect is an answer', async () => {
    const earlier = outside.received.length;
    const [answer] = JSON.parse((await ask(server, `${outside.origin}/redirect`)).body) as [{ status: number }];
    assert.equal(answer.status, 302);
    assert.equal(outside.received.length, earlier + 1);
  });

  test('may be asked two megabytes at a time, many at once, while the server answers others', async () => {
    const answers = Array.from({ length: 8 }, () => ask(server, `${outside.origin}/bytes/1900000`));
    const health = await server.get('/health');
    assert.equal(health.body, 'ok');
    for (const { status, body } of await Promise.all(answers))
      assert.ok(status === 200 && body.length > 1_900_000, body.slice(0, 300));
  });

  test('the history and the numbers tell of them', async () => {
    await ask(server, `${outside.origin}/json/77`);
    const history = JSON.parse((await server.get('/history/probe')).body) as readonly Record<string, unknown>[];
    const entry = history.findLast(({ kind }) => kind === 'outcall');
    assert.equal(entry?.['method'], 'http_request');
    assert.equal(entry['args'], `("GET ${outside.origin}/json/77", 200 : nat16)`);
    assert.equal(entry['outcome'], 'reply');
    const failed = history.findLast(({ kind, outcome }) => kind === 'outcall' && outcome === 'reject');
    assert.equal(typeof failed?.['message'], 'string');
    const metrics = (await server.get('/metrics')).body;
    for (const end of ['answered', 'failed', 'timeout', 'too_large', 'transform'])
      assert.match(metrics, new RegExp(`^svc_outcalls_total\\{end="${end}"\\} [1-9]`, 'm'));
    assert.match(metrics, /^svc_outcalls_active 0$/m);
    assert.match(metrics, /^svc_outcall_seconds_count [1-9]/m);
  });

  test('a stop waits a moment for what is under way, and then rejects it', async () => {
    const held = ask(server, `${outside.origin}/held`);
    await outside.arrived(outside.received.length + 1);
    const stopped = server.stop();
    const { status } = await held;
    assert.ok(status === 400 || status === 503, `${status}`);
    assert.equal(await stopped, 0);
    for (const end of owner.ends) await end();
  });
});

test('the code of a reinstallation runs no transform for an outcall of the code before', async (t) => {
  const outside = await startOutsideServer(t);
  const server = await startProbe(t);
  const held = ask(server, `${outside.origin}/held`, 'tidy');
  await outside.arrived(1);
  const reinstalled = await server.post('/install/probe?mode=reinstall', probe);
  assert.equal(reinstalled.status, 200, reinstalled.body);
  assert.match((await held).body, /was reinstalled/);
  outside.release();
  let history = '';
  while (!history.includes('"outcall"')) history = (await server.get('/history/probe')).body;
  assert.equal((await server.get('/logs/probe')).body, '');
});

test('SIGKILL while one is in flight: the actor is told that it may be tried again, and its state is what it was when it asked', async (t) => {
  const outside = await startOutsideServer(t);
  const args = ['--state', await temporaryDirectory(), '--fsync', 'off'];
  for (const more of [[], ['--snapshot-below', '0']]) {
    const first = await startServer(t, { manifest: '{"actors":{}}', args: [...args, ...more] });
    const installed = await first.post('/install/probe', probe);
    assert.ok(installed.status === 200 || /already installed/.test(installed.body), installed.body);
    const earlier = await remembered(first);
    const unanswered = first
      .post('/call-json/probe/remember', JSON.stringify([`${outside.origin}/stall`]))
      .catch(() => undefined);
    await outside.arrived(outside.received.length + 1);
    await first.kill();
    await unanswered;
    const second = await startServer(t, { manifest: '{"actors":{}}', args: [...args, ...more] });
    let now = await remembered(second);
    while (now.outcomes.length === 0 || (now.outcomes[0] === earlier.outcomes[0] && now.kept === earlier.kept))
      now = await remembered(second);
    assert.equal(now.kept, earlier.kept + 1, 'what it did before it asked is there');
    assert.deepEqual(now.outcomes, ['#system_transient the server was restarted while the call was under way']);
    await second.post('/call-json/probe/remember', JSON.stringify([`${outside.origin}/hello`]));
    assert.deepEqual((await remembered(second)).outcomes, ['answered']);
    await second.kill();
  }
});

test('what was recorded is replayed without a network, and what was not is refused', async (t) => {
  const outside = await startOutsideServer(t);
  const file = join(await temporaryDirectory(), 'calls.jsonl');
  const recording = await startProbe(t, ['--outcalls-record', file]);
  const known = await ask(recording, `${outside.origin}/json/3`, 'tidy');
  assert.equal(known.status, 200, known.body);
  await recording.stop();
  await outside.close();
  assert.match(await readFile(file, 'utf8'), /^\{"svc-outcalls":1\}\n\{"method":"GET",.*\}\n$/);

  const replaying = await startProbe(t, ['--outcalls-replay', file]);
  assert.deepEqual(await ask(replaying, `${outside.origin}/json/3`, 'tidy'), known);
  const unknown = await ask(replaying, `${outside.origin}/json/4`);
  assert.equal(unknown.status, 400);
  assert.match(unknown.body, /the recording has no answer to GET/);
});

test('--no-outcalls and --outcalls-deny-private refuse, the rest serves', async (t) => {
  const outside = await startOutsideServer(t);
  const none = await startProbe(t, ['--no-outcalls']);
  assert.match(
    (await ask(none, `${outside.origin}/hello`)).body,
    /outcalls are turned off on this host \(--no-outcalls\)/,
  );
  await none.stop();
  const denying = await startProbe(t, ['--outcalls-deny-private']);
  for (const host of ['127.0.0.1', 'localhost', '0x7f.1', '[::ffff:127.0.0.1]', '169.254.169.254'])
    assert.match((await ask(denying, `http://${host}:${outside.port}/hello`)).body, /outcalls-deny-private/, host);
  assert.equal(outside.connections, 0);
});

test('the example fetches a JSON document and keeps it', async (t) => {
  const outside = await startOutsideServer(t);
  const server = await startServer(t, { manifestFile: EXAMPLES });
  const url = JSON.stringify([`${outside.origin}/json/9`]);
  const fetched = await server.post('/call-json/fetcher/fetch', url);
  assert.equal(fetched.status, 200, fetched.body);
  const [{ ok }] = JSON.parse(fetched.body) as [{ ok: { json: string } }];
  assert.deepEqual(JSON.parse(ok.json), { n: 9, name: 'Ada' });
  assert.deepEqual(JSON.parse((await server.post('/query-json/fetcher/get', url)).body), [ok]);
  const missing = await server.post('/call-json/fetcher/fetch', JSON.stringify([`${outside.origin}/nowhere`]));
  assert.equal(missing.body, '[{"status":404}]');
  const failed = await server.post('/call-json/fetcher/fetch', '["http://127.0.0.1:1/"]');
  assert.match(failed.body, /^\[\{"failed":".*nobody listens there/);
});
