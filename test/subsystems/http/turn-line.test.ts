import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { Responder } from '../../../subsystems/http/responder.ts';
import { TurnLine } from '../../../subsystems/http/turn-line.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { RecordingLogger } from '../../support/kernel.ts';

test('behind each piece of work is a pause as long as it took, and an error is the own one of its piece', async () => {
  let nowMs = 0;
  const paused: number[] = [];
  const done: number[] = [];
  let goOn = Promise.withResolvers<void>();
  const line = new TurnLine(
    () => nowMs,
    (ms) => {
      paused.push(ms);
      return goOn.promise;
    },
  );
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const pieces = [30, 7, 40].map((ms, at) =>
    line.run(() => {
      nowMs += ms;
      done.push(at);
      if (at === 1) throw new Error('this one');
    }),
  );
  const settled = Promise.allSettled(pieces);
  for (const pieceMs of [30, 7, 40]) {
    await turn();
    assert.equal(paused.at(-1), pieceMs);
    assert.equal(done.length, paused.length, 'nothing is done in a pause');
    const { resolve } = goOn;
    goOn = Promise.withResolvers();
    resolve();
  }
  assert.deepEqual(
    (await settled).map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
});

test('long texts of rejects leave one after the other, and short ones at once', async (t) => {
  const responder = new Responder('1', new RecordingLogger(), { clock: new FakeClock(0), stallMaxMs: 1000 });
  const responses: ServerResponse[] = [];
  const server = createServer((_request, response) => responses.push(response)).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const answers = Array.from({ length: 4 }, () => fetch(`http://127.0.0.1:${port}/`, { keepalive: false }));
  while (responses.length < answers.length) await new Promise((resolve) => setImmediate(resolve));
  const texts = ['a'.repeat(100_000), 'b'.repeat(200_000), 'short', 'c'.repeat(300_000)];
  const sent = responses.map((response, at) =>
    responder.fault(response, { instructions: 0, charge: 0, kind: 'reject', code: 4, message: texts[at] ?? '' }),
  );
  assert.deepEqual(
    responses.map(({ writableEnded }) => writableEnded),
    [false, false, true, false],
  );
  for (const each of sent) await each;
  const told = await Promise.all(
    answers.map(async (answer) => ((await (await answer).json()) as { message: string }).message),
  );
  assert.deepEqual(told.toSorted(), texts.toSorted());
});
