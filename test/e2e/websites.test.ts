/** Websites of real actors by a real server: the promises of docs/websites.md. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { RawClient, send } from '../support/http-client.ts';
import { startInProcess } from '../support/in-process-server.ts';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** Answers with its request; if asked to, wrongly, or with a stream that never ends. */
const MIRROR = `
  import Array "mo:core/Array";
  import CertifiedData "mo:core/CertifiedData";
  import Principal "mo:core/Principal";
  import Text "mo:core/Text";
  persistent actor Mirror {
    type Header = (Text, Text);
    type Request = { method : Text; url : Text; headers : [Header]; body : Blob };
    type Token = { count : Nat; text : Text };
    type Piece = { body : Blob; token : ?Token };
    type Response = {
      status_code : Nat16; headers : [Header]; body : Blob; upgrade : ?Bool;
      streaming_strategy : ?{ #Callback : { callback : shared query Token -> async Piece; token : Token } };
    };
    var visits = 0;
    func shown(request : Request, caller : Principal) : Text {
      var text = request.method # " " # request.url # "\\n";
      for ((name, value) in request.headers.vals()) text #= name # "=" # value # "\\n";
      text # "caller=" # Principal.toText(caller) # "\\nvisits=" # debug_show visits # "\\n";
    };
    func answer(status : Nat16, body : Text) : Response {
      { status_code = status; headers = [("content-type", "text/plain")]; body = Text.encodeUtf8(body);
        upgrade = null; streaming_strategy = null };
    };
    public shared query ({ caller }) func http_request(request : Request) : async Response {
      visits += 1;
      switch (request.url) {
        case "/trap" { assert false; answer(200, "") };
        case "/status" answer(99, "");
        case "/split" ({ answer(200, "") with headers = [("x", "a\\r\\nset-cookie: b=1")] });
        case "/endless" ({ answer(200, "") with
          streaming_strategy = ?#Callback({ callback = more; token = { count = 0; text = "" } }) });
        case "/late-trap" ({ answer(200, "begun") with
          streaming_strategy = ?#Callback({ callback = failing; token = { count = 0; text = "" } }) });
        case "/spin" { loop { visits += 1 } };
        case "/certificate" answer(200, switch (CertifiedData.getCertificate()) { case null "none"; case (?blob) debug_show blob });
        case _ {
          if (request.method == "POST") ({ answer(200, "ignored") with upgrade = ?true })
          else answer(200, shown(request, caller));
        };
      };
    };
    public shared ({ caller }) func http_request_update(request : Request) : async Response {
      visits += 1;
      answer(201, shown(request, caller) # debug_show (request.body));
    };
    public query func more(token : Token) : async Piece {
      { body = Text.encodeUtf8(debug_show (token.count) # ";"); token = ?{ count = token.count + 1; text = "größe" } };
    };
    public query func failing(_ : Token) : async Piece { assert false; loop {} };
    public query func present() : async Bool { CertifiedData.getCertificate() != null };
    public func presentInUpdate() : async Bool { CertifiedData.getCertificate() != null };
  };`;
const SILENT =
  'persistent actor { public func http_request() : async () {}; public query func hi() : async Nat { 1 } };';

const website = async (server: RunningServer, host: string, target: string, headers = {}): Promise<string> =>
  (await send(server.origin, 'GET', target, { headers: { host, ...headers } })).text;

