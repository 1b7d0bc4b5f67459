import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

export type Json = Readonly<Record<string, unknown>>;

/** A pair of keys with its entry in a set. */
interface SigningKey {
  readonly alg: 'RS256' | 'ES256' | 'EdDSA';
  readonly kid: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly jwk: Json;
}

export function signingKey(alg: SigningKey['alg'], kid: string): SigningKey {
  const { privateKey, publicKey } =
    alg === 'RS256'
      ? generateKeyPairSync('rsa', { modulusLength: 2048 })
      : alg === 'ES256'
        ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
        : generateKeyPairSync('ed25519');
  return { alg, kid, privateKey, publicKey, jwk: { ...publicKey.export({ format: 'jwk' }), kid, alg, use: 'sig' } };
}

const encoded = (value: Json | Buffer): string =>
  (value instanceof Buffer ? value : Buffer.from(JSON.stringify(value))).toString('base64url');

/** Signs claims (or any bytes) with the key; `header` replaces entries of the header. */
export function signed(key: SigningKey, claims: Json | Buffer, header: Json = {}): string {
  const input = `${encoded({ alg: key.alg, kid: key.kid, ...header })}.${encoded(claims)}`;
  const { privateKey } = key;
  const signature = sign(
    key.alg === 'EdDSA' ? null : 'sha256',
    Buffer.from(input),
    key.alg === 'ES256' ? { key: privateKey, dsaEncoding: 'ieee-p1363' } : privateKey,
  );
  return `${input}.${signature.toString('base64url')}`;
}

/** Signs with a secret, as who confuses the kinds of keys would. */
export function signedWithSecret(secret: string, claims: Json, header: Json): string {
  const input = `${encoded({ alg: 'HS256', ...header })}.${encoded(claims)}`;
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
}

export const unsigned = (claims: Json): string => `${encoded({ alg: 'none' })}.${encoded(claims)}.`;

/** An issuer as OpenID Connect Discovery describes it, on a port of its own; a test changes what it answers. */
export interface OidcIssuer {
  readonly url: string;
  keys: readonly Json[];
  /** Entries that the metadata has instead of its own. */
  metadata: Json;
  mode: 'answers' | 'fails' | 'is silent' | 'redirects' | 'floods';
  /** Requests for the keys so far. */
  asked: number;
}

export async function startIssuer(t: TestContext, keys: readonly SigningKey[]): Promise<OidcIssuer> {
  const server = createServer((request, response) => {
    const isKeys = request.url === '/keys';
    if (isKeys) issuer.asked++;
    if (issuer.mode === 'is silent') return;
    if (issuer.mode === 'fails') response.writeHead(500).end();
    else if (issuer.mode === 'redirects' && isKeys) response.writeHead(302, { location: '/other' }).end();
    else if (issuer.mode === 'floods' && isKeys) response.end(`{"keys":[],"x":"${'x'.repeat(2 ** 21)}"}`);
    else if (isKeys || request.url === '/other') response.end(JSON.stringify({ keys: issuer.keys }));
    else response.end(JSON.stringify({ issuer: issuer.url, jwks_uri: `${issuer.url}/keys`, ...issuer.metadata }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const issuer: OidcIssuer = {
    url: `http://127.0.0.1:${port}`,
    keys: keys.map(({ jwk }) => jwk),
    metadata: {},
    mode: 'answers',
    asked: 0,
  };
  return issuer;
}
