/** JWTs: what lets in and what does not, with an issuer of the test's own, over a clock that the test moves. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeAuth } from '../../../plugins/api/contracts/auth.ts';
import { createBearerAuth } from '../../../subsystems/auth/bearer-auth.ts';
import type { Auth } from '../../../subsystems/auth/index.ts';
import { jwtPrincipal, type JwtOptions } from '../../../subsystems/auth/jwt/jwt-grants.ts';
import { principalToText } from '../../../subsystems/ic/index.ts';
import {
  type Json,
  type OidcIssuer,
  signed,
  signedWithSecret,
  signingKey,
  startIssuer,
  unsigned,
} from '../../support/oidc-issuer.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const RSA = signingKey('RS256', 'r');
const EC = signingKey('ES256', 'e');
const ED = signingKey('EdDSA', 'd');
const OTHER = signingKey('ES256', 'other');
const WEAK = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' }) as Json;
const START_S = 2_000_000_000;

interface Bench {
  readonly auth: Auth;
  readonly issuer: OidcIssuer;
  readonly clock: { nowMs: number };
  readonly warnings: string[];
  readonly claims: (more?: Json) => Json;
  /** Shows a token; resolves with the reason of a refusal, or with the name of who it is. */
  readonly show: (token: string) => Promise<string>;
}

async function bench(t: TestContext, options: Partial<JwtOptions> = {}): Promise<Bench> {
  const issuer = await startIssuer(t, [RSA, EC, ED]);
  const clock = { nowMs: START_S * 1000 };
  const warnings: string[] = [];
  const log = {
    info: () => undefined,
    warn: (text: string) => warnings.push(text),
    error: warnings.push.bind(warnings),
  };
  const jwt = {
    issuers: [issuer.url],
    audience: 'svc',
    keysFile: undefined,
    may: ['call:shop'],
    typ: undefined,
    ...options,
  };
  const auth = createBearerAuth({ token: 'shared', jwt }, log, () => clock.nowMs);
  const claims = (more: Json = {}): Json => ({ iss: issuer.url, aud: 'svc', sub: 'ann', exp: START_S + 600, ...more });
  const show = async (token: string): Promise<string> => {
    const header = `Bearer ${token}`;
    const reason = await auth.prove?.(header);
    const grant = auth.grantOf?.(header);
    assert.equal(reason === undefined, grant !== undefined, 'a reason, or rights');
    return reason ?? grant?.name ?? assert.fail();
  };
  return { auth, issuer, clock, warnings, claims, show };
}

test('the principal of issuer and subject is that of the vectors in docs/jwt.md', () => {
  const shown = (issuer: string, subject: string): string => Buffer.from(jwtPrincipal(issuer, subject)).toString('hex');
  assert.equal(shown('https://issuer.example', 'ann'), 'cebf65cc8963674ae08e3eef594191b0db8ad9272aa9dac3e8fbb67003');
  assert.equal(shown('https://issuer.example/', 'ann'), '726fd60ef80719bc602125dfb04b2e098dfa0221e4d7545ac2fe111503');
  assert.equal(shown('https://issuer.example', 'änn'), '40ccb2b730d28e06230300f0e416a5cc2f21bfa1f3d5dfe801a8859b03');
  // The lengths keep texts apart that are the same one behind the other.
  assert.notEqual(shown('ab', 'c'), shown('a', 'bc'));
});

test('RS256, ES256 and EdDSA let in as the principal, from then on at once; an audience may be in a list', async (t) => {
  const { auth, issuer, claims, show } = await bench(t);
  const who = principalToText(jwtPrincipal(issuer.url, 'ann'));
  for (const key of [RSA, EC, ED]) {
    const token = signed(key, claims({ aud: ['x', 'svc'] }));
    assert.equal(auth.grantOf?.(`Bearer ${token}`), undefined);
    assert.equal(await show(token), who, key.alg);
    assert.equal(auth.prove?.(`bearer  ${token}`), undefined, 'nothing is left to prove');
    const grant = auth.grantOf?.(`bearer  ${token}`) ?? assert.fail();
    assert.deepEqual(grant.caller, jwtPrincipal(issuer.url, 'ann'));
    assert.deepEqual([grant.scopes.texts, grant.isOver, grant.takesNoClaim], [['call:shop'], false, true]);
  }
  assert.equal(issuer.asked, 1, 'the keys are kept');
  assert.deepEqual([auth.needsToken, auth.allows(undefined), auth.allows('Bearer shared')], [true, false, true]);
});

