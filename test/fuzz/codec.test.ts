import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IDL } from '@dfinity/candid';
import fc, { cases } from '../support/properties.ts';
import { ServerError } from '../../kernel/index.ts';
import { createCodec } from '../../subsystems/codec/codec.ts';
import { encodeValueText } from '../../subsystems/codec/encode-value-text.ts';
import { CompiledTuple } from '../../subsystems/codec/tuple-codec.ts';
import { graphOfTypes } from '../../subsystems/codec/types.ts';
import { typeCases, typedValues } from '../subsystems/codec/typed-values.ts';

const codec = createCodec();

function tupleOf(type: IDL.Type): CompiledTuple {
  return new CompiledTuple(graphOfTypes([type]), 'args');
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}

/** Serializes as JSON, but keeps negative zero, which JSON.stringify loses. */
function serialize(value: unknown): string {
  if (Object.is(value, -0)) return '-0';
  if (Array.isArray(value)) return `[${value.map(serialize).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, member]) => `${JSON.stringify(key)}:${serialize(member)}`)
    .join(',')}}`;
}

for (const lossless of [false, true]) {
  const encoding = lossless ? 'lossless' : 'default';

  test(`values encoded by the reference library come out as the ${encoding} JSON that was written down independently`, () => {
    fc.assert(
      fc.property(typedValues, ({ typeCase, value }) => {
        const json = text(tupleOf(typeCase.type).decode(IDL.encode([typeCase.type], [value]), { lossless }));
        const expected = lossless ? typeCase.toLossless(value) : typeCase.toDefault(value);
        assert.deepEqual(JSON.parse(json), JSON.parse(serialize([expected])));
      }),
      { numRuns: cases(400) },
    );
  });

  test(`${encoding} JSON becomes a message in which the reference library reads the same value`, () => {
    fc.assert(
      fc.property(typedValues, ({ typeCase, value }) => {
        const json = serialize([lossless ? typeCase.toLossless(value) : typeCase.toDefault(value)]);
        const message = tupleOf(typeCase.type).encode(Buffer.from(json), { lossless });
        const [read] = IDL.decode([typeCase.type], message);
        const [expected] = IDL.decode([typeCase.type], IDL.encode([typeCase.type], [value]));
        assert.deepEqual(read, expected);
      }),
      { numRuns: cases(400) },
    );
  });
}

test('decoding and encoding again gives the same bytes in both encodings', () => {
  fc.assert(
    fc.property(typedValues, fc.boolean(), ({ typeCase, value }, lossless) => {
      const tuple = tupleOf(typeCase.type);
      const json = serialize([lossless ? typeCase.toLossless(value) : typeCase.toDefault(value)]);
      const message = tuple.encode(Buffer.from(json), { lossless });
      assert.deepEqual(tuple.encode(tuple.decode(message, { lossless }), { lossless }), message);
    }),
    { numRuns: cases(300) },
  );
});

test('the order of keys in the text does not change the message', () => {
  const reversed = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(reversed);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .map(([key, member]) => [key, reversed(member)])
        .toReversed(),
    );
  };
  fc.assert(
    fc.property(typedValues, fc.boolean(), ({ typeCase, value }, lossless) => {
      const tuple = tupleOf(typeCase.type);
      const json = [lossless ? typeCase.toLossless(value) : typeCase.toDefault(value)];
      const straight = tuple.encode(Buffer.from(serialize(json)), { lossless });
      assert.deepEqual(tuple.encode(Buffer.from(serialize(reversed(json))), { lossless }), straight);
    }),
    { numRuns: cases(300) },
  );
});

test('without an interface a message survives the way to lossless JSON and back', () => {
  const options = { lossless: true };
  fc.assert(
    fc.property(typedValues, ({ typeCase, value }) => {
      const json = text(codec.untyped.decode(IDL.encode([typeCase.type], [value]), options));
      const message = codec.untyped.encode(Buffer.from(json), options);
      assert.equal(text(codec.untyped.decode(message, options)), json);
    }),
    { numRuns: cases(400) },
  );
});

test('lossless JSON needs no interface to mean the same values', () => {
  const options = { lossless: true };
  fc.assert(
    fc.property(typedValues, ({ typeCase, value }) => {
      const json = Buffer.from(serialize([typeCase.toLossless(value)]));
      const untyped = codec.untyped.decode(codec.untyped.encode(json, options), options);
      const typed = codec.untyped.decode(tupleOf(typeCase.type).encode(json, options), options);
      assert.equal(text(untyped), text(typed));
    }),
    { numRuns: cases(300) },
  );
});

test('value text of a message, read by its types, has the same values', () => {
  fc.assert(
    fc.property(typedValues, ({ typeCase, value }) => {
      const message = IDL.encode([typeCase.type], [value]);
      const shown = codec.previewText(message, 1_000_000);
      assert.ok(shown !== undefined);
      const read = encodeValueText(shown, graphOfTypes([typeCase.type]));
      assert.equal(
        text(codec.untyped.decode(read, { lossless: true })),
        text(codec.untyped.decode(message, { lossless: true })),
      );
    }),
    { numRuns: cases(300) },
  );
});

