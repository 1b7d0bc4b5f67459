/**
 * Random bodies for `/api`: each is read or refused with a reason, and a request that is read has the id that the
 * agents' own code gives it. `npm run prove -- cbor 1000000` is the long form, which also looks at the time.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cbor, type CallRequest, requestIdOf } from 'icp-core-6/agent';
import { ServerError } from '../../kernel/index.ts';
import { type Envelope, readEnvelope } from '../../subsystems/agents/envelope.ts';
import { ProofSeeds } from '../support/proof-seeds.ts';
import { seeded } from '../support/seeded.ts';
import { drawnBody } from './random-envelopes.ts';

const TYPES = ['call', 'query', 'read_state'] as const;
/** Milliseconds that one body may hold the main thread. */
const HELD_MS_MAX = 5;
/** A body that took longer is read again: the machine, or a collection of garbage, may have been in the way. */
const TIMES = 200;

/** Resolves with what was read, or with the code of the refusal. */
async function outcomeOf(body: Uint8Array, type: Envelope['type']): Promise<Envelope | string> {
  try {
    return await readEnvelope(body, type);
  } catch (error) {
    assert.ok(error instanceof ServerError, String(error));
    assert.ok(['cbor-bad', 'agent-bad-request'].includes(error.code), String(error));
    assert.ok(error.message.length < 400, error.message);
    return error.code;
  }
}

/** An empty array whose length has eight bytes: agents read one value in it. */
const LONG_EMPTY = Buffer.from('9b0000000000000000', 'hex');

/** Returns the content as agents decode it; undefined: they take no big numbers, and the tag outside only. */
function contentByAgents(body: Buffer): CallRequest | undefined {
  if (body.includes(LONG_EMPTY)) return undefined;
  try {
    return Cbor.decode<{ content: CallRequest }>(new Uint8Array(body)).content;
  } catch (error) {
    assert.match(String(error), /Unsupported tag: (?:2|55799)\b/);
    return undefined;
  }
}

/** Returns the shortest of several times until the reader gives the thread back. */
async function heldMs(body: Uint8Array, type: Envelope['type'], times: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let time = 0; time < times && least > HELD_MS_MAX; time++) {
    const start = performance.now();
    const reading = outcomeOf(body, type);
    least = Math.min(least, performance.now() - start);
    await reading;
  }
  return least;
}

test('random bodies are read or refused, and their ids are those of the agents', async () => {
  const seeds = new ProofSeeds(20_000);
  const tally = { read: 0, compared: 0, 'cbor-bad': 0, 'agent-bad-request': 0 };
  let longestMs = 0;
  for (const seed of seeds) {
    const random = seeded(seed);
    const body = drawnBody(random);
    for (const type of random.oneIn(3) ? TYPES : TYPES.slice(0, 1)) {
      const outcome = await outcomeOf(body, type);
      if (typeof outcome === 'string') {
        tally[outcome as keyof typeof tally]++;
        continue;
      }
      tally.read++;
      const content = contentByAgents(body);
      if (content === undefined) continue;
      tally.compared++;
      assert.equal(
        Buffer.from(requestIdOf(content)).toString('hex'),
        Buffer.from(outcome.requestId).toString('hex'),
        `body ${seed}`,
      );
    }
    if (!seeds.isLong) continue;
    const ms = await heldMs(body, 'call', TIMES);
    assert.ok(ms <= HELD_MS_MAX, `body ${seed}, ${body.length} bytes, holds the thread for ${ms} ms`);
    longestMs = Math.max(longestMs, ms);
  }
  seeds.saw({ ...tally, 'microseconds at most': Math.round(longestMs * 1000) });
  for (const [what, count] of Object.entries(tally)) assert.ok(count > seeds.count / 100, `${count} ${what}`);
});
