/** Random responses in random packets: what becomes of each is what a simple reader of all its bytes says. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { suite, test } from 'node:test';
import { NEVER, requestOf } from '../../../plugins/api/contracts/outcalls.ts';
import type { OutcallMethod } from '../../../subsystems/outcalls/index.ts';
import { UndiciOutcalls } from '../../../subsystems/outcalls/undici-outcalls.ts';
import fc, { cases } from '../../support/properties.ts';
import { type ReadResponse, readResponse } from './reference-response.ts';

const STATUSES =
  '200 OK|200|200 |204 None|304 Not|100 Continue|103 Hints|101 Switch|099 x|999 x|20 x|2000 x|404 a\u0001b';
const ENCODINGS =
  'chunked|Chunked|, chunked|chunked,|chunked\t, ,|,|identity|gzip, chunked|chunked, chunked|chunked;a=b|';
const LENGTHS = '2|02|0|9|2, 2|2,|+2|-2|0x2|2 2|2\t|99999999999999999999999|';
const OTHERS =
  'x: a|x:|X-Y:\t b \t|: a|x : a|x|x: a\u0001|x: a\u007f|x: \u00fc|connection: close|connection: keep-alive|' +
  'keep-alive: timeout=1|upgrade: x|trailer: x|x: a\r\n b|x: a \r\n\t|x: a\rb|x: a\nb|transfer-encodin: x';
const BODIES =
  'hi|h|hi!||2\r\nhi\r\n0\r\n\r\n|2;a="b;\\"";c\r\nhi\r\n00 \r\nx: y\r\n z\r\n\r\n|2\nhi\r\n0\r\n\r\n|2\r\nhi0\r\n\r\n|' +
  'ffffffffffffffffffff\r\nhi|2\r\nhi\r\n0\r\ncontent-length: 2\r\n\r\n|2\r\nhi\r\n0\r\ntransfer-encoding: ,\r\n\r\n|' +
  '1\r\nh\r\n1\r\ni\r\n0\r\n\r\n|2\r\nhi\r\n|2\r\nhi\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n';

const oneOf = (texts: string): fc.Arbitrary<string> => fc.constantFrom(...texts.split('|'));
const rarely = (usual: string, odd: string): fc.Arbitrary<string> =>
  fc.oneof({ weight: 12, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: oneOf(odd) });
const header = fc.oneof(
  oneOf(ENCODINGS).map((value) => `transfer-encoding: ${value}`),
  oneOf(LENGTHS).map((value) => `Content-Length: ${value}`),
  oneOf('2|0').map((value) => `content-length: ${value}`),
  fc.constant('transfer-encoding: chunked'),
  oneOf(OTHERS),
);
const head = fc
  .record({
    before: rarely('', '\r\n|\r\n\r\n|\n|\r| '),
    version: rarely('HTTP/1.1 ', 'HTTP/1.0 |HTTP/1.2 |HTTP/2.0 |HTTP/1.1  |http/1.1 |HTTP/1.1\t|ICY '),
    status: fc.oneof({ weight: 3, arbitrary: fc.constant('200 OK') }, oneOf(STATUSES)),
    lines: fc.array(header, { maxLength: 3 }),
    end: rarely('\r\n', '\n|\r|\r\n\r\n'),
  })
  .map(({ before, version, status, lines, end }) =>
    [`${before}${version}${status}`, ...lines, ''].join(end).concat('\r\n'),
  );
const anything = fc
  .record({ heads: fc.array(head, { minLength: 1, maxLength: 3 }), body: oneOf(BODIES) })
  .map(({ heads, body }) => heads.join('') + body);
/** A response whose body is where its head says. */
const coherent = fc
  .record({
    before: rarely('', '\r\n|HTTP/1.1 100 Continue\r\n\r\n|HTTP/1.1 103 x\r\ntransfer-encoding: ,\r\n\r\n'),
    framing: fc.oneof(
      fc
        .tuple(
          fc.array(oneOf(ENCODINGS), { minLength: 1, maxLength: 2 }),
          fc.constantFrom(...BODIES.split('|').slice(3)),
        )
        .map(([encodings, body]) => ({ lines: encodings.map((coding) => `Transfer-Encoding:${coding}`), body })),
      oneOf(LENGTHS).map((length) => ({ lines: [`content-length: ${length}`], body: 'hi' })),
      fc.constant({ lines: [], body: 'hi' }),
    ),
    other: oneOf(OTHERS),
    version: rarely('1', '0'),
  })
  .map(
    ({ before, framing: { lines, body }, other, version }) =>
      `${before}HTTP/1.${version} 200 OK\r\n${[...lines, other].join('\r\n')}\r\n\r\n${body}`,
  );
const plain = fc.oneof(coherent, anything);
/** A response in which a byte is left out, put in or exchanged. */
const response = fc.oneof(
  { weight: 3, arbitrary: plain },
  fc
    .tuple(plain, fc.nat(), oneOf('\r|\n|\t|,|;|:|"|0|2|a|\u0000|\u0080|'), fc.nat(1))
    .map(([text, place, odd, left]) => {
      const at = place % (text.length + 1);
      return text.slice(0, at) + odd + text.slice(at + left);
    }),
);

interface Bench {
  readonly ask: (pieces: readonly string[], method: OutcallMethod) => Promise<ReadResponse | undefined>;
  readonly close: () => void;
}

async function bench(): Promise<Bench> {
  let pieces: readonly string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket.on('error', () => undefined).on('close', () => sockets.delete(socket)));
    socket.once('data', () => void send(socket, pieces));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return {
    ask: async (sent, method) => {
      pieces = sent;
      const outcalls = new UndiciOutcalls({ denyPrivate: false });
      try {
        const { status, headers, body } = await outcalls.send(requestOf(url, { method }), NEVER);
        const text = Buffer.from(body).toString('latin1');
        return { status, headers: headers.map(({ name, value }) => `${name}=${value}`), body: text };
      } catch {
        return undefined;
      } finally {
        outcalls.close();
      }
    },
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

async function send(socket: Socket, pieces: readonly string[]): Promise<void> {
  for (const piece of pieces) {
    socket.write(piece, 'latin1');
    for (let turns = 0; turns < 3; turns++) await turn();
  }
  socket.end();
}

function cut(text: string, places: readonly number[]): string[] {
  const ends = [...new Set(places.map((place) => place % (text.length + 1)))].sort((left, right) => left - right);
  return [0, ...ends].map((begin, index) => text.slice(begin, ends[index])).filter((piece) => piece !== '');
}

suite('responses', () => {
  test('are read as a simple reader of all their bytes reads them, in one packet and in several', async (t) => {
    const { ask, close } = await bench();
    t.after(close);
    let taken = 0;
    await fc.assert(
      fc.asyncProperty(
        response,
        fc.array(fc.nat(), { maxLength: 6 }),
        fc.constantFrom<OutcallMethod>('GET', 'GET', 'HEAD', 'POST'),
        async (text, places, method) => {
          const expected = readResponse(text, method);
          if (expected !== undefined) taken++;
          assert.deepEqual(await ask([text], method), expected, 'in one packet');
          assert.deepEqual(await ask(cut(text, places), method), expected, 'in several');
        },
      ),
      { numRuns: cases(600) },
    );
    assert.ok(taken > 100, `${taken} were responses`);
  });
});
