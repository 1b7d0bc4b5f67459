/**
 * Envelopes: what a client sends to `/api`, read from CBOR field by field. Nothing is believed yet: who has sent it is
 * `senders.ts`'s question.
 */
import { ServerError } from '../../kernel/index.ts';
import { type CborMap, type CborValue, decodeCbor, hashInTurns, type Path } from '../certification/index.ts';
import { PRINCIPAL_BYTES_MAX } from '../ic/index.ts';

const NONCE_BYTES_MAX = 32;
const DELEGATIONS_MAX = 20;
const TARGETS_MAX = 1000;
const PATHS_MAX = 1000;
const LABELS_MAX = 127;
const NANOSECONDS_PER_MS = 1_000_000n;
/** Milliseconds from now to the latest expiry. */
const EXPIRY_MS_MAX = 330_000;

export interface Delegation {
  /** DER. */
  readonly publicKey: Uint8Array;
  /** Nanoseconds since 1970. */
  readonly expiration: bigint;
  /** Principals; undefined: every canister. */
  readonly targets: readonly Uint8Array[] | undefined;
  readonly permissions: string | undefined;
  /** Hash of all of it, as it was sent. */
  readonly hash: Uint8Array;
  readonly signature: Uint8Array;
}

/** Fields that every request has. */
interface Common {
  readonly sender: Uint8Array;
  /** Nanoseconds since 1970. */
  readonly expiry: bigint;
  /** Hash of the content, as it was sent. */
  readonly requestId: Uint8Array;
  readonly senderKey: Uint8Array | undefined;
  readonly signature: Uint8Array | undefined;
  readonly delegations: readonly Delegation[];
}

export interface CallEnvelope extends Common {
  readonly type: 'call' | 'query';
  readonly canisterId: Uint8Array;
  readonly method: string;
  readonly argument: Uint8Array;
}

export interface ReadStateEnvelope extends Common {
  readonly type: 'read_state';
  readonly paths: readonly Path[];
}

export type Envelope = CallEnvelope | ReadStateEnvelope;

/**
 * Reads the envelope of a request of that type. Rejects with ServerError `cbor-bad`, or `agent-bad-request`, which
 * names the field.
 */
export async function readEnvelope(body: Uint8Array, type: Envelope['type']): Promise<Envelope> {
  const envelope = mapAt(decodeCbor(body), 'the envelope');
  const content = mapAt(envelope.get('content'), 'content');
  const named = textAt(content.get('request_type'), 'content.request_type');
  if (named !== type) throw bad('content.request_type', `${JSON.stringify(named.slice(0, 40))} does not fit the path`);
  // The sender has signed it and counts on it: it is refused, not left out (ADR 116).
  if (content.has('sender_info'))
    throw bad(
      'content.sender_info',
      'is not taken by this host, whose actors find no attributes of callers: leave it out',
    );
  nonceIn(content);
  const common = {
    sender: principalAt(content.get('sender'), 'content.sender'),
    expiry: numberAt(content.get('ingress_expiry'), 'content.ingress_expiry'),
    requestId: await hashInTurns(content),
    senderKey: optionalBytes(envelope, 'sender_pubkey'),
    signature: optionalBytes(envelope, 'sender_sig'),
    delegations: await delegationsIn(envelope),
  };
  if (type === 'read_state') return { type, paths: pathsIn(content), ...common };
  return {
    type,
    canisterId: principalAt(content.get('canister_id'), 'content.canister_id'),
    method: textAt(content.get('method_name'), 'content.method_name'),
    argument: bytesAt(content.get('arg'), 'content.arg'),
    ...common,
  };
}

/** Throws ServerError `agent-expired` for a request that has expired, or expires too late. Agents know the text. */
export function checkExpiry(expiry: bigint, nowMs: number): void {
  const now = BigInt(Math.floor(nowMs)) * NANOSECONDS_PER_MS;
  const latest = now + BigInt(EXPIRY_MS_MAX) * NANOSECONDS_PER_MS;
  if (expiry >= now && expiry <= latest) return;
  const text =
    'Invalid request expiry: Specified ingress_expiry not within expected range: ' +
    `Minimum allowed expiry: ${timeText(now)}, Maximum allowed expiry: ${timeText(latest)}, ` +
    `Provided expiry: ${timeText(expiry)}`;
  throw new ServerError('invalid', 'agent-expired', text);
}

