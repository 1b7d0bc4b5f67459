/** A client of the agent interface that sends what it is told to, right or wrong. */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import type { Agent } from 'node:http';
import { bls12_381 } from '@noble/curves/bls12-381.js';
import {
  type CborMap,
  type CborValue,
  CborWriter,
  decodeCbor,
  hashOfMap,
  principalOfKey,
  separated,
} from '../../../subsystems/certification/index.ts';
import { send as sendRequest } from '../../support/http-client.ts';
import { type Found, lookup, reconstruct, treeOf } from '../certification/specified-tree.ts';

const DOMAIN = 'BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_';
const ROOT_KEY_PREFIX_BYTES = 37;

interface Signer {
  readonly der: Buffer;
  readonly principal: Uint8Array;
  sign(message: Uint8Array): Uint8Array;
}

type Curve = 'ed25519' | 'P-256' | 'secp256k1';

export function newSigner(curve: Curve = 'ed25519'): Signer {
  const pair: { readonly publicKey: KeyObject; readonly privateKey: KeyObject } =
    curve === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ec', { namedCurve: curve });
  const der = pair.publicKey.export({ format: 'der', type: 'spki' });
  const key = pair.privateKey;
  return {
    der,
    principal: principalOfKey(der),
    sign: (message) =>
      curve === 'ed25519' ? sign(null, message, key) : sign('sha256', message, { key, dsaEncoding: 'ieee-p1363' }),
  };
}

/** Returns DER of the key of a canister with a seed. */
export function derOfCanister(canister: Uint8Array, seed: Uint8Array): Buffer {
  const bits = Buffer.concat([Buffer.from([0, canister.length]), canister, seed]);
  const algorithm = Buffer.from('300c060a2b0601040183b8430102', 'hex');
  const inner = Buffer.concat([algorithm, Buffer.from([0x03, bits.length]), bits]);
  return Buffer.concat([Buffer.from([0x30, inner.length]), inner]);
}

export type Content = Map<string, CborValue>;

/** Returns the content of a request for a canister, with a nonce of its own. */
export function contentOf(
  type: 'call' | 'query',
  canisterId: Uint8Array,
  method: string,
  sender: Uint8Array = Uint8Array.of(4),
): Content {
  return new Map<string, CborValue>([
    ['request_type', type],
    ['canister_id', canisterId],
    ['method_name', method],
    ['arg', Buffer.from('4449444c0000', 'hex')],
    ['sender', sender],
    ['ingress_expiry', BigInt(Date.now() + 240_000) * 1_000_000n],
    ['nonce', randomBytes(16)],
  ]);
}

export function readContent(paths: readonly (readonly Uint8Array[])[], sender: Uint8Array = Uint8Array.of(4)): Content {
  return new Map<string, CborValue>([
    ['request_type', 'read_state'],
    ['paths', paths],
    ['sender', sender],
    ['ingress_expiry', BigInt(Date.now() + 240_000) * 1_000_000n],
  ]);
}

export function delegationTo(
  from: Signer,
  to: Signer,
  more: ReadonlyMap<string, CborValue> = new Map(),
  expiresMs = Date.now() + 600_000,
): CborMap {
  const delegation: CborMap = new Map<string, CborValue>([
    ['pubkey', to.der],
    ['expiration', BigInt(expiresMs) * 1_000_000n],
    ...more,
  ]);
  const message = Buffer.concat([separated('ic-request-auth-delegation'), hashOfMap(delegation)]);
  return new Map<string, CborValue>([
    ['delegation', delegation],
    ['signature', from.sign(message)],
  ]);
}

/** Returns the envelope: of the anonymous sender, or signed by the last of the signers. */
export function envelopeOf(content: Content, signer?: Signer, key = signer, delegations?: readonly CborMap[]): Content {
  const envelope: Content = new Map<string, CborValue>([['content', content]]);
  if (signer === undefined || key === undefined) return envelope;
  envelope.set('sender_pubkey', key.der);
  envelope.set('sender_sig', signer.sign(Buffer.concat([separated('ic-request'), hashOfMap(content)])));
  if (delegations !== undefined) envelope.set('sender_delegation', delegations);
  return envelope;
}

