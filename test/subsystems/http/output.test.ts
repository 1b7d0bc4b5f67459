import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { RawClient, send } from '../../support/http-client.ts';
import { type CounterCanister, type HttpHost, startHttpHost } from './counter-host.ts';

const PATH = '/x/actors/counter/output';
const counterOf = ({ canisters }: HttpHost): CounterCanister => canisters.resolve('counter');

async function follow({ origin }: HttpHost, { query = '', headers = '' } = {}): Promise<RawClient> {
  const client = new RawClient(origin);
  client.write(`GET ${PATH}${query} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n${headers}\r\n`);
  await client.until('\r\n\r\n');
  return client;
}

function seqsOf({ received }: RawClient): number[] {
  return Array.from(received.matchAll(/^id: [0-9a-z]+-(\d+)$/gmu), ([, seq]) => Number(seq));
}

interface Line {
  readonly id: string;
  readonly seq: number;
  readonly message: string | null;
  readonly text: string;
}

async function linesOf({ origin }: HttpHost, query = ''): Promise<readonly Line[]> {
  const answer = await send(origin, 'GET', PATH + query);
  assert.equal(answer.status, 200, answer.text);
  return answer.json() as readonly Line[];
}

suite('/x/actors/<ACTOR>/output', () => {
  test('takes nothing from /logs, and has what /logs took', async (t) => {
    const host = await startHttpHost(t);
    assert.deepEqual(await linesOf(host), []);
    for (const text of ['one', 'two', 'three']) counterOf(host).print(text);
    assert.deepEqual(
      (await linesOf(host)).map(({ seq, text }) => [seq, text]),
      [
        [1, 'one'],
        [2, 'two'],
        [3, 'three'],
      ],
    );
    assert.equal((await send(host.origin, 'GET', '/logs/counter')).text, 'one\ntwo\nthree\n');
    assert.equal((await send(host.origin, 'GET', '/logs/counter')).text, '');
    assert.deepEqual(
      (await linesOf(host, '?after=1')).map(({ seq }) => seq),
      [2, 3],
    );
    assert.deepEqual(await linesOf(host, '?after=3'), []);
    assert.equal((await linesOf(host, '?after=4')).length, 3, 'a number of a process before this one');
    assert.deepEqual(host.log.events.at(-1)?.fields['kind'], 'output');
  });

  test('a line has time, message and an id, and the id of another process is no line of this one', async (t) => {
    const host = await startHttpHost(t);
    counterOf(host).print('a\n<b>', 1_700_000_000_123, 36);
    counterOf(host).print('c', 1_700_000_000_124);
    const [first, second] = await linesOf(host);
    assert.deepEqual(first, {
      id: first?.id,
      seq: 1,
      time: '2023-11-14T22:13:20.123Z',
      message: host.canisters.messageIdOf(36),
      text: 'a\n<b>',
    });
    assert.equal(second?.message, null);
    assert.match(first.id, /^[0-9a-z]+-1$/u);
    await using reader = await follow(host);
    await reader.until('"text":"c"}\n\n');
    assert.ok(reader.received.includes(`id: ${first.id}\nevent: debug\ndata: ${JSON.stringify(first)}\n\n`));
    assert.deepEqual(await linesOf(host, `?after=${first.id}`), [second]);
    assert.deepEqual(await linesOf(host, `?after=${second.id}`), []);
    assert.deepEqual(await linesOf(host, '?after=abc-1'), [first, second]);
    assert.deepEqual(await linesOf(host, `?message=${first.message}`), [first]);
    assert.deepEqual(await linesOf(host, `?after=1&message=${first.message}`), []);
    assert.deepEqual(await linesOf(host, '?message=x'), []);
    counterOf(host).print('d', 0, 36);
    await using ofMessage = await follow(host, { query: `?message=${first.message}` });
    await ofMessage.until('"text":"d"}\n\n');
    assert.deepEqual(seqsOf(ofMessage), [1, 3]);
    await using back = await follow(host, { headers: `Last-Event-ID: ${first.id}\r\n` });
    await back.until('"text":"d"}\n\n');
    assert.deepEqual(seqsOf(back), [2, 3]);
    await using other = await follow(host, { headers: 'Last-Event-ID: abc-1\r\n' });
    await other.until('"text":"d"}\n\n');
    assert.deepEqual(seqsOf(other), [1, 2, 3]);
  });

  test('as a stream: each reader gets every line, beside those of /events', async (t) => {
    const host = await startHttpHost(t);
    counterOf(host).print('before');
    await using one = await follow(host);
    await using two = await follow(host, { query: '?after=1' });
    await using taker = new RawClient(host.origin);
    taker.write('GET /events/counter HTTP/1.1\r\nHost: x\r\n\r\n');
    await taker.until('data: before\n\n');
    for (let count = 2; count <= 20; count++) counterOf(host).print(`line ${count}`);
    for (const reader of [one, two]) await reader.until('"text":"line 20"}\n\n');
    await taker.until('data: line 20\n\n');
    const all = Array.from({ length: 20 }, (_, index) => index + 1);
    assert.deepEqual([seqsOf(one), seqsOf(two)], [all, all.slice(1)]);
    assert.equal(taker.received.split('\nevent: debug\n').length - 1, all.length);
    await using back = await follow(host, { query: '?after=2', headers: 'Last-Event-ID: 18\r\n' });
    await back.until('"text":"line 20"}\n\n');
    assert.deepEqual(seqsOf(back), [19, 20]);
    const deleted = await send(host.origin, 'DELETE', '/actors/counter?force=true');
    assert.equal(deleted.status, 200);
    assert.ok((await back.ended()).endsWith('event: deleted\ndata: counter\n\n'));
  });

  test(
    'a reader that takes nothing holds a batch, and misses what has gone meanwhile',
    { timeout: 60_000 },
    async (t) => {
      const host = await startHttpHost(t);
      await using slow = await follow(host);
      slow.pause();
      await using quick = await follow(host);
      const line = 'x'.repeat(32 * 1024);
      const total = 1_000;
      for (let count = 1; count <= total; count++) {
        counterOf(host).print(line);
        // Fewer lines at once than are kept.
        if (count % 5 === 0) while (quick.received.length < count * line.length) await sleep(1);
      }
      await quick.until(`"seq":${total},`);
      assert.equal(seqsOf(quick).length, total);
      slow.resume();
      await slow.until(`"seq":${total},`);
      const seqs = seqsOf(slow);
      assert.ok(seqs.length < total / 2, `${seqs.length} lines waited for the slow one`);
      assert.equal(seqs.at(-1), total);
      assert.deepEqual(
        seqs,
        seqs.toSorted((a, b) => a - b),
      );
      assert.equal(new Set(seqs).size, seqs.length);
    },
  );

  test('needs the token, an actor, and the number of a line', async (t) => {
    const host = await startHttpHost(t, { token: 'x' });
    assert.equal((await send(host.origin, 'GET', PATH)).status, 401);
    const headers = { authorization: 'Bearer x' };
    assert.equal((await send(host.origin, 'GET', '/x/actors/nobody/output', { headers })).status, 404);
    for (const after of [
      'x',
      '-1',
      '01',
      '1.5',
      '1e3',
      '9'.repeat(16),
      '%31x',
      'a-',
      'a-01',
      'A-1',
      `${'a'.repeat(12)}-1`,
      'a-1-1',
    ]) {
      const answer = await send(host.origin, 'GET', `${PATH}?after=${after}`, { headers });
      assert.deepEqual(
        [answer.status, answer.json()],
        [
          400,
          {
            code: 400,
            message: 'query parameter after: expected the number or the id of a line, as this route tells it',
          },
        ],
      );
    }
    assert.equal((await send(host.origin, 'GET', `${PATH}?after=${'9'.repeat(15)}`, { headers })).status, 200);
    assert.equal((await send(host.origin, 'GET', `${PATH}?after=1&after=2`, { headers })).status, 404);
  });
});
