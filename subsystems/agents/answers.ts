/** Answers in CBOR, and their hashes where they are signed. */
import { type CborMap, type CborValue, CborWriter, type Fact, hashOfMap, leb128 } from '../certification/index.ts';
import type { Rejection } from './rejections.ts';

const REQUEST_STATUS = Buffer.from('request_status');

/** Returns the facts of a request's status: all that there are, so that nothing of it looks pruned. */
export function factsOfRequest(
  requestId: Uint8Array,
  result: Uint8Array | Rejection | 'received' | 'processing',
): readonly Fact[] {
  const fact = (name: string, value: Uint8Array): Fact => ({
    path: [REQUEST_STATUS, requestId, Buffer.from(name)],
    value,
  });
  if (typeof result === 'string') return [fact('status', Buffer.from(result))];
  if (result instanceof Uint8Array) return [fact('status', Buffer.from('replied')), fact('reply', result)];
  const { code, message, errorCode } = result;
  return [
    fact('status', Buffer.from('rejected')),
    fact('reject_code', leb128(BigInt(code))),
    fact('reject_message', Buffer.from(message)),
    fact('error_code', Buffer.from(errorCode)),
  ];
}

export function certifiedReply(certificate: Uint8Array): Uint8Array {
  return new CborWriter()
    .selfDescribed()
    .map(2)
    .text('status')
    .text('replied')
    .text('certificate')
    .bytes(certificate)
    .done();
}

export function certificateAlone(certificate: Uint8Array): Uint8Array {
  return new CborWriter().selfDescribed().map(1).text('certificate').bytes(certificate).done();
}

/** Returns the answer for a call that was not accepted; version 2 has no status in it. */
export function refusedCall({ code, message, errorCode }: Rejection, version: number): Uint8Array {
  const out = new CborWriter().selfDescribed().map(version === 2 ? 3 : 4);
  if (version !== 2) out.text('status').text('non_replicated_rejection');
  out.text('reject_code').unsigned(code).text('reject_message').text(message).text('error_code').text(errorCode);
  return out.done();
}

/** A query's answer, and who signs for it. */
interface SignedQuery {
  readonly requestId: Uint8Array;
  /** Nanoseconds since 1970. */
  readonly timestamp: bigint;
  readonly nodeId: Uint8Array;
  /** Signs the hash of the answer. */
  readonly sign: (hash: Uint8Array) => Promise<Uint8Array>;
}

/** Resolves with a query's answer with the node's signature. */
export async function queryAnswer(result: Uint8Array | Rejection, signing: SignedQuery): Promise<Uint8Array> {
  const { requestId, timestamp, nodeId, sign } = signing;
  const common = [
    ['timestamp', timestamp],
    ['request_id', requestId],
  ] as const;
  const out = new CborWriter().selfDescribed();
  let signed: CborMap;
  if (result instanceof Uint8Array) {
    const reply: CborMap = new Map([['arg', result]]);
    signed = new Map<string, CborValue>([['status', 'replied'], ['reply', reply], ...common]);
    out.map(3).text('status').text('replied').text('reply').map(1).text('arg').bytes(result);
  } else {
    const { code, message, errorCode } = result;
    signed = new Map<string, CborValue>([
      ['status', 'rejected'],
      ['reject_code', BigInt(code)],
      ['reject_message', message],
      ['error_code', errorCode],
      ...common,
    ]);
    out.map(5).text('status').text('rejected').text('reject_code').unsigned(code);
    out.text('reject_message').text(message).text('error_code').text(errorCode);
  }
  out.text('signatures').array(1).map(3).text('timestamp').unsigned(timestamp);
  out
    .text('signature')
    .bytes(await sign(hashOfMap(signed)))
    .text('identity')
    .bytes(nodeId);
  return out.done();
}
