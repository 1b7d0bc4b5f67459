/** Senders whose keys are in an authenticator: the client's own WebAuthn identity, and each algorithm. */
import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { suite, test } from 'node:test';
import { Actor, HttpAgent } from 'icp-core-6/agent';
import { IDL } from 'icp-core-6/candid';
import { WebAuthnIdentity } from 'icp-core-6/identity';
import type { Principal } from 'icp-core-6/principal';
import { CborWriter, principalOfKey } from '../../../subsystems/certification/index.ts';
import { coseKeyOf } from '../../../subsystems/agents/cose-key.ts';
import { seeded } from '../../support/seeded.ts';
import { FIRST_ID, FIRST_TEXT, startWithActor } from './actor.ts';
import { contentOf, envelopeOf, type RawAnswer, send } from './raw-agent.ts';

const CALL = `/api/v4/canister/${FIRST_TEXT}/call`;
const OID = Buffer.from('300c060a2b0601040183b8430101', 'hex');
const DATA = Buffer.concat([Buffer.alloc(32, 7), Buffer.from('0500000001', 'hex')]);

type Algorithm = 'ES256' | 'EdDSA' | 'RS256';

interface Authenticator {
  readonly cose: Buffer;
  /** Signs what the browser hands over: its own data and the hash of the client's. */
  sign(clientData: Buffer): Buffer;
}

/** Encodes a map of small integers, shortest forms. */
function coseMap(entries: readonly (readonly [number, number | Buffer])[]): Buffer {
  const out = new CborWriter().map(entries.length);
  const integer = (value: number): unknown => {
    if (value >= 0) return out.unsigned(value);
    const positive = new CborWriter().unsigned(-1 - value).done();
    return out.raw(Buffer.concat([Buffer.from([(positive[0] ?? 0) | 0x20]), positive.subarray(1)]));
  };
  for (const [label, value] of entries) {
    integer(label);
    if (typeof value === 'number') integer(value);
    else out.bytes(value);
  }
  return Buffer.from(out.done());
}

function newAuthenticator(algorithm: Algorithm): Authenticator {
  const pair: { readonly publicKey: KeyObject; readonly privateKey: KeyObject } =
    algorithm === 'ES256'
      ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
      : algorithm === 'EdDSA'
        ? generateKeyPairSync('ed25519')
        : generateKeyPairSync('rsa', { modulusLength: 2048 });
  const { x, y, n, e } = pair.publicKey.export({ format: 'jwk' });
  const bytes = (text: string | undefined): Buffer => Buffer.from(text ?? '', 'base64url');
  const cose = {
    ES256: () =>
      coseMap([
        [1, 2],
        [3, -7],
        [-1, 1],
        [-2, bytes(x)],
        [-3, bytes(y)],
      ]),
    EdDSA: () =>
      coseMap([
        [1, 1],
        [3, -8],
        [-1, 6],
        [-2, bytes(x)],
      ]),
    RS256: () =>
      coseMap([
        [1, 3],
        [3, -257],
        [-1, bytes(n)],
        [-2, bytes(e)],
      ]),
  }[algorithm]();
  return {
    cose,
    sign: (clientData) => {
      const message = Buffer.concat([DATA, createHash('sha256').update(clientData).digest()]);
      return sign(algorithm === 'EdDSA' ? null : 'sha256', message, pair.privateKey);
    },
  };
}

function sized(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}

function derOf(cose: Buffer): Buffer {
  return sized(0x30, Buffer.concat([OID, sized(0x03, Buffer.concat([Buffer.from([0]), cose]))]));
}

/** Returns a signer as envelopes take them; `challenge` is what the client is shown. */
function signerOf(authenticator: Authenticator, challengeOf = (message: Uint8Array): Uint8Array => message) {
  const der = derOf(authenticator.cose);
  return {
    der,
    principal: principalOfKey(der),
    sign: (message: Uint8Array): Uint8Array => {
      const challenge = Buffer.from(challengeOf(message)).toString('base64url');
      const client = Buffer.from(JSON.stringify({ type: 'webauthn.get', challenge, origin: 'https://x' }));
      const out = new CborWriter().selfDescribed().map(3).text('authenticator_data').bytes(DATA);
      out.text('client_data_json').text(client.toString());
      return out.text('signature').bytes(authenticator.sign(client)).done();
    },
  };
}