function timeText(nanoseconds: bigint): string {
  const ms = Number(nanoseconds / NANOSECONDS_PER_MS);
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${nanoseconds} ns` : date.toISOString();
}

function nonceIn(content: CborMap): void {
  const nonce = content.get('nonce');
  if (nonce === undefined) return;
  const { length } = bytesAt(nonce, 'content.nonce');
  if (length > NONCE_BYTES_MAX) throw bad('content.nonce', `has ${length} of at most ${NONCE_BYTES_MAX} bytes`);
}

async function delegationsIn(envelope: CborMap): Promise<readonly Delegation[]> {
  const value = envelope.get('sender_delegation');
  if (value === undefined) return [];
  const delegations: Delegation[] = [];
  for (const [index, each] of listAt(value, 'sender_delegation', DELEGATIONS_MAX).entries()) {
    const place = `sender_delegation[${index}]`;
    const signed = mapAt(each, place);
    const delegation = mapAt(signed.get('delegation'), `${place}.delegation`);
    const targets = delegation.get('targets');
    const permissions = delegation.get('permissions');
    delegations.push({
      publicKey: bytesAt(delegation.get('pubkey'), `${place}.delegation.pubkey`),
      expiration: numberAt(delegation.get('expiration'), `${place}.delegation.expiration`),
      targets: targets === undefined ? undefined : targetsIn(targets, `${place}.delegation.targets`),
      permissions: permissions === undefined ? undefined : textAt(permissions, `${place}.delegation.permissions`),
      hash: await hashInTurns(delegation),
      signature: bytesAt(signed.get('signature'), `${place}.signature`),
    });
  }
  return delegations;
}

function targetsIn(value: CborValue, place: string): readonly Uint8Array[] {
  return listAt(value, place, TARGETS_MAX).map((target, index) => principalAt(target, `${place}[${index}]`));
}

function pathsIn(content: CborMap): readonly Path[] {
  return listAt(content.get('paths'), 'content.paths', PATHS_MAX).map((path, index) => {
    const place = `content.paths[${index}]`;
    return listAt(path, place, LABELS_MAX).map((label) => bytesAt(label, `${place}, a label`));
  });
}

function optionalBytes(envelope: CborMap, field: string): Uint8Array | undefined {
  const value = envelope.get(field);
  return value === undefined ? undefined : bytesAt(value, field);
}

function mapAt(value: CborValue | undefined, place: string): CborMap {
  if (value instanceof Map) return value as CborMap;
  throw bad(place, expected(value, 'a map'));
}

function textAt(value: CborValue | undefined, place: string): string {
  if (typeof value === 'string') return value;
  throw bad(place, expected(value, 'text'));
}

function numberAt(value: CborValue | undefined, place: string): bigint {
  if (typeof value === 'bigint' && value < 2n ** 64n) return value;
  throw bad(place, expected(value, 'an unsigned number of 64 bits'));
}

function bytesAt(value: CborValue | undefined, place: string): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw bad(place, expected(value, 'bytes'));
}

function principalAt(value: CborValue | undefined, place: string): Uint8Array {
  const bytes = bytesAt(value, place);
  if (bytes.length <= PRINCIPAL_BYTES_MAX) return bytes;
  throw bad(place, `has ${bytes.length} of at most ${PRINCIPAL_BYTES_MAX} bytes`);
}

function listAt(value: CborValue | undefined, place: string, lengthMax: number): readonly CborValue[] {
  if (!Array.isArray(value)) throw bad(place, expected(value, 'an array'));
  const list = value as readonly CborValue[];
  if (list.length <= lengthMax) return list;
  throw bad(place, `has ${list.length} of at most ${lengthMax} entries`);
}

function expected(value: CborValue | undefined, what: string): string {
  return value === undefined ? `is missing: expected ${what}` : `is of another kind: expected ${what}`;
}

/** Returns the error for a field. */
export function bad(place: string, what: string): ServerError {
  return new ServerError('invalid', 'agent-bad-request', `bad request: ${place} ${what}`);
}
