import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { blob, messageOf, nat, record, text, vec } from '../../../subsystems/codec/known-values/index.ts';

interface Entry {
  readonly key: string;
  readonly count: number;
  readonly content: Uint8Array;
}
interface Page {
  readonly title: string;
  readonly entries: readonly Entry[];
}

const ENTRY = record<Entry>({ key: text, count: nat, content: blob });
const candidOf = messageOf(record<Page>({ title: text, entries: vec(ENTRY) }));
const codec = createCodec();
const types = codec
  .parseInterface(
    'service : { page : (record { entries : vec record { content : blob; count : nat; key : text }; title : text }) -> () }',
  )
  .methods.get('page');

/** Returns the value that a plain reader of the type decodes. */
function read(candid: Uint8Array): unknown {
  assert.ok(types);
  return JSON.parse(Buffer.from(types.args.decode(candid, { lossless: false })).toString());
}

function asJson({ title, entries }: Page): unknown {
  return {
    title: title.toWellFormed(),
    entries: entries.map(({ key, count, content }) => ({
      key: key.toWellFormed(),
      count,
      content: Buffer.from(content).toString('base64'),
    })),
  };
}

// Lengths around those from which a text is written in another way, and at which a LEB128 gets another byte.
const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.integer({ min: 30, max: 34 }).map((length) => '€'.repeat(length)),
  fc.integer({ min: 126, max: 130 }).map((length) => 'x'.repeat(length)),
  fc.constant('half \ud800 of a pair'),
);
const anyCount = fc.oneof(fc.nat(), fc.maxSafeNat(), fc.constantFrom(127, 128, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1));
const anyPage = fc.record({
  title: anyText,
  entries: fc.array(fc.record({ key: anyText, count: anyCount, content: fc.uint8Array({ maxLength: 300 }) })),
});

test('whatever the value, what is written is read as the value', () => {
  fc.assert(
    fc.property(anyPage, (page) => {
      assert.deepEqual(read(candidOf(page)), [asJson(page)]);
    }),
  );
});

test('what the value has beside its type is left out', () => {
  const page = { title: 'a', entries: [], note: 'not of the type' };
  assert.deepEqual(candidOf(page), candidOf({ title: 'a', entries: [] }));
});

test('a type whose size is not what it writes is found before anybody reads the message', () => {
  const wrong = messageOf({ ...text, size: (value: string) => text.size(value) + 1 });
  assert.throws(() => wrong('a'), /bug/);
});