/** Runs code that may refuse its input, and asserts that a refusal is a ServerError of kind `invalid`. */
function refusesCleanly(run: () => unknown): void {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof ServerError, `${String(error)} is no ServerError`);
    assert.equal(error.kind, 'invalid');
  }
}

test('arbitrary bytes never crash the decoder', () => {
  const magic = fc.constant(Buffer.from('DIDL'));
  const small = fc.uint8Array({ maxLength: 40 });
  const bytes = fc.oneof(
    fc.tuple(magic, small).map(([head, tail]) => Buffer.concat([head, tail])),
    fc.uint8Array({ maxLength: 80 }),
  );
  const tuple = tupleOf(IDL.Record({ a: IDL.Opt(IDL.Nat), b: IDL.Vec(IDL.Variant({ x: IDL.Text, y: IDL.Null })) }));
  fc.assert(
    fc.property(bytes, fc.boolean(), (message, lossless) => {
      refusesCleanly(() => tuple.decode(message, { lossless }));
      refusesCleanly(() => codec.untyped.decode(message, { lossless: true }));
      refusesCleanly(() => codec.previewText(message, 100));
    }),
    { numRuns: cases(3_000) },
  );
});

test('damaged messages are refused cleanly or still make JSON', () => {
  fc.assert(
    fc.property(typedValues, fc.nat(), fc.nat(255), fc.nat(), ({ typeCase, value }, at, byte, cut) => {
      const message = Buffer.from(IDL.encode([typeCase.type], [value]));
      message[4 + (at % (message.length - 4))] = byte;
      const damaged = cut % 3 === 0 ? message.subarray(0, cut % message.length) : message;
      for (const lossless of [false, true]) {
        refusesCleanly(() => JSON.parse(text(tupleOf(typeCase.type).decode(damaged, { lossless }))));
      }
      refusesCleanly(() => JSON.parse(text(codec.untyped.decode(damaged, { lossless: true }))));
    }),
    { numRuns: cases(600) },
  );
});

test('damaged JSON is refused cleanly, and what is accepted is JSON', () => {
  fc.assert(
    fc.property(
      typedValues,
      fc.nat(),
      fc.constantFrom('"', '{', '}', '[', ']', ',', ':', '0', '-', 'e', '\\', 'u', '\n', '\u0000', 'ü'),
      fc.boolean(),
      ({ typeCase, value }, at, character, lossless) => {
        const json = serialize([lossless ? typeCase.toLossless(value) : typeCase.toDefault(value)]);
        const place = at % (json.length + 1);
        const damaged = json.slice(0, place) + character + json.slice(place + (at % 2));
        const tuple = tupleOf(typeCase.type);
        refusesCleanly(() => {
          tuple.encode(Buffer.from(damaged), { lossless });
          // If the text is accepted, the engine's own parser must accept it, too.
          assert.doesNotThrow(() => JSON.parse(damaged), damaged);
        });
        refusesCleanly(() => codec.untyped.encode(Buffer.from(damaged), { lossless: true }));
      },
    ),
    { numRuns: cases(1_000) },
  );
});

test('arbitrary text never crashes the parsers of interfaces and values', () => {
  const words = fc.constantFrom(
    'type',
    'service',
    'record',
    'variant',
    'opt',
    'vec',
    'func',
    'blob',
    'import',
    'query',
    'oneway',
    'nat',
    'T',
    'principal',
    'null',
    'true',
    '{',
    '}',
    '(',
    ')',
    ';',
    ':',
    ',',
    '=',
    '->',
    '.',
    '5',
    '-1',
    '0x',
    '1.5',
    '"a"',
    '"\\ff"',
    '//',
    '/*',
    '*/',
    '\n',
    '"',
  );
  fc.assert(
    fc.property(fc.array(words, { maxLength: 25 }), (parts) => {
      const source = parts.join(' ');
      refusesCleanly(() => codec.parseInterface(source));
      refusesCleanly(() => codec.parseInterface(`type T = ${source}; service : {}`));
      refusesCleanly(() => codec.encodeText(source));
      refusesCleanly(() => codec.encodeText(`(${source})`));
    }),
    { numRuns: cases(2_000) },
  );
});

test('any type may meet any other: the decoder coerces or says why not', () => {
  fc.assert(
    fc.property(typedValues, typeCases, fc.boolean(), ({ typeCase, value }, expected, lossless) => {
      const message = IDL.encode([typeCase.type], [value]);
      refusesCleanly(() => JSON.parse(text(tupleOf(expected.type).decode(message, { lossless }))));
      // Inside an opt, a value that does not fit is null, and never an error.
      const lenient = JSON.parse(text(tupleOf(IDL.Opt(expected.type)).decode(message, { lossless }))) as unknown[];
      assert.equal(lenient.length, 1);
    }),
    { numRuns: cases(500) },
  );
});