test('what is wrong is refused with its reason', async (t) => {
  const { issuer, claims, show, auth } = await bench(t);
  const good = signed(RSA, claims());
  const [head = '', body = '', signature = ''] = good.split('.');
  const pem = RSA.publicKey.export({ type: 'spki', format: 'pem' });
  const invalidUtf8 = Buffer.from(JSON.stringify(claims({ sub: 'xx' })).replace('xx', '\u00ff'), 'latin1');
  const cases: readonly (readonly [string, string, string])[] = [
    ['none', unsigned(claims()), 'its algorithm is none of RS256, ES256 and EdDSA'],
    ['key confusion', signedWithSecret(pem, claims(), { kid: 'r' }), 'its algorithm is none of'],
    ['another algorithm with the key', signed(EC, claims(), { alg: 'RS256', kid: 'e' }), 'the issuer has no such key'],
    ['an algorithm of Object', signed(EC, claims(), { alg: 'constructor' }), 'its algorithm is none of'],
    ['wrong kid', signed(RSA, claims(), { kid: 'nobody' }), 'the issuer has no such key'],
    ['kid of another', signed(OTHER, claims(), { kid: 'e' }), 'its signature is wrong'],
    ['key in its own header', signed(OTHER, claims(), { kid: 'e', jwk: OTHER.jwk }), 'its signature is wrong'],
    ['no signature', `${head}.${body}.`, 'its signature is wrong'],
    [
      'changed body',
      `${head}.${Buffer.from(JSON.stringify(claims({ sub: 'bob' }))).toString('base64url')}.${signature}`,
      'its signature is wrong',
    ],
    ['expired', signed(RSA, claims({ exp: START_S - 60 })), 'it has expired'],
    ['no exp', signed(RSA, claims({ exp: undefined })), 'it lacks a valid exp'],
    ['exp is text', signed(RSA, claims({ exp: '9999999999' })), 'it lacks a valid exp'],
    ['nbf in the future', signed(RSA, claims({ nbf: START_S + 61 })), 'it is not valid yet'],
    ['another audience', signed(RSA, claims({ aud: 'svc2' })), 'its audience is not this server'],
    ['no audience', signed(RSA, claims({ aud: undefined })), 'its audience is not this server'],
    ['another issuer', signed(RSA, claims({ iss: `${issuer.url}/` })), 'its issuer is not one of this server'],
    ['no issuer', signed(RSA, claims({ iss: undefined })), 'its issuer is not one of this server'],
    ['no subject', signed(RSA, claims({ sub: undefined })), 'it lacks a valid sub'],
    ['empty subject', signed(RSA, claims({ sub: '' })), 'its subject is no text'],
    ['half a character', signed(RSA, claims({ sub: '\ud800' })), 'its subject is no text'],
    ['no UTF-8', signed(RSA, invalidUtf8), 'it is malformed'],
    ['crit', signed(RSA, claims(), { crit: ['x'], x: 1 }), 'it is malformed'],
    ['unencoded', signed(RSA, claims(), { crit: ['b64'], b64: false }), 'it is malformed'],
    ['no JSON', signed(RSA, Buffer.alloc(9000, 'x')), 'it is malformed'],
    ['a list', signed(RSA, Buffer.from('[]')), 'it is malformed'],
  ];
  for (const [what, token, reason] of cases) {
    const told = await show(token);
    assert.ok(told.startsWith(reason), `${what}: ${told}`);
    assert.match(told, /^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/, 'fit for the header');
  }
  for (const header of ['Basic x', 'Bearer eyJ', `Bearer ${good}.x`, `Bearer ${good} `, 'Bearer ey.y', `Basic ${good}`])
    assert.equal(auth.prove?.(header), undefined, 'like no JWT');
  assert.match(await show(good), /^[a-z0-9-]{63}$/);
});

test('clocks may differ by 60 s, and rights end with the token', async (t) => {
  const { auth, claims, show, clock } = await bench(t);
  for (const more of [{ exp: START_S - 59 }, { nbf: START_S + 60 }])
    assert.match(await show(signed(ED, claims(more))), /^\w{5}-/);
  const token = signed(ED, claims({ exp: START_S + 10 }));
  await show(token);
  const grant = auth.grantOf?.(`Bearer ${token}`) ?? assert.fail();
  clock.nowMs += 69_999;
  assert.deepEqual([grant.isOver, auth.grantOf?.(`Bearer ${token}`)], [false, grant]);
  clock.nowMs += 1;
  assert.deepEqual([grant.isOver, auth.grantOf?.(`Bearer ${token}`)], [true, undefined]);
  assert.equal(await show(token), 'it has expired');
});

test('--jwt-typ refuses ID tokens, and takes the long form of the type', async (t) => {
  const { claims, show } = await bench(t, { typ: 'at+jwt' });
  for (const typ of [undefined, 'JWT', 'id+jwt'])
    assert.equal(await show(signed(EC, claims(), { typ })), 'its typ is not the one that is asked for');
  for (const typ of ['at+jwt', 'application/at+jwt'])
    assert.match(await show(signed(EC, claims(), { typ })), /^\w{5}-/);
});

