/** Bytes that could be the body of a request to `/api`: real envelopes, damaged ones, and CBOR made to do harm. */
import {
  newSigner,
  type Content,
  cborOf,
  contentOf,
  delegationTo,
  envelopeOf,
  readContent,
} from '../subsystems/agents/raw-agent.ts';
import type { seeded } from '../support/seeded.ts';

type Random = ReturnType<typeof seeded>;

const ID = Buffer.from('80000000001000010101', 'hex');
const [ALICE, SESSION] = [newSigner(), newSigner()];
const FIELDS = ['request_type', 'sender', 'ingress_expiry', 'nonce', 'canister_id', 'method_name', 'arg', 'paths'];

function realEnvelopes(): readonly Buffer[] {
  const call = contentOf('call', ID, 'inc', ALICE.principal);
  const status = [Buffer.from('request_status'), Buffer.alloc(32)];
  const targets = new Map([['targets', [ID, Buffer.of()]]]);
  const envelopes: readonly Content[] = [
    envelopeOf(contentOf('call', ID, 'inc')),
    envelopeOf(contentOf('query', ID, 'get')),
    envelopeOf(call, ALICE),
    envelopeOf(call, SESSION, ALICE, [delegationTo(ALICE, SESSION, targets)]),
    envelopeOf(readContent([[Buffer.from('time')], status], ALICE.principal), ALICE),
  ];
  return envelopes.map((envelope) => Buffer.from(cborOf(envelope)));
}
const REAL = realEnvelopes();

/** Returns the initial byte of a kind and the number behind it, of any width, sometimes a claim that is not true. */
function head(random: Random, major: number, count: number): Buffer {
  const first = major << 5;
  const claimed = random.oneIn(50) ? 2 ** random.below(53) : count;
  const width = random.below(10);
  if (claimed < 24 && width < 7) return Buffer.of(first | claimed);
  const bytes = Buffer.alloc(9);
  bytes.writeBigUInt64BE(BigInt(claimed), 1);
  bytes[0] = first | 27;
  if (claimed >= 2 ** 32 || width === 9) return bytes;
  if (claimed >= 2 ** 16) return Buffer.concat([Buffer.of(first | 26), bytes.subarray(5)]);
  return Buffer.concat([Buffer.of(first | 25), bytes.subarray(7)]);
}

function text(random: Random, value: string): Buffer {
  const bytes = Buffer.from(value);
  if (random.oneIn(60) && bytes.length > 0) bytes[0] = 0xff;
  return Buffer.concat([head(random, 3, bytes.length), bytes]);
}

/** Draws a value, most of the kinds that the reader takes. */
function drawnValue(random: Random, depth: number): Buffer {
  const count = random.below(5);
  switch (random.below(depth > 0 ? 9 : 4)) {
    case 0:
      return head(random, 0, random.below(2 ** 30));
    case 1:
      return Buffer.concat([head(random, 2, count), Buffer.alloc(count, random.below(256))]);
    case 2:
      return text(random, 'x'.repeat(count));
    case 3:
      return random.oneIn(8) ? Buffer.of(0xe0 | random.below(32), 0, 0, 0, 0) : head(random, 2, 0);
    case 4:
    case 5:
      return Buffer.concat([
        head(random, 4, count),
        ...Array.from({ length: count }, () => drawnValue(random, depth - 1)),
      ]);
    case 6:
    case 7: {
      const parts = Array.from({ length: count }, (_, index) => [
        text(random, random.oneIn(20) ? 'same' : `k${index}`),
        drawnValue(random, depth - 1),
      ]);
      return Buffer.concat([head(random, 5, count), ...parts.flat()]);
    }
    default:
      return Buffer.concat([head(random, 6, random.oneIn(3) ? 2 : 55_799), drawnValue(random, depth - 1)]);
  }
}

/** Draws an envelope whose fields are there, and have values of any kind. */
function drawnEnvelope(random: Random): Buffer {
  const fields = FIELDS.filter(() => !random.oneIn(8));
  const parts = fields.map((name) => [text(random, name), fieldValue(random, name)]);
  const content = Buffer.concat([head(random, 5, fields.length), ...parts.flat()]);
  const outer = ['sender_pubkey', 'sender_sig', 'sender_delegation'].filter(() => random.oneIn(3));
  const others = outer.map((name) => [text(random, name), drawnValue(random, 4)]);
  return Buffer.concat([head(random, 5, 1 + outer.length), text(random, 'content'), content, ...others.flat()]);
}

function fieldValue(random: Random, name: string): Buffer {
  if (random.oneIn(6)) return drawnValue(random, 4);
  if (name === 'request_type') return text(random, ['call', 'query', 'read_state'][random.below(3)] ?? '');
  if (name === 'ingress_expiry') return head(random, 0, 2 ** 52);
  if (name === 'method_name') return text(random, 'inc');
  if (name === 'paths')
    return Buffer.concat([head(random, 4, 1), head(random, 4, 1), head(random, 2, 1), Buffer.of(9)]);
  const length = random.below(12);
  return Buffer.concat([head(random, 2, length), Buffer.alloc(length, 7)]);
}

/** Repeats one piece as often as a body of some kilobytes has room for. */
function bomb(random: Random): Buffer {
  const piece = [
    Buffer.of(0x81),
    Buffer.of(0x80),
    Buffer.of(0x00),
    Buffer.of(0xd9, 0xd9, 0xf7),
    Buffer.of(0xa1, 0x61, 0x61),
    Buffer.of(0x40),
    Buffer.of(0x9a, 0, 0, 0xff, 0xff),
    Buffer.of(0xc2, 0x58, 0x20),
  ][random.below(8)];
  const many = Buffer.alloc(1 + random.below(random.oneIn(20) ? 60_000 : 600), piece);
  const first = random.oneIn(2) ? head(random, 4, Math.floor(many.length / (piece?.length ?? 1))) : Buffer.of();
  const bytes = Buffer.concat([first, many]);
  // As a field that no request has, it is hashed.
  return random.oneIn(2)
    ? Buffer.concat([Buffer.of(0xa1), text(random, 'content'), Buffer.of(0xa1), text(random, 'x'), bytes])
    : bytes;
}

function damaged(random: Random): Buffer {
  const bytes = Buffer.from(REAL[random.below(REAL.length)] ?? '');
  for (let changes = random.below(4); changes > 0; changes--) bytes[random.below(bytes.length)] = random.below(256);
  if (random.oneIn(6)) return bytes.subarray(0, random.below(bytes.length));
  if (!random.oneIn(6)) return bytes;
  const [from, to] = [random.below(bytes.length), random.below(bytes.length)];
  return Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)]);
}

/** Draws a body. */
export function drawnBody(random: Random): Buffer {
  switch (random.below(8)) {
    case 0:
      return Buffer.from(Array.from({ length: random.below(40) }, () => random.below(256)));
    case 1:
    case 2:
      return damaged(random);
    case 3:
      return bomb(random);
    case 4:
      return drawnValue(random, 8);
    default:
      return drawnEnvelope(random);
  }
}