suite('WebAuthn', () => {
  test('the identity of the client calls, with an authenticator behind its browser', async (t) => {
    const server = await startWithActor(t);
    const authenticator = newAuthenticator('ES256');
    const credentials = {
      get: ({ publicKey }: { readonly publicKey: { readonly challenge: Uint8Array } }) => {
        const challenge = Buffer.from(publicKey.challenge).toString('base64url');
        const clientDataJSON = Buffer.from(JSON.stringify({ type: 'webauthn.get', challenge, origin: 'https://x' }));
        const signature = authenticator.sign(clientDataJSON);
        return Promise.resolve({ response: { clientDataJSON, authenticatorData: DATA, signature } });
      },
    };
    const before = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
    Object.defineProperty(globalThis, 'navigator', { configurable: true, value: { credentials } });
    try {
      const identity = new WebAuthnIdentity(new Uint8Array(8), new Uint8Array(authenticator.cose), undefined);
      const agent = await HttpAgent.create({ host: server.origin, identity, shouldFetchRootKey: true });
      const actor = Actor.createActor<{ who(): Promise<Principal> }>(
        () => IDL.Service({ who: IDL.Func([], [IDL.Principal], []) }),
        { agent, canisterId: FIRST_TEXT },
      );
      assert.equal((await actor.who()).toText(), identity.getPrincipal().toText());
    } finally {
      if (before === undefined) Reflect.deleteProperty(globalThis, 'navigator');
      else Object.defineProperty(globalThis, 'navigator', before);
    }
  });

  test('each algorithm is verified, and an answer to another challenge is none', async (t) => {
    const server = await startWithActor(t);
    const called = (signer: ReturnType<typeof signerOf>, damage?: (signature: Buffer) => void): Promise<RawAnswer> => {
      const envelope = envelopeOf(contentOf('call', FIRST_ID, 'inc', signer.principal), signer);
      const signature = Buffer.from(envelope.get('sender_sig') as Uint8Array);
      damage?.(signature);
      return send(server, CALL, envelope.set('sender_sig', signature));
    };
    for (const algorithm of ['ES256', 'EdDSA', 'RS256'] as const) {
      const authenticator = newAuthenticator(algorithm);
      const good = await called(signerOf(authenticator));
      assert.deepEqual([good.status, good.cbor?.get('status')], [200, 'replied'], `${algorithm}: ${good.text}`);
      const replayed = await called(signerOf(authenticator, () => Buffer.from('another request')));
      assert.equal(replayed.status, 403, algorithm);
      const damaged = await called(signerOf(authenticator), (signature) => {
        // The last byte of the signature proper.
        signature[signature.length - 1] = (signature.at(-1) ?? 0) ^ 1;
      });
      assert.equal(damaged.status, 403, algorithm);
      assert.equal((await called(signerOf(authenticator), (signature) => signature.fill(0xff))).status, 403);
    }
    assert.equal((await server.post('/query-json/it/get')).body, '[3]');
  });

  test('damaged keys are no keys', () => {
    const random = seeded(3);
    const good = (['ES256', 'EdDSA', 'RS256'] as const).map((algorithm) => derOf(newAuthenticator(algorithm).cose));
    for (const der of good) assert.ok(coseKeyOf(der) !== undefined);
    for (let round = 0; round < 30_000; round++) {
      const der = Buffer.from(good[round % good.length] ?? Buffer.alloc(0));
      // The head: everything before the numbers of the key.
      const changes = 1 + random.below(3);
      for (let change = 0; change < changes; change++) der[random.below(40)] = random.below(256);
      const cut = random.oneIn(4) ? der.subarray(0, random.below(der.length)) : der;
      const key = coseKeyOf(cut);
      if (cut.length < der.length) assert.equal(key, undefined);
    }
    for (const entries of [
      [
        [1, 2],
        [3, -7],
        [-1, 2],
        [-2, Buffer.alloc(32, 1)],
        [-3, Buffer.alloc(32, 1)],
      ],
      [
        [1, 2],
        [3, -7],
        [-1, 1],
        [-2, Buffer.alloc(32, 1)],
        [-3, Buffer.alloc(32, 1)],
      ],
      [
        [1, 1],
        [3, -8],
        [-1, 6],
        [-2, Buffer.alloc(31, 1)],
      ],
      [
        [1, 3],
        [3, -257],
        [-1, Buffer.alloc(128, 1)],
        [-2, Buffer.from('010001', 'hex')],
      ],
      [
        [1, 2],
        [1, 2],
        [3, -7],
      ],
      [],
    ] as const)
      assert.equal(coseKeyOf(derOf(coseMap(entries))), undefined);
  });
});