suite('websites', () => {
  test('what the page shows of Motoko is a website as it stands', async (t) => {
    const page = await readFile(join(import.meta.dirname, '../../docs/websites.md'), 'utf8');
    const [first = '', ...more] = [...page.matchAll(/^```motoko\n(.*?)^```$/gms)].map(([, text = '']) => text);
    for (const text of more) await compileMotoko(text);
    const server = await startServer(t, { manifest: '{"actors":{}}' });
    assert.equal((await server.post('/install/shown', (await compileMotoko(first)).wasm)).status, 200);
    const answer = await server.fetch('/site/shown/x?y');
    assert.deepEqual(
      [answer.status, answer.headers.get('content-type'), await answer.text()],
      [200, 'text/html', 'You asked for /x?y'],
    );
  });

  test('requests arrive as they were sent, from nobody; only an upgrade to an update is kept', async (t) => {
    const server = await startServer(t, { manifest: '{"actors":{}}', args: ['--log-json'] });
    const { wasm } = await compileMotoko(MIRROR);
    assert.equal((await server.post('/install/mirror', wasm)).status, 200);
    assert.equal((await server.post('/install/silent', (await compileMotoko(SILENT)).wasm)).status, 200);
    await using client = new RawClient(server.origin);
    client.write(
      'GET /site/mirror//a/%2e%2e/?x=%00 HTTP/1.1\r\nHOST: h\r\nX-Caller: e6hly-r3bnr-uwgzi\r\nAuthorization: Bearer x\r\nCookie: a\r\ncookie: \xc3\xbc\r\n\r\n',
    );
    const seen = await client.until('visits=1\n');
    assert.equal(
      seen.slice(seen.indexOf('\r\n\r\n') + 4),
      'GET //a/%2e%2e/?x=%00\nHOST=h\nX-Caller=e6hly-r3bnr-uwgzi\nCookie=a\ncookie=\xc3\xbc\ncaller=2vxsx-fae\nvisits=1\n',
    );
    const first = await server.fetch('/site/mirror/form', {
      method: 'POST',
      body: 'a=1',
      headers: { 'x-caller': '?' },
    });
    assert.equal(first.status, 201);
    assert.match(
      await first.text(),
      /^POST \/form\n[^]*\nx-caller=\?\n[^]*caller=2vxsx-fae\nvisits=1\n"\\61\\3D\\31"$/,
    );
    const slashed = await server.fetch('/site/mirror?a=%00');
    assert.deepEqual([slashed.redirected, new URL(slashed.url).pathname], [true, '/site/mirror/']);
    assert.match(await slashed.text(), /^GET \/\?a=%00\n[^]*\nvisits=2\n$/);
    assert.match(await (await server.fetch('/site/mirror/', { method: 'POST', body: '' })).text(), /visits=2\n/);

    for (const [path, status, text] of [
      ['mirror/trap', 502, /^mirror\.http_request trapped: .*assertion failed/],
      ['mirror/status', 502, /status_code is 99/],
      ['mirror/split', 502, /the header "x" holds a control character/],
      ['silent/', 502, /silent serves no website here: http_request is an update method/],
      ['nobody/', 404, /^there is no actor "nobody"$/],
      ['mirrors/', 404, /^there is no actor "mirrors"$/],
    ] as const) {
      const answer = await server.fetch(`/site/${path}`);
      assert.equal(answer.status, status, path);
      assert.match(answer.headers.get('content-type') ?? '', /^text\/plain/);
      assert.match(await answer.text(), text);
    }
    const bad = await send(server.origin, 'GET', '/site/mirror/', { headers: { 'x-bad': '\xff' } });
    assert.deepEqual(
      [bad.status, bad.text],
      [400, 'header x-bad is not UTF-8: an actor gets text, and these bytes are not text'],
    );

    assert.match((await server.get('/metrics')).body, /svc_http_requests_total\{endpoint="site"\} 12\n/);
    const jobs = server.output.stderr
      .split('\n')
      .filter((line) => line.includes('"event":"job"') && line.includes('http_request'))
      .map((line) => JSON.parse(line) as Record<string, string>);
    assert.deepEqual(
      jobs.slice(0, 2).map(({ kind, method, ok }) => [kind, method, ok]),
      [
        ['query', 'http_request', 'true'],
        ['call', 'http_request_update', 'true'],
      ],
    );
    // A HEAD request is answered by the actor.
    assert.equal((await send(server.origin, 'HEAD', '/site/mirror/x')).status, 200);
  });

  test('a stream without end goes on as long as its client, and what fails in the middle is cut', async (t) => {
    const server = await startServer(t, { manifest: '{"actors":{}}', args: ['--instruction-limit', '400000000'] });
    assert.equal((await server.post('/install/mirror', (await compileMotoko(MIRROR)).wasm)).status, 200);
    {
      await using client = new RawClient(server.origin);
      client.write('GET /site/mirror/endless HTTP/1.1\r\nHost: h\r\n\r\n');
      await client.until('\r\n300;\r\n', 30_000);
    }
    await assert.rejects(
      async () => (await server.fetch('/site/mirror/late-trap')).text(),
      /terminated|other side closed/,
    );
    assert.match((await server.get('/site/mirror/spin')).body, /^mirror\.http_request trapped: .*limit of 400000000/);
    // An endless stream does not delay the stop.
    await using endless = new RawClient(server.origin);
    endless.write('GET /site/mirror/endless HTTP/1.1\r\nHost: h\r\n\r\n');
    await endless.until('\r\n10;\r\n', 30_000);
    assert.equal(await server.stop(), 0);
    await endless.ended();
    assert.doesNotMatch(endless.received, /\r\n0\r\n\r\n$/);
  });

  test('a stream is cut by every change of code, with the same module, too', async (t) => {
    const server = await startInProcess(t, { args: [] });
    const { wasm } = await compileMotoko(MIRROR);
    assert.equal((await server.post('/install/mirror', wasm)).status, 200);
    const taken = await server.post('/x/actors/mirror/snapshots', '');
    const { id } = JSON.parse(taken.body) as { readonly id: string };
    for (const change of [
      '/install/mirror?mode=reinstall',
      '/upgrade/mirror',
      '/upgrade/mirror?force=true',
      `/x/actors/mirror/snapshots/${id}/load`,
    ]) {
      await using endless = new RawClient(server.origin);
      endless.write('GET /site/mirror/endless HTTP/1.1\r\nHost: h\r\n\r\n');
      await endless.until('\r\n10;\r\n', 30_000);
      const changed = await server.post(change, change.endsWith('load') ? '' : wasm);
      assert.equal(changed.status, 200, changed.body);
      await endless.ended();
      assert.doesNotMatch(endless.received, /\r\n0\r\n\r\n$/, change);
      const job = server.log.events.findLast(({ prose }) => prose.includes('http_request failed'));
      assert.match(job?.prose ?? '', /mirror has other code now/, change);
    }
  });

  test('an actor that is dry answers 402, and says so in plain text', async (t) => {
    const server = await startInProcess(t, { args: ['--cycles', '100000'] });
    const { wasm } = await compileMotoko(MIRROR);
    const installed = await server.post('/install/mirror', wasm);
    // The actor has too few cycles even for its own init: so it is given some, and uses them up.
    assert.equal(installed.status, 402, installed.body);
    const rich = await startInProcess(t, { args: ['--cycles', '2000000'] });
    assert.equal((await rich.post('/install/mirror', wasm)).status, 200);
    let answer = await rich.fetch('/site/mirror/', { method: 'POST' });
    while (answer.status === 201) answer = await rich.fetch('/site/mirror/', { method: 'POST' });
    assert.equal(answer.status, 402);
    assert.match(answer.headers.get('content-type') ?? '', /^text\/plain/);
    assert.equal((await rich.fetch('/site/mirror/')).status, 402);
  });

  test('--web serves an actor at the root, --site-hosts at host names', async (t) => {
    const names = ['mirror', 'Mirror2', 'TWIN', 'twin', `l${'o'.repeat(62)}ng`.slice(0, 64)];
    const server = await startServer(t, {
      manifest: '{"actors":{}}',
      args: ['--web', 'mirror', '--site-hosts'],
      env: { SVC_TOKEN: 'secret' },
    });
    assert.match(server.output.stderr, /--web mirror: there is no actor "mirror"/);
    const { wasm } = await compileMotoko(MIRROR);
    const authorization = { authorization: 'Bearer secret' };
    const ids = new Map<string, string>();
    for (const name of names) {
      const installed = await server.post(`/install/${name}`, wasm, authorization);
      assert.equal(installed.status, 200, installed.body);
      ids.set(name, installed.body);
    }
    const inspected = JSON.parse((await server.get('/inspect', authorization)).body) as {
      name: string;
      principal: string;
    }[];
    const principalOf = (name: string): string => inspected.find((actor) => actor.name === name)?.principal ?? '';
    /** Sends a POST, which the visited actor counts; returns that count. */
    const visit = async (host: string, target = '/'): Promise<string> => {
      const answer = await send(server.origin, 'POST', target, { headers: { host }, body: '' });
      return /visits=(\d+)/.exec(answer.text)?.[1] ?? `${answer.status}`;
    };
    assert.equal(await visit('x'), '1');
    assert.equal(await visit('mirror.localhost'), '2');
    assert.equal(await visit(`${principalOf('mirror')}.localhost:7000`), '3');
    assert.equal(await visit('MIRROR2.localhost'), '1');
    // Two names differ in case alone: neither actor has the name, and the request goes to --web.
    assert.equal(await visit('twin.localhost'), '4');
    assert.equal(await visit(`${principalOf('twin')}.localhost`), '1');
    assert.equal(await visit(`${principalOf('TWIN')}.localhost`), '1');
    assert.equal(await visit('x', `/y?canisterId=${principalOf('TWIN')}`), '2');
    // Once one of them is deleted, the other has the name.
    assert.equal(
      (await send(server.origin, 'DELETE', '/actors/TWIN?force=true', { headers: authorization })).status,
      200,
    );
    assert.equal(await visit('twin.localhost'), '2');
    assert.equal((await server.get('/actors')).status, 401);
    assert.equal(await website(server, 'mirror.localhost', '/health'), 'ok');
  });

  test('--no-gateway takes websites away and says so', async (t) => {
    const server = await startInProcess(t, { args: ['--no-gateway'] });
    const answer = await server.get('/site/mirror/');
    assert.deepEqual(answer, { status: 404, body: 'websites (/site/<ACTOR>/<PATH>) are turned off (--no-gateway)' });
  });
});

