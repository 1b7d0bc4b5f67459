/** Folders as websites, by a real server: the promises of docs/websites.md, "A folder as a website". */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { cp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { brotliCompressSync, gunzipSync, gzipSync } from 'node:zlib';
import { HOST_PRINCIPAL, SITE_FILE } from '../../subsystems/assets/index.ts';
import { principalToText } from '../../subsystems/ic/index.ts';
import { send } from '../support/http-client.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

interface Project {
  readonly dist: string;
  readonly manifestFile: string;
  readonly put: (name: string, content: string | Uint8Array) => Promise<void>;
}

async function project(manifest: unknown = { actors: { site: { assets: 'dist' } } }): Promise<Project> {
  const folder = await temporaryDirectory();
  const dist = join(folder, 'dist');
  const manifestFile = join(folder, 'actors.json');
  await writeFile(manifestFile, JSON.stringify(manifest));
  const put = async (name: string, content: string | Uint8Array): Promise<void> => {
    await mkdir(dirname(join(dist, name)), { recursive: true });
    await writeFile(join(dist, name), content);
  };
  await put('index.html', '<h1>home</h1>');
  return { dist, manifestFile, put };
}

const at = (server: RunningServer, path: string, headers: Record<string, string> = {}, method = 'GET') =>
  send(server.origin, method, `/site/site${path}`, { headers });
const textAt = async (server: RunningServer, path: string): Promise<string> => (await at(server, path)).text;

suite('a folder is a website', () => {
  test('files with their types, entity tags, ranges, packed forms and rules', async (t) => {
    const { put, manifestFile } = await project();
    const script = 'let x = 1;\n'.repeat(500);
    const large = randomBytes(5_000_000);
    await put('app.js', script);
    await put('app.js.gz', gzipSync(script));
    await put('app.js.br', brotliCompressSync(script));
    await put('alone.tar.gz', gzipSync('tar'));
    await put('docs/index.html', 'docs');
    await put('about.html', 'about');
    await put('large.bin', large);
    await put('a%20b.txt', 'percent');
    await put('Case.txt', 'upper');
    await put('case.txt', 'lower');
    await put('empty.txt', '');
    await put('.env', 'secret');
    await put('.well-known/x.txt', 'known');
    await put('_headers', '/*\n  X-Frame-Options: DENY\n/app.js\n  Cache-Control: max-age=60\n');
    await put(
      '_redirects',
      '/old /docs/ 301\n/u/:id /about?of=/:id\n/app/* /index.html 200\n/case.txt /Case.txt 302!\n',
    );
    // A cache of its own: the module that comes with the server is taken, and nothing is compiled.
    const server = await startServer(t, { manifestFile, env: { XDG_CACHE_HOME: await temporaryDirectory() } });
    assert.match(server.output.stderr, /compiled site in \S+ \S+ \(cached\)/, 'npm run build:site');

    const home = await at(server, '/');
    assert.deepEqual([home.status, home.text], [200, '<h1>home</h1>']);
    assert.equal(home.headers['content-type'], 'text/html; charset=utf-8');
    assert.equal(home.headers['cache-control'], 'no-cache');
    assert.equal(home.headers['x-frame-options'], 'DENY');
    const tag = `"${createHash('sha256').update('<h1>home</h1>').digest('hex')}"`;
    assert.equal(home.headers['etag'], tag);
    for (const known of [tag, `"a", W/${tag}`, '*']) {
      const answer = await at(server, '/', { 'if-none-match': known });
      assert.deepEqual([answer.status, answer.text, answer.headers['etag']], [304, '', tag], known);
    }
    assert.equal((await at(server, '/', { 'if-none-match': '"other"' })).status, 200);

    const forms: readonly (readonly [string, string | undefined])[] = [
      ['gzip, br', 'br'],
      ['gzip', 'gzip'],
      ['br;q=0, gzip;q=0.5', 'gzip'],
      ['br;q=0.000,gzip; q=0', undefined],
      ['deflate', undefined],
    ];
    const tags = new Set<unknown>();
    for (const [accepted, encoding] of forms) {
      const answer = await at(server, '/app.js', { 'accept-encoding': accepted });
      assert.equal(answer.headers['content-encoding'], encoding, accepted);
      assert.equal(answer.headers['vary'], 'accept-encoding');
      assert.equal(answer.headers['cache-control'], 'max-age=60');
      assert.equal(answer.headers['content-type'], 'text/javascript; charset=utf-8');
      if (encoding === 'gzip') assert.equal(gunzipSync(answer.body).toString(), script);
      if (encoding === undefined) assert.equal(answer.text, script);
      tags.add(answer.headers['etag']);
    }
    assert.equal(tags.size, 3, 'each form has a tag of its own');
    const packed = await at(server, '/app.js.gz', { 'accept-encoding': 'gzip' });
    assert.deepEqual(
      [packed.headers['content-type'], packed.headers['content-encoding']],
      ['application/gzip', undefined],
    );
    assert.equal(gunzipSync(packed.body).toString(), script);
    assert.equal(gunzipSync((await at(server, '/alone.tar.gz')).body).toString(), 'tar');

    assert.ok((await at(server, '/large.bin')).body.equals(large), 'streamed in pieces');
    const ranges: readonly (readonly [string, number, number])[] = [
      ['bytes=0-0', 0, 1],
      ['bytes=-3', 4_999_997, 5_000_000],
      ['bytes=4999990-', 4_999_990, 5_000_000],
      ['bytes=1000000-4500000', 1_000_000, 4_500_001],
      ['bytes=4999999-9999999999999999999', 4_999_999, 5_000_000],
    ];
    for (const [range, from, end] of ranges) {
      const answer = await at(server, '/large.bin', { range });
      assert.equal(answer.status, 206, range);
      assert.equal(answer.headers['content-range'], `bytes ${from}-${end - 1}/5000000`);
      assert.ok(answer.body.equals(large.subarray(from, end)), range);
    }
    for (const range of ['bytes=5000000-', 'bytes=-0']) {
      const answer = await at(server, '/large.bin', { range });
      assert.deepEqual([answer.status, answer.headers['content-range']], [416, 'bytes */5000000'], range);
    }
    for (const range of ['bytes=2-1', 'bytes=0-1,3-4', 'lines=1-2', 'bytes=x-', 'bytes=--1'])
      assert.equal((await at(server, '/', { range })).status, 200, range);
    assert.equal((await at(server, '/', { range: 'bytes=0-1', 'if-range': '"other"' })).status, 200);
    assert.equal((await at(server, '/', { range: 'bytes=0-1', 'if-range': tag })).status, 206);
    const head = await at(server, '/large.bin', {}, 'HEAD');
    assert.deepEqual([head.status, head.body.length], [200, 0]);

    for (const [path, text] of [
      ['/a%2520b.txt', 'percent'],
      ['/Case.txt', 'upper'],
      ['/empty.txt', ''],
      ['/.well-known/x.txt', 'known'],
      ['/about', 'about'],
      ['/docs/', 'docs'],
      ['/docs/?x', 'docs'],
      ['/app/any/where', '<h1>home</h1>'],
    ] as const)
      assert.deepEqual([(await at(server, path)).status, await textAt(server, path)], [200, text], path);
    for (const [path, status, location] of [
      ['/docs?x=%2F', 308, './docs/?x=%2F'],
      ['/old', 301, './docs/'],
      ['/case.txt', 302, './Case.txt'],
      ['/u/%C3%A4', 302, '../about?of=/%c3%a4'],
    ] as const) {
      const answer = await at(server, path);
      assert.deepEqual([answer.status, answer.headers['location']], [status, location], path);
    }
    // Pages of an application show themselves; what a page asks for is missing by its name.
    assert.equal((await at(server, '/deep/link', { accept: 'text/html,*/*' })).text, '<h1>home</h1>');
    assert.equal((await at(server, '/deep/link', { accept: '*/*' })).status, 404);
    for (const path of ['/.env', '/_headers', '/_redirects', '/nowhere.js', '/%00'])
      assert.equal((await at(server, path)).status, 404, path);
    assert.equal((await at(server, '/%zz')).status, 400);
    assert.equal((await at(server, '/', {}, 'PUT')).status, 405);
  });

  test('only the host may change a site, and a deployment sends what differs and counts at once', async (t) => {
    const { put, dist, manifestFile } = await project();
    for (let index = 0; index < 50; index++) await put(`f${index}.txt`, `${index}`);
    const state = join(await temporaryDirectory(), 'state');
    const args = ['--state', state, '--auth-token', 'secret'];
    const server = await startServer(t, { manifestFile, args });
    const authorization = { authorization: 'Bearer secret' };
    for (const caller of [{}, { 'x-caller': '2vxsx-fae' }, { 'x-caller': 'aaaaa-aa' }]) {
      const call = async (method: string, argument: string) =>
        server.post(`/call-json/site/${method}`, argument, { ...authorization, ...caller });
      for (const [method, argument] of [
        ['create_batch', '[{}]'],
        ['create_chunk', '[{"batch_id":1,"content":""}]'],
        ['create_chunks', '[{"batch_id":1,"content":[]}]'],
        ['commit_batch', '[{"batch_id":2,"operations":[{"Clear":{}}]}]'],
      ] as const) {
        const { status, body } = await call(method, argument);
        assert.equal(status, 400, method);
        assert.match(body, /may not change this site: it is no controller/);
      }
    }
    assert.equal((await server.post('/call-json/site/create_batch', '[{}]')).status, 401);
    const history = async () =>
      JSON.parse((await server.get('/history/site', authorization)).body) as { method: string; caller: string }[];
    const own = principalToText(HOST_PRINCIPAL);
    const messages = async (): Promise<string[]> =>
      (await history()).filter(({ caller }) => caller === own).map(({ method }) => method);
    const before = (await messages()).length;

    await put('index.html', 'second');
    await put('new.txt', 'new');
    await rm(join(dist, 'f7.txt'));
    await put('_headers', '/f8.txt\n  X-Eight: 8\n');
    assert.equal(await textAt(server, '/'), '<h1>home</h1>', 'nothing has been deployed');
    assert.equal((await server.post('/upgrade/site', '', authorization)).status, 200);
    assert.equal(await textAt(server, '/'), 'second');
    assert.equal(await textAt(server, '/new.txt'), 'new');
    assert.equal((await at(server, '/f7.txt')).status, 404);
    assert.equal((await at(server, '/f8.txt')).headers['x-eight'], '8');
    assert.deepEqual((await messages()).slice(before), ['list', 'create_batch', 'create_chunks', 'commit_batch']);
    // Nothing differs: nothing is sent.
    assert.equal((await server.post('/upgrade/site', '', authorization)).status, 200);
    assert.deepEqual((await messages()).slice(before + 4), ['list']);

    // A folder that cannot be served changes nothing.
    await put('index.html', 'third');
    await symlink('/etc/hostname', join(dist, 'out'));
    const refused = await server.post('/upgrade/site', '', authorization);
    assert.equal(refused.status, 400);
    assert.match(refused.body, /dist\/out is a link that leads out of the folder/);
    assert.equal(await textAt(server, '/'), 'second');
    await rm(join(dist, 'out'));

    // A start takes up what has changed meanwhile; contents are in stable memory.
    await server.kill();
    const again = await startServer(t, { manifestFile, args });
    assert.equal(await textAt(again, '/'), 'third');
    assert.equal(await textAt(again, '/f9.txt'), '9');
    const [site] = JSON.parse((await again.get('/inspect', authorization)).body) as { stableBytes: number }[];
    assert.ok((site?.stableBytes ?? 0) > 0);
  });

  test('a folder that cannot be served is announced, and so is an actor that takes no files', async (t) => {
    const { put, manifestFile } = await project({
      actors: {
        site: { assets: 'dist' },
        gone: { assets: 'nowhere' },
        plain: { main: 'Plain.mo', assets: 'dist' },
        own: { main: 'own/Site.mo', assets: 'dist' },
      },
    });
    await writeFile(
      join(manifestFile, '../Plain.mo'),
      'persistent actor { public query func hi() : async Nat { 1 } };',
    );
    await cp(dirname(SITE_FILE), join(manifestFile, '../own'), { recursive: true });
    await put('_redirects', '/old /new 999\n');
    const { output } = await startServer(t, { manifestFile });
    assert.match(output.stdout, /REJECTED site _redirects cannot be used:\n {4}line 1: the status is one of/);
    await put('_redirects', '/old /index.html 301\n');
    const server = await startServer(t, { manifestFile });
    assert.match(server.output.stdout, /REJECTED gone .*nowhere cannot be read: ENOENT/);
    assert.match(
      server.output.stdout,
      /WARNING plain .* it has no method list, create_batch, create_chunk, commit_batch/,
    );
    assert.equal((await server.fetch('/site/own/')).status, 200, 'an actor with the interface takes them');
    assert.equal((await server.fetch('/site/own/old')).status, 404, 'rules are those of the site of the server');
  });

  test('with --watch a save is a deployment, also of new files and folders', async (t) => {
    const { put, dist, manifestFile } = await project();
    const server = await startServer(t, { manifestFile, args: ['--watch'] });
    const shows = async (path: string, text: string): Promise<void> => {
      for (let tries = 0; (await textAt(server, path)) !== text; tries++) {
        assert.ok(tries < 500, `${path}: ${server.output.stdout}`);
        await sleep(20);
      }
    };
    await put('index.html', 'saved');
    await shows('/', 'saved');
    await put('sub/deep/new.txt', 'new');
    await shows('/sub/deep/new.txt', 'new');
    await put('sub/deep/new.txt', 'newer');
    await shows('/sub/deep/new.txt', 'newer');
    await put('_redirects', '/old /docs/ 418\n');
    for (let tries = 0; !server.output.stdout.includes('WARNING site was not reloaded'); tries++) {
      assert.ok(tries < 500);
      await sleep(20);
    }
    // A build that makes its folder anew.
    await rm(dist, { recursive: true });
    await put('index.html', 'built');
    await shows('/', 'built');
    await shows('/sub/deep/new.txt', 'there is no /sub/deep/new.txt\n');
  });
});
