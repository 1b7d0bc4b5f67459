/** The node's signatures: a lone one is made at once, several go to the thread together, and all are right. */
import assert from 'node:assert/strict';
import { createPublicKey, randomBytes, verify } from 'node:crypto';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { CertificateSigner, QuerySignatures, separated } from '../../../subsystems/certification/index.ts';

test('signatures of a batch and of a lone answer are the node’s, each of its own hash', async () => {
  const signer = new CertificateSigner(randomBytes(32));
  try {
    const { nodeKey } = await signer.identity();
    const key = createPublicKey({ key: Buffer.from(nodeKey), format: 'der', type: 'spki' });
    const signatures = new QuerySignatures(signer);
    const isRight = (hash: Uint8Array, signature: Uint8Array): boolean =>
      verify(null, Buffer.concat([separated('ic-response'), hash]), key, signature);
    const hashes = Array.from({ length: 300 }, () => randomBytes(32));
    const signed = await Promise.all(hashes.map((hash) => signatures.sign(hash)));
    for (const [at, hash] of hashes.entries()) assert.ok(isRight(hash, signed[at] ?? Buffer.alloc(0)), `number ${at}`);
    const [alone = Buffer.alloc(0)] = hashes;
    assert.ok(isRight(alone, await signatures.sign(alone)));
  } finally {
    await signer.close();
  }
});

test('two of a turn are signed here, more in one batch, and what comes meanwhile in the next', async () => {
  const batches: { readonly count: number; readonly done: PromiseWithResolvers<readonly Uint8Array[]> }[] = [];
  let here = 0;
  const signatures = new QuerySignatures({
    signAsNode: () => (here++, new Uint8Array(64)),
    signAllAsNode: ({ length }) => {
      const done = Promise.withResolvers<readonly Uint8Array[]>();
      batches.push({ count: length, done });
      return done.promise;
    },
  });
  const ask = (count: number): Promise<Uint8Array>[] =>
    Array.from({ length: count }, () => signatures.sign(new Uint8Array(32)));
  await Promise.all(ask(2));
  assert.deepEqual([here, batches.length], [2, 0]);
  const first = ask(5);
  await new Promise(setImmediate);
  const second = ask(1);
  await new Promise(setImmediate);
  assert.deepEqual([here, batches.map(({ count }) => count)], [2, [5]]);
  batches[0]?.done.reject(new ServerError('unavailable', 'certificates-failed', 'the thread has ended'));
  for (const each of first) await assert.rejects(each, { code: 'certificates-failed' });
  assert.deepEqual(
    batches.map(({ count }) => count),
    [5, 1],
  );
  batches[1]?.done.resolve([Uint8Array.of(7)]);
  assert.deepEqual(await Promise.all(second), [Uint8Array.of(7)]);
  await Promise.all(ask(1));
  assert.equal(here, 3, 'a lone one after a batch waits for the thread');
});

test('a hash whose signature does not come is an error, and no empty signature', async () => {
  const signatures = new QuerySignatures({
    signAsNode: () => new Uint8Array(64),
    signAllAsNode: async () => [Uint8Array.of(1), Uint8Array.of(2)],
  });
  const asked = [1, 2, 3].map(() => signatures.sign(new Uint8Array(32)));
  const [first, second, third] = await Promise.allSettled(asked);
  assert.deepEqual([first?.status, second?.status, third?.status], ['fulfilled', 'fulfilled', 'rejected']);
});

test('10,000 answers may wait', async () => {
  const signatures = new QuerySignatures({
    signAsNode: () => new Uint8Array(64),
    signAllAsNode: () => new Promise(() => undefined),
  });
  const waiting = Array.from({ length: 10_000 }, () => signatures.sign(new Uint8Array(32)));
  await assert.rejects(signatures.sign(new Uint8Array(32)), { code: 'certificates-busy' });
  assert.equal(waiting.length, 10_000);
});
