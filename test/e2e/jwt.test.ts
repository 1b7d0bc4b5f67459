/** JWTs on a real server: an issuer's user calls Motoko, keys come from a file, and wrong flags end the start. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { jwtPrincipal } from '../../subsystems/auth/jwt/jwt-grants.ts';
import { principalToText } from '../../subsystems/ic/index.ts';
import { listingsOf } from '../support/doc-listings.ts';
import { compileMotoko } from '../support/motoko.ts';
import { signed, signingKey, startIssuer } from '../support/oidc-issuer.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const SVC = join(import.meta.dirname, '../../config/svc.js');
const KEY = signingKey('RS256', 'k');
const NEXT = signingKey('EdDSA', 'n');
const WHO = `persistent actor {
  public shared ({ caller }) func who() : async Principal { caller };
}`;
const ROOT = { authorization: 'Bearer root' };
const exp = Math.floor(Date.now() / 1000) + 3600;

test('a user of an issuer calls as their principal; without credentials it is 401', async (t) => {
  const issuer = await startIssuer(t, [KEY]);
  const flags = ['--auth-token', 'root', '--no-outcalls', '--jwt-issuer', issuer.url, '--jwt-audience', 'svc'];
  const args = [...flags, '--jwt-may', 'call:shop', '--jwt-may', 'inspect', '--jwt-typ', 'at+jwt'];
  const server = await startServer(t, { manifest: '{"actors":{}}', args });
  const { wasm } = await compileMotoko(WHO);
  assert.equal((await server.post('/install/shop', wasm, ROOT)).status, 200);
  const token = signed(KEY, { iss: issuer.url, aud: 'svc', sub: 'ann', exp }, { typ: 'at+jwt' });
  const headers = { authorization: `Bearer ${token}` };
  const who = principalToText(jwtPrincipal(issuer.url, 'ann'));
  assert.equal((await server.post('/call-json/shop/who', '[]', headers)).body, JSON.stringify([who]));
  assert.equal((await server.get('/actors', headers)).status, 200);
  assert.equal((await server.get('/metrics', headers)).status, 403);
  assert.equal((await server.get('/actors')).status, 401);
  const idToken = signed(KEY, { iss: issuer.url, aud: 'svc', sub: 'ann', exp });
  assert.equal((await server.get('/actors', { authorization: `Bearer ${idToken}` })).status, 401);
  assert.equal(await server.stop(), 0, server.output.stderr);
});

test('keys of a file are read again at SIGHUP', async (t) => {
  const file = join(await temporaryDirectory(), 'keys.json');
  await writeFile(file, JSON.stringify({ keys: [KEY.jwk] }));
  const iss = 'https://issuer.example';
  const args = ['--jwt-issuer', iss, '--jwt-audience', 'svc', '--jwt-may', 'inspect', '--jwt-keys', file];
  const server = await startServer(t, { manifest: '{"actors":{}}', args });
  const statusOf = async (key: typeof KEY): Promise<number> => {
    const token = signed(key, { iss, aud: 'svc', sub: 'ann', exp });
    return (await server.get('/actors', { authorization: `Bearer ${token}` })).status;
  };
  assert.deepEqual([await statusOf(KEY), await statusOf(NEXT)], [200, 401]);
  await writeFile(file, JSON.stringify({ keys: [NEXT.jwk] }));
  server.process.kill('SIGHUP');
  for (const deadline = Date.now() + 60_000; (await statusOf(NEXT)) !== 200; await sleep(5))
    assert.ok(Date.now() < deadline, 'the file was not read again');
  assert.equal(await statusOf(KEY), 401);
  const check = spawnSync(process.execPath, [SVC, '--check', ...args], { encoding: 'utf8' });
  assert.match(check.stdout, /^ok jwt: 1 scope\(s\) for users of https:\/\/issuer\.example$/m);
  await writeFile(file, '{}');
  const wrong = spawnSync(process.execPath, [SVC, '--check', ...args], { encoding: 'utf8' });
  assert.match(wrong.stdout, /^FAILED jwt: --jwt-keys: .*keys\.json is no set of public keys/m);
});

test('the line of docs/jwt.md prints the principals of its table', async () => {
  const listings = (await listingsOf('jwt')).get('Who it is') ?? [];
  const script = listings.find(({ language }) => language === 'sh')?.text ?? assert.fail();
  for (const [issuer, subject] of [
    ['https://issuer.example', 'ann'],
    ['https://issuer.example/', 'ann'],
    ['https://issuer.example', 'änn'],
  ] as const) {
    const line = script.replace('https://issuer.example ann', `${issuer} ${subject}`);
    const path = `${join(process.execPath, '..')}:${process.env['PATH']}`;
    const { stdout, stderr } = spawnSync('sh', ['-c', line], { encoding: 'utf8', env: { ...process.env, PATH: path } });
    assert.equal(stdout.trim(), principalToText(jwtPrincipal(issuer, subject)), stderr);
  }
});
