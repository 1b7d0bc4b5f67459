/**
 * Tokens with scopes on a real server: made by the command, read at the start and at SIGHUP, and with the caller that
 * an actor sees.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { sha256Of, showing, writeTokens } from '../support/token-file.ts';

const SVC = join(import.meta.dirname, '../../config/svc.js');
const ALL = showing('all');
const SHOP = 'rrkah-fqaaa-aaaaa-aaaaq-cai';
const WHO = `persistent actor {
  public shared ({ caller }) func who() : async Principal { caller };
  public shared query ({ caller }) func ask() : async Principal { caller };
}`;

async function startTokens(
  t: TestContext,
  tokensFile: string,
  wrapper: readonly string[] = [],
): Promise<RunningServer> {
  const server = await startServer(t, { manifest: '{"actors":{}}', args: ['--tokens', tokensFile], wrapper });
  for (const name of ['shop', 'other']) {
    const { wasm } = await compileMotoko(WHO);
    const installed = await server.post(`/install/${name}`, wasm, ALL);
    assert.equal(installed.status, 200, installed.body);
  }
  return server;
}

async function told(server: RunningServer, pattern: RegExp): Promise<void> {
  for (const deadline = Date.now() + 60_000; !pattern.test(server.output.stderr); await sleep(5))
    assert.ok(Date.now() < deadline, `no ${pattern} in ${server.output.stderr}`);
}

const TOKENS = {
  all: { may: ['*'] },
  shop: { may: ['call:shop', 'query:shop'], caller: SHOP },
  grafana: { may: ['metrics'] },
};

test('a token calls its actor as its own caller, reads the numbers, and nothing else', async (t) => {
  const server = await startTokens(t, await writeTokens(TOKENS));
  assert.equal((await server.post('/call-json/shop/who', '[]', showing('shop'))).body, JSON.stringify([SHOP]));
  assert.equal((await server.post('/query-json/shop/ask', '[]', showing('shop'))).body, JSON.stringify([SHOP]));
  const denied = await server.post('/call-json/other/who', '[]', showing('shop'));
  const text = 'this token lacks the scope call:other: ask whoever runs the server for it';
  assert.deepEqual([denied.status, JSON.parse(denied.body)], [403, { code: 403, message: text }]);
  assert.equal((await server.post('/call-json/nobody/who', '[]', showing('shop'))).status, 403);
  assert.match((await server.get('/metrics', showing('grafana'))).body, /svc_uptime_seconds/);
  assert.equal((await server.get('/inspect', showing('grafana'))).status, 403);
  const claimed = await server.post('/call-json/shop/who', '[]', { ...ALL, 'x-caller': SHOP });
  assert.equal(claimed.body, JSON.stringify([SHOP]));
  assert.equal((await server.get('/actors')).status, 401, 'on 127.0.0.1, too');
  assert.doesNotMatch(server.output.stderr + server.output.stdout, /secret-of/);
});

test('SIGHUP reads the file again; a wrong one changes nothing, and the server goes on', async (t) => {
  const tokensFile = await writeTokens(TOKENS);
  for (const wrapper of [[], ['nohup']]) {
    await writeTokens(TOKENS, tokensFile);
    const server = await startTokens(t, tokensFile, wrapper);
    const statusOf = async (name: string): Promise<number> => (await server.get('/metrics', showing(name))).status;
    assert.deepEqual([await statusOf('grafana'), await statusOf('late')], [200, 401]);
    await writeFile(tokensFile, '{"late":{"sha256":"secret-of-late","may":["metrics"]}}');
    server.process.kill('SIGHUP');
    await told(server, /tokens are not read again, and those from before stay: --tokens: .*"sha256" of "late"/);
    assert.deepEqual([await statusOf('grafana'), await statusOf('late')], [200, 401]);
    await writeTokens({ all: TOKENS.all, late: TOKENS.grafana }, tokensFile);
    server.process.kill('SIGHUP');
    await told(server, /2 tokens of .*: 1 as before, 1 new or changed, 2 gone or changed/);
    assert.deepEqual([await statusOf('grafana'), await statusOf('late')], [401, 200]);
    assert.doesNotMatch(server.output.stderr, /secret-of/);
    assert.equal(await server.stop(), 0, server.output.stderr);
  }
});

test('--make-token prints a token that works with its line, and refuses what is no name', async (t) => {
  const made = spawnSync(process.execPath, [SVC, '--make-token', 'root'], { encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  const [, token = '', line = ''] = /^token {2}(\S+)\nline {3}(.*)\n$/.exec(made.stdout) ?? assert.fail(made.stdout);
  assert.ok(line.includes(sha256Of(token)));
  const tokensFile = join(await temporaryDirectory(), 'tokens.json');
  await writeFile(tokensFile, `{${line.replace('"may":[]', '"may":["inspect"]')}}`, { mode: 0o600 });
  const server = await startServer(t, { manifest: '{"actors":{}}', args: ['--tokens', tokensFile] });
  assert.equal((await server.get('/actors', { authorization: `Bearer ${token}` })).body, '[]');
  const refused = spawnSync(process.execPath, [SVC, '--make-token', 'a b'], { encoding: 'utf8' });
  assert.deepEqual([refused.status, refused.stdout], [2, '']);
  assert.match(refused.stderr, /--make-token: expected a letter or _/);
});

test('a wrong file ends the start with its place, and --check reads it', async () => {
  const folder = await temporaryDirectory();
  const manifest = join(folder, 'actors.json');
  await writeFile(manifest, '{"actors":{}}');
  const run = (...args: string[]): ReturnType<typeof spawnSync> =>
    spawnSync(process.execPath, [SVC, '--manifest', manifest, '--listen', '127.0.0.1:0', ...args], {
      encoding: 'utf8',
    });
  const wrong = join(folder, 'wrong.json');
  await writeFile(wrong, '{"a":{"sha256":"my-secret","may":[]}}', { mode: 0o600 });
  for (const more of [[], ['--check']]) {
    const { status, stdout, stderr } = run('--tokens', wrong, ...more);
    assert.equal(status, 1, String(stderr));
    assert.match(
      `${String(stdout)}${String(stderr)}`,
      /wrong\.json line 1, column 16: the "sha256" of "a" is not 64 hex digits/,
    );
    assert.doesNotMatch(`${String(stdout)}${String(stderr)}`, /my-secret/);
  }
  const right = await writeTokens(TOKENS);
  assert.match(String(run('--tokens', right, '--check').stdout), /^ok tokens: 3 token\(s\) in /m);
});

test('--audit-file tells who changed what, and that tokens were read again; SIGHUP opens it again', async (t) => {
  const folder = await temporaryDirectory();
  const audit = join(folder, 'audit.log');
  const tokensFile = await writeTokens(TOKENS);
  const args = ['--tokens', tokensFile, '--audit-file', audit];
  const server = await startServer(t, { manifest: '{"actors":{}}', args });
  const { wasm } = await compileMotoko(WHO);
  assert.equal((await server.post('/install/shop', wasm, ALL)).status, 200);
  assert.equal((await server.post('/stop/shop', '', showing('shop'))).status, 403);
  const linesOf = async (): Promise<unknown[]> =>
    (await readFile(audit, 'utf8'))
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .map(({ who, route, outcome, status }) => [who, route, outcome, status]);
  const changed = [
    ['all', 'POST /install/<name>', 'begun', 0],
    ['all', 'POST /install/<name>', 'done', 200],
    ['shop', 'POST /stop', 'denied', 403],
  ];
  assert.deepEqual(await linesOf(), changed);
  await rename(audit, `${audit}.1`);
  server.process.kill('SIGHUP');
  for (const deadline = Date.now() + 60_000; (await linesOf().catch(() => [])).length === 0; await sleep(5))
    assert.ok(Date.now() < deadline, 'the file was not opened again');
  assert.deepEqual(await linesOf(), [['', 'SIGHUP --tokens', 'done', 0]]);
  assert.equal(await server.stop(), 0);
});