suite('keys of an issuer', () => {
  test('a kid that is not known is asked for once in 30 s, and a new key is found; a key that is gone ends rights', async (t) => {
    const { auth, issuer, claims, show, clock } = await bench(t);
    const old = signed(RSA, claims());
    const other = signed(EC, claims());
    await show(old);
    await show(other);
    issuer.keys = [EC.jwk, OTHER.jwk];
    const token = signed(OTHER, claims());
    for (let times = 0; times < 50; times++) assert.equal(await show(token), 'the issuer has no such key');
    assert.equal(issuer.asked, 1, 'within 30 s');
    clock.nowMs += 30_000;
    const grant = auth.grantOf?.(`Bearer ${old}`) ?? assert.fail();
    const kept = auth.grantOf?.(`Bearer ${other}`) ?? assert.fail();
    assert.match(await show(token), /^\w{5}-/);
    assert.deepEqual([issuer.asked, grant.isOver, kept.isOver], [2, true, false]);
    assert.equal(auth.grantOf?.(`Bearer ${old}`), undefined);
    assert.equal(auth.grantOf?.(`Bearer ${other}`), kept, 'its key is there as before');
  });

  test('without a kid there must be one key that fits', async (t) => {
    const { issuer, claims, show } = await bench(t);
    assert.match(await show(signed(RSA, claims(), { kid: undefined })), /^\w{5}-/);
    issuer.keys = [];
    const two = await bench(t);
    two.issuer.keys = [EC.jwk, OTHER.jwk];
    assert.equal(await two.show(signed(EC, two.claims(), { kid: undefined })), 'the issuer has no such key');
  });

  test('an old set is used while the issuer is away, and renewed when it is 10 minutes old', async (t) => {
    const { issuer, claims, show, clock, warnings, auth } = await bench(t);
    const token = signed(RSA, claims({ exp: START_S + 7200 }));
    await show(token);
    issuer.mode = 'fails';
    clock.nowMs += 600_001;
    assert.ok(auth.grantOf?.(`Bearer ${token}`), 'its rights stay');
    for (const deadline = Date.now() + 60_000; warnings.length === 0; await sleep(1))
      assert.ok(Date.now() < deadline, 'a known token does not renew old keys');
    // A token with a key that is not known does not ask again within 30 s.
    assert.equal(await show(signed(OTHER, claims({ exp: START_S + 7200 }))), 'the issuer has no such key');
    assert.match(warnings.join(), /its keys cannot be read, and the keys from before stay: .* answers 500/);
    assert.match(await show(signed(EC, claims({ exp: START_S + 7200 }))), /^\w{5}-/, 'and lets others in');
    issuer.mode = 'answers';
    issuer.keys = [EC.jwk];
    clock.nowMs += 30_001;
    assert.ok(auth.grantOf?.(`Bearer ${token}`));
    await show(signed(OTHER, claims({ exp: START_S + 7200 })));
    assert.equal(auth.grantOf?.(`Bearer ${token}`), undefined, 'the key is gone');
  });

  const away: readonly (readonly [string, (issuer: OidcIssuer) => void, RegExp])[] = [
    ['is silent', (issuer) => (issuer.mode = 'is silent'), /timeout/],
    ['fails', (issuer) => (issuer.mode = 'fails'), /answers 500/],
    ['redirects', (issuer) => (issuer.mode = 'redirects'), /redirect/],
    ['sends 2 MiB', (issuer) => (issuer.mode = 'floods'), /more than 1048576 bytes/],
    ['has 10,000 keys', (issuer) => (issuer.keys = Array.from({ length: 10_000 }, () => ED.jwk)), /bytes|10000 keys/],
    [
      'has 257 keys',
      (issuer) => (issuer.keys = Array.from({ length: 257 }, () => ED.jwk)),
      /257 keys, and at most 256/,
    ],
    [
      'has symmetric keys alone',
      (issuer) => (issuer.keys = [{ kty: 'oct', k: 'AAAA', kid: 'r' }]),
      /no key in it is for/,
    ],
    ['has keys for encryption alone', (issuer) => (issuer.keys = [{ ...RSA.jwk, use: 'enc' }]), /no key in it is for/],
    ['has a key of 1024 bits', (issuer) => (issuer.keys = [WEAK]), /no key in it is for/],
    ['is another', (issuer) => (issuer.metadata = { issuer: 'https://evil.example' }), /metadata of another issuer/],
    [
      'sends on to http',
      (issuer) => (issuer.metadata = { jwks_uri: 'http://192.0.2.1/keys' }),
      /no jwks_uri with https/,
    ],
    [
      'sends on to a file',
      (issuer) => (issuer.metadata = { jwks_uri: 'file:///etc/passwd' }),
      /no jwks_uri with https/,
    ],
  ];
  for (const [what, change, warning] of away)
    test(`an issuer that ${what} lets nobody in, and is asked once in 30 s`, async (t) => {
      const { issuer, claims, show, warnings, clock } = await bench(t, {
        fetchMaxMs: what === 'is silent' ? 50 : 30_000,
      });
      change(issuer);
      for (let times = 0; times < 5; times++)
        assert.equal(await show(signed(RSA, claims())), 'the keys of the issuer cannot be read');
      assert.match(warnings.join('\n'), warning);
      assert.equal(warnings.length, 1);
      // There is no time to answer in.
      if (what === 'is silent') return;
      issuer.mode = 'answers';
      issuer.metadata = {};
      issuer.keys = [RSA.jwk];
      clock.nowMs += 30_000;
      assert.match(await show(signed(RSA, claims())), /^\w{5}-/, 'when it is back');
    });

  test('of a file: read at the start and again; a wrong file changes nothing', async (t) => {
    const keysFile = join(await temporaryDirectory(), 'keys.json');
    await writeFile(keysFile, JSON.stringify({ keys: [RSA.jwk] }));
    const { auth, issuer, claims, show, warnings } = await bench(t, { keysFile });
    const token = signed(RSA, claims());
    assert.match(await show(token), /^\w{5}-/);
    await writeFile(keysFile, '{"keys":[');
    assert.equal(auth.reread?.(), false);
    assert.match(
      warnings.join(),
      /keys are not read again, and those from before stay: --jwt-keys: .*keys.json is no set/,
    );
    assert.ok(auth.grantOf?.(`Bearer ${token}`));
    await writeFile(keysFile, JSON.stringify({ keys: [EC.jwk] }));
    assert.equal(auth.reread?.(), true);
    assert.equal(auth.grantOf?.(`Bearer ${token}`), undefined);
    assert.equal(await show(token), 'the issuer has no such key');
    assert.match(await show(signed(EC, claims())), /^\w{5}-/);
    assert.equal(issuer.asked, 0);
    for (const text of ['', '{}', '{"keys":[]}', '[]', 'null', '{"keys":[{"kty":"oct","k":"AA"}]}']) {
      await writeFile(keysFile, text);
      await assert.rejects(bench(t, { keysFile }), { code: 'bad-jwt-keys' }, text);
    }
    await rm(keysFile);
    execFileSync('mkfifo', [keysFile]);
    await assert.rejects(bench(t, { keysFile }), { message: /keys\.json is no .*: it is not a regular file$/ });
  });
});