suite('"certificate": "placeholder"', () => {
  const present = async (server: RunningServer, name: string, method = 'present'): Promise<string> =>
    (await server.post(`/${method === 'present' ? 'query' : 'call'}-json/${name}/${method}`)).body;

  test('is kept with the actor: through restarts, sleep, upgrades and a backup', async (t) => {
    const state = join(await temporaryDirectory(), 'state');
    const { wasm } = await compileMotoko(MIRROR);
    const args = ['--state', state, '--live-cap', '1'];
    const server = await startServer(t, { manifest: '{"actors":{}}', args });
    assert.equal((await server.post('/install/plain', wasm)).status, 200);
    assert.equal((await server.post('/install/certified?certificate=placeholder', wasm)).status, 200);
    assert.equal((await server.post('/install/x?certificate=real', wasm)).status, 404);
    const check = async (running: RunningServer, expected: string, name = 'certified'): Promise<void> => {
      assert.equal(await present(running, name), `[${expected}]`);
      assert.equal(await present(running, name, 'presentInUpdate'), '[false]');
      assert.match(
        (await running.get(`/site/${name}/certificate`)).body,
        expected === 'true' ? /^"\\D9\\D9\\F7/ : /^none$/,
      );
    };
    await check(server, 'true');
    await check(server, 'false', 'plain');
    // The other actor has put this one to sleep.
    await check(server, 'true');
    assert.equal((await server.post('/upgrade/certified', wasm)).status, 200);
    await check(server, 'true');
    assert.equal((await server.post('/upgrade/plain?certificate=placeholder', wasm)).status, 200);
    await check(server, 'true', 'plain');
    const backup = Buffer.from(await (await server.fetch('/backup')).arrayBuffer());
    await server.kill();

    const again = await startServer(t, { manifest: '{"actors":{}}', args });
    await check(again, 'true');
    await check(again, 'true', 'plain');
    assert.equal((await again.post('/install/certified?mode=reinstall', wasm)).status, 200);
    await check(again, 'true');
    assert.equal(await again.stop(), 0);

    const folder = await temporaryDirectory();
    await writeFile(join(folder, 'svc.backup'), backup);
    const restored = await startServer(t, {
      manifest: '{"actors":{}}',
      args: ['--state', join(folder, 'state'), '--restore', join(folder, 'svc.backup')],
    });
    await check(restored, 'true');
  });

  test('in the manifest, also when it comes there later', async (t) => {
    const folder = await temporaryDirectory();
    await writeFile(join(folder, 'mirror.wasm'), (await compileMotoko(MIRROR)).wasm);
    const manifest = (more: object): string =>
      JSON.stringify({ actors: { mirror: { wasm: join(folder, 'mirror.wasm'), ...more } } });
    const args = ['--state', join(folder, 'state')];
    const server = await startServer(t, { manifest: manifest({}), args });
    assert.equal(await present(server, 'mirror'), '[false]');
    assert.equal(await server.stop(), 0);
    const later = await startServer(t, { manifest: manifest({ certificate: 'placeholder' }), args });
    assert.equal(await present(later, 'mirror'), '[true]');
    assert.equal(await later.stop(), 0);
    const without = await startServer(t, { manifest: manifest({}), args });
    assert.equal(await present(without, 'mirror'), '[true]');
  });
});