export function cborOf(value: CborValue): Uint8Array {
  const out = new CborWriter().selfDescribed();
  write(out, value);
  return out.done();
}

function write(out: CborWriter, value: CborValue): void {
  if (typeof value === 'bigint') out.unsigned(value);
  else if (typeof value === 'string') out.text(value);
  else if (value instanceof Uint8Array) out.bytes(value);
  else if (value instanceof Map) {
    out.map(value.size);
    for (const [key, each] of value as CborMap) {
      out.text(key);
      write(out, each);
    }
  } else {
    const list = value as readonly CborValue[];
    out.array(list.length);
    for (const each of list) write(out, each);
  }
}

export interface RawAnswer {
  readonly status: number;
  readonly type: string;
  readonly text: string;
  /** Undefined: the body is no CBOR. */
  readonly cbor: CborMap | undefined;
}

interface Fetching {
  fetch(path: string, init?: RequestInit): Promise<Response>;
}

export async function send(
  server: Fetching,
  path: string,
  body: Uint8Array | Content,
  headers: Readonly<Record<string, string>> = {},
): Promise<RawAnswer> {
  const bytes = body instanceof Map ? cborOf(body) : body;
  const init = {
    method: 'POST',
    headers: { 'content-type': 'application/cbor', ...headers },
    body: new Uint8Array(bytes),
  };
  const response = await server.fetch(path, init);
  const type = response.headers.get('content-type') ?? '';
  return rawAnswer(response.status, type, Buffer.from(await response.arrayBuffer()));
}

/** Sends an envelope by a connection that the HTTP agent keeps, which takes less processor time than `fetch`. */
export async function sendKept(
  { origin }: { readonly origin: string },
  agent: Agent,
  path: string,
  content: Content,
  headers: Readonly<Record<string, string>> = {},
): Promise<RawAnswer> {
  const all = { 'content-type': 'application/cbor', ...headers };
  const answer = await sendRequest(origin, 'POST', path, { headers: all, body: cborOf(content), agent });
  return rawAnswer(answer.status, answer.headers['content-type'] ?? '', answer.body);
}

function rawAnswer(status: number, type: string, body: Buffer): RawAnswer {
  const isCbor = type === 'application/cbor' && body.length > 0;
  return { status, type, text: body.toString(), cbor: isCbor ? (decodeCbor(body) as CborMap) : undefined };
}

export async function rootKeyOf(server: Fetching, headers: Readonly<Record<string, string>> = {}): Promise<Uint8Array> {
  const response = await server.fetch('/api/v2/status', { headers });
  const status = decodeCbor(Buffer.from(await response.arrayBuffer())) as CborMap;
  return status.get('root_key') as Uint8Array;
}

/** Checks an answer's certificate against the root key, and returns what it says of a path. */
export function certified({ cbor }: RawAnswer, rootKey: Uint8Array): (path: readonly (string | Uint8Array)[]) => Found {
  const certificate = decodeCbor(cbor?.get('certificate') as Uint8Array) as CborMap;
  const tree = treeOf(certificate.get('tree'));
  const message = Buffer.concat([separated('ic-state-root'), reconstruct(tree)]);
  const { shortSignatures } = bls12_381;
  const isSigned = shortSignatures.verify(
    shortSignatures.Signature.fromBytes(certificate.get('signature') as Uint8Array),
    shortSignatures.hash(message, DOMAIN),
    bls12_381.G2.Point.fromBytes(rootKey.subarray(ROOT_KEY_PREFIX_BYTES)),
  );
  if (!isSigned) throw new Error('the certificate is not signed by the root key');
  return (path) =>
    lookup(
      tree,
      path.map((label) => (typeof label === 'string' ? Buffer.from(label) : label)),
    );
}
