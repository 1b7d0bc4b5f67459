/** Many large bodies at once: how much of them is read in one turn of the event loop, and that all of them come. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { suite, test } from 'node:test';
import { BodyTurns } from '../../../subsystems/http/body-turns.ts';
import { readBody, readPieces } from '../../../subsystems/http/request-body.ts';

const CLIENTS = 64;
const BODY_BYTES = 1_000_000;
const WHOLE = Buffer.alloc(BODY_BYTES, 1);
const PIECE_BYTES = 64 * 1024;

type Read = (request: IncomingMessage) => Promise<number>;

/** Makes a request whose body is there, and comes piece by piece, as long as it is read. */
function requestOf(count: (bytes: number) => void): IncomingMessage {
  let sent = 0;
  const stream = new Readable({
    read() {
      process.nextTick(() => {
        const piece = WHOLE.subarray(sent, sent + PIECE_BYTES);
        sent += piece.length;
        count(piece.length);
        this.push(piece.length === 0 ? null : piece);
      });
    },
  });
  return Object.assign(stream, { headers: { 'content-length': String(BODY_BYTES) } }) as never;
}

/** Reads many bodies; returns the most bytes that came in one turn. */
async function mostOfATurn(read: Read): Promise<number> {
  let most = 0;
  let bytes = 0;
  const count = (more: number): void => {
    if (bytes === 0) setImmediate(() => (bytes = 0));
    bytes += more;
    most = Math.max(most, bytes);
  };
  const lengths = await Promise.all(Array.from({ length: CLIENTS }, () => read(requestOf(count))));
  assert.deepEqual(new Set(lengths), new Set([BODY_BYTES]));
  return most;
}

const whole: Read = (request) =>
  new Promise((resolve, reject) => {
    const received = (body: Uint8Array): void => resolve(WHOLE.equals(body) ? body.length : -1);
    readBody(request, 2 * BODY_BYTES, received, reject);
  });

const inPieces: Read = async (request) => {
  let length = 0;
  await readPieces(request, 2 * BODY_BYTES, (piece) => {
    length += piece.length;
  });
  return length;
};

suite('large bodies', () => {
  for (const [name, read] of Object.entries({ whole, inPieces })) {
    test(`are read in turns of bounded bytes: ${name}`, async () => {
      // The bound, and of each body the piece behind which it is stopped and what its stream takes beyond.
      const bound = 2 * 1024 * 1024 + 3 * CLIENTS * PIECE_BYTES;
      const most = await mostOfATurn(read);
      assert.ok(most <= bound, `${most} bytes in one turn, and ${bound} are the bound`);
    });
  }

  test('wait in line behind the bytes of a turn, and go on in order', () => {
    const next: (() => void)[] = [];
    const turns = new BodyTurns((callback) => next.push(callback));
    const told: string[] = [];
    const body = (name: string): Parameters<BodyTurns['took']>[0] => {
      const it = { pause: () => (told.push(`${name} stops`), it), resume: () => (told.push(`${name} goes on`), it) };
      return it as never;
    };
    const nextTurn = (): string[] => {
      told.length = 0;
      for (const callback of next.splice(0)) callback();
      return [...told];
    };
    const bodies = Array.from({ length: 20 }, (_, index) => body(String(index)));
    for (const one of bodies) turns.took(one, 200 * 1024);
    assert.deepEqual(
      told,
      ['10', '11', '12', '13', '14', '15', '16', '17', '18', '19'].map((name) => `${name} stops`),
    );
    assert.deepEqual(
      nextTurn(),
      ['10', '11', '12', '13', '14', '15', '16', '17'].map((name) => `${name} goes on`),
    );
    assert.deepEqual(nextTurn(), ['18 goes on', '19 goes on']);
    assert.deepEqual(nextTurn(), []);
    assert.equal(next.length, 0, 'nothing turns when nothing waits');
    turns.took(body('a'), 3 * 1024 * 1024);
    assert.deepEqual(told, ['a stops']);
    assert.deepEqual(nextTurn(), ['a goes on']);
  });
});
