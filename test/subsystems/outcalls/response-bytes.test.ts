import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ResponseBytes } from '../../../subsystems/outcalls/response-bytes.ts';
import fc, { cases } from '../../support/properties.ts';

/** Parts of heads; a carriage return alone, which ends the reading, is rarely among them. */
const HEAD_PARTS = ['\r\n', '\r\n', '\n', ' ', '\t', 'a', ':', '\r\nTransfer-encoding:', ','];
const HEAD = fc.oneof(
  { weight: 5, arbitrary: fc.array(fc.constantFrom(...HEAD_PARTS), { maxLength: 40 }) },
  { weight: 1, arbitrary: fc.array(fc.constantFrom(...HEAD_PARTS, '\r'), { maxLength: 40 }) },
);

/** Characters of which chunks' lines and trailers are made. */
const TEXT = fc.array(fc.constantFrom('\r\n', '\r\n', '\r', '\n', ' ', '\t', 'a', ':', 'b'), { maxLength: 40 });

interface Passed {
  readonly text: string;
  readonly failure: string | undefined;
}

/** Passes pieces on as undici does: the empty line behind a head or a trailer is told to the reader by its parser. */
function passed(pieces: readonly string[], isChunked: boolean): Passed {
  let text = '';
  let isBody = false;
  const bytes = new ResponseBytes({
    feed: (fed) => {
      text += fed.toString('latin1');
      if (!isBody && text.replace(/^(?:\r\n)+/u, '').includes('\r\n\r\n')) {
        isBody = true;
        bytes.headEnded(isChunked);
      }
      return true;
    },
    announced: () => undefined,
  });
  try {
    for (const piece of pieces) bytes.add(Buffer.from(piece, 'latin1'));
  } catch (error) {
    return { text, failure: String(error) };
  }
  return { text, failure: undefined };
}

test('where a response is divided changes nothing', () => {
  const responses = fc.record({
    head: HEAD.map((parts) => parts.join('').replaceAll('\r\n\r\n', '\r\n')),
    extension: TEXT.map((parts) => parts.join('').replaceAll(/[\r\n]/gu, ';')),
    trailer: TEXT.map((parts) => parts.join('')),
    isChunked: fc.boolean(),
    cuts: fc.array(fc.nat(200), { maxLength: 20 }),
  });
  const check = ({
    head,
    extension,
    trailer,
    isChunked,
    cuts,
  }: typeof responses extends fc.Arbitrary<infer T> ? T : never): void => {
    const whole = `HTTP/1.1 200\r\n${head}x\r\n\r\n3${extension}\r\na\r\n\r\n0\r\n${trailer}\r\n\r\n`;
    const at = [0, ...cuts, whole.length].toSorted((a, b) => a - b);
    const pieces = at.slice(1).map((end, index) => whole.slice(at[index], end));
    const [once, divided] = [passed([whole], isChunked), passed(pieces, isChunked)];
    assert.equal(divided.failure, once.failure);
    if (once.failure === undefined) assert.equal(divided.text, once.text);
    if (!isChunked && once.failure === undefined)
      assert.ok(once.text.endsWith(whole.slice(whole.indexOf('x\r\n\r\n3') + 3)));
  };
  fc.assert(fc.property(responses, check), { numRuns: cases(400) });
});