test('of many tokens at once so many are verified as have room, and the others are told so; one is proven once', async (t) => {
  const { auth, issuer, claims, show } = await bench(t);
  const proofs = Array.from({ length: 1100 }, async (_, at) =>
    auth.prove?.(`Bearer ${signed(ED, claims({ sub: `u${at}` }))}`),
  );
  const reasons = await Promise.all(proofs);
  assert.deepEqual(new Set(reasons), new Set([undefined, 'too many tokens are being verified, try again']));
  assert.equal(reasons.filter((reason) => reason !== undefined).length, 1100 - 1024);
  assert.equal(issuer.asked, 1);
  const token = `Bearer ${signed(ED, claims({ sub: 'same' }))}`;
  assert.equal(auth.prove?.(token), auth.prove?.(token), 'proven once');
  await Promise.all(Array.from({ length: 2000 }, async () => auth.prove?.(token)));
  assert.ok(auth.grantOf?.(token), 'the same token takes one place');
  assert.match(await show(signed(ED, claims({ sub: 'later' }))), /^\w{5}-/);
});

test('of more tokens than have room the first one is forgotten, and verified again', async (t) => {
  const { auth, claims } = await bench(t, { seenMax: 10 });
  const tokens = Array.from({ length: 11 }, (_, at) => `Bearer ${signed(ED, claims({ sub: `u${at}` }))}`);
  for (const token of tokens) assert.equal(await auth.prove?.(token), undefined);
  assert.deepEqual([auth.grantOf?.(tokens[0]), auth.grantOf?.(tokens[1])?.isOver], [undefined, false]);
  assert.equal(await auth.prove?.(tokens[0]), undefined);
  assert.ok(auth.grantOf?.(tokens[0]));
  assert.equal(auth.grantOf?.(tokens[1]), undefined);
});

test('scopes that would give everything, or are none, are refused', async (t) => {
  for (const may of [['*'], ['call'], ['root']])
    await assert.rejects(bench(t, { may }), { code: 'bad-scope', message: /^--jwt-may: / }, may.join());
});

describeAuth('Auth with JWTs', async (t) => {
  const { auth, claims, show } = await bench(t as TestContext);
  const token = signed(RSA, claims());
  await show(token);
  return { auth, allowed: ['Bearer shared'], limited: [`Bearer ${token}`] };
});
