/** Hashes of requests: spread over turns of the event loop where a request is made to hold it, and always the same. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CborMap, type CborValue, hashInTurns, hashOfMap } from '../../../subsystems/certification/index.ts';
import { readEnvelope } from '../../../subsystems/agents/envelope.ts';
import { cborOf, contentOf, delegationTo, envelopeOf, newSigner, readContent } from '../agents/raw-agent.ts';

const MIB = 1024 * 1024;
const ID = Buffer.from('80000000001000010101', 'hex');

/** Returns what a promise resolves with, and how many turns others had meanwhile. */
async function turnsOf<T>(work: () => Promise<T>): Promise<{ readonly result: T; readonly turns: number }> {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const result = await work();
  isOver = true;
  return { result, turns };
}

const list = (length: number, of: () => CborValue): CborValue => Array.from({ length }, of);
const content = (...more: readonly (readonly [string, CborValue])[]): CborMap =>
  new Map([...contentOf('call', ID, 'inc'), ...more]);

test('a hash in turns is the hash, and gives way as often as its work asks for', async () => {
  const cases: readonly (readonly [string, CborMap, number])[] = [
    ['a usual request', content(), 0],
    ['an argument of 8 MiB', content(['arg', Buffer.alloc(8 * MIB, 1)]), 8],
    [
      '8 fields of 1 MiB',
      content(...['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((name) => [name, Buffer.alloc(MIB, 2)] as const)),
      7,
    ],
    ['8 MiB inside a list', content(['x', [[Buffer.alloc(8 * MIB, 3)]]]), 8],
    ['8 MiB inside a map', content(['x', new Map([['y', Buffer.alloc(8 * MIB, 4)]])]), 8],
    ['20,000 numbers', content(['x', list(20_000, () => 300n)]), 60],
    ['20,000 names inside each other', content(['x', list(200, () => list(100, () => 'a'))]), 60],
  ];
  for (const [what, map, least] of cases) {
    const { result, turns } = await turnsOf(() => hashInTurns(map));
    assert.deepEqual(result, hashOfMap(map), what);
    assert.ok(turns >= least, `${what}: ${turns} turns`);
    if (least === 0) assert.ok(turns <= 1, `${what}: ${turns} turns`);
  }
});

test('the largest requests that are read give way', async () => {
  const [owner, session] = [newSigner(), newSigner()];
  const targets = new Map([['targets', list(1000, () => ID)]]);
  const chain = Array.from({ length: 20 }, () => delegationTo(owner, session, targets));
  const labels = (length: number): readonly Uint8Array[] => Array.from({ length }, () => Buffer.from('a'));
  const paths = readContent(Array.from({ length: 1000 }, () => labels(20)));
  for (const [type, envelope] of [
    ['call', envelopeOf(contentOf('call', ID, 'inc', owner.principal), session, owner, chain)],
    ['read_state', envelopeOf(paths)],
  ] as const) {
    const body = cborOf(envelope);
    const { turns } = await turnsOf(() => readEnvelope(body, type));
    assert.ok(turns >= 50, `${type}: ${turns} turns`);
  }
});
