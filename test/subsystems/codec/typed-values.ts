import { IDL } from '@dfinity/candid';
import { Principal } from '@dfinity/principal';
import fc from '../../support/properties.ts';

/*
 * Random Candid types with random values of them: as @dfinity/candid takes them, and as JSON in both encodings, written
 * here a second time and independently of the codec.
 */

interface TypeCase {
  readonly type: IDL.Type;
  /** True if a value may print as null in the default encoding. */
  readonly isNullable: boolean;
  readonly values: fc.Arbitrary<unknown>;
  readonly toDefault: (value: unknown) => unknown;
  readonly toLossless: (value: unknown) => unknown;
}

const same = (value: unknown): unknown => value;

function mark(kind: string, value: unknown): unknown {
  return { $svc: kind, value };
}

function integerCase(name: string, type: IDL.Type, values: fc.Arbitrary<bigint>, isBig: boolean): TypeCase {
  return {
    type,
    isNullable: false,
    values: isBig ? values : values.map(Number),
    toDefault: (value) => {
      const number = BigInt(value as bigint | number);
      return number > 9007199254740991n || number < -9007199254740991n ? String(number) : Number(number);
    },
    toLossless: (value) => mark(name, String(value)),
  };
}

function bits(count: number): fc.Arbitrary<bigint> {
  return fc.oneof(
    fc.bigInt({ min: 0n, max: 2n ** BigInt(count) - 1n }),
    fc.constantFrom(0n, 1n, 2n ** BigInt(count) - 1n),
  );
}

function signedBits(count: number): fc.Arbitrary<bigint> {
  const half = 2n ** BigInt(count - 1);
  return fc.oneof(fc.bigInt({ min: -half, max: half - 1n }), fc.constantFrom(0n, -1n, -half, half - 1n));
}

function floatCase(name: string, type: IDL.Type, values: fc.Arbitrary<number>): TypeCase {
  const text = (value: unknown): string => (Object.is(value, -0) ? '-0' : shortest(name, value as number));
  return {
    type,
    isNullable: false,
    values,
    toDefault: (value) => (Number.isFinite(value) ? Number(text(value)) : String(value)),
    toLossless: (value) => mark(name, text(value)),
  };
}

/** Returns the shortest decimal that reads back as the same float, by trying every precision. */
function shortest(name: string, value: number): string {
  if (name === 'float64' || !Number.isFinite(value)) return String(value);
  for (let digits = 1; digits <= 9; digits++) {
    const candidate = Number(value.toPrecision(digits));
    if (Math.fround(candidate) === value) return String(candidate);
  }
  throw new Error('nine digits are always enough');
}

const principals = fc.uint8Array({ maxLength: 29 }).map((bytes) => Principal.fromUint8Array(bytes));
const principalText = (value: unknown): string => (value as Principal).toText();
const texts = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('"', '\\', '\u0000\u001f\n', '😀', '\u2028'),
);

const LEAVES: readonly TypeCase[] = [
  { type: IDL.Null, isNullable: true, values: fc.constant(null), toDefault: same, toLossless: same },
  {
    type: IDL.Reserved,
    isNullable: true,
    values: fc.constant(null),
    toDefault: same,
    toLossless: () => ({ $svc: 'reserved' }),
  },
  { type: IDL.Bool, isNullable: false, values: fc.boolean(), toDefault: same, toLossless: same },
  { type: IDL.Text, isNullable: false, values: texts, toDefault: same, toLossless: same },
  integerCase('nat', IDL.Nat, fc.oneof(bits(7), bits(54), bits(64), bits(400)), true),
  integerCase('int', IDL.Int, fc.oneof(signedBits(8), signedBits(54), signedBits(64), signedBits(400)), true),
  integerCase('nat8', IDL.Nat8, bits(8), false),
  integerCase('nat16', IDL.Nat16, bits(16), false),
  integerCase('nat32', IDL.Nat32, bits(32), false),
  integerCase('nat64', IDL.Nat64, bits(64), true),
  integerCase('int8', IDL.Int8, signedBits(8), false),
  integerCase('int16', IDL.Int16, signedBits(16), false),
  integerCase('int32', IDL.Int32, signedBits(32), false),
  integerCase('int64', IDL.Int64, signedBits(64), true),
  floatCase('float32', IDL.Float32, fc.float()),
  floatCase('float64', IDL.Float64, fc.double()),
  {
    type: IDL.Principal,
    isNullable: false,
    values: principals,
    toDefault: principalText,
    toLossless: (value) => mark('principal', principalText(value)),
  },
  {
    type: IDL.Service({}),
    isNullable: false,
    values: principals,
    toDefault: principalText,
    toLossless: (value) => mark('service', principalText(value)),
  },
  {
    type: IDL.Func([IDL.Nat], [IDL.Text], ['query']),
    isNullable: false,
    values: fc.tuple(principals, texts),
    toDefault: (value) => funcJson(value as [Principal, string]),
    toLossless: (value) => ({ $svc: 'func', ...funcJson(value as [Principal, string]) }),
  },
  {
    type: IDL.Vec(IDL.Nat8),
    isNullable: false,
    values: fc.uint8Array({ maxLength: 200 }),
    toDefault: (value) => base64(value),
    toLossless: (value) => mark('blob', base64(value)),
  },
];

function funcJson([principal, method]: [Principal, string]): { principal: string; method: string } {
  return { principal: principal.toText(), method };
}

function base64(value: unknown): string {
  return Buffer.from(value as Uint8Array).toString('base64');
}

function optOf(inner: TypeCase): TypeCase {
  return {
    type: IDL.Opt(inner.type),
    isNullable: true,
    values: fc.option(inner.values, { nil: undefined }).map((value) => (value === undefined ? [] : [value])),
    toDefault: (value) => {
      const list = (value as unknown[]).map(inner.toDefault);
      return inner.isNullable ? list : (list[0] ?? null);
    },
    toLossless: (value) =>
      (value as unknown[]).length === 0 ? { $svc: 'none' } : mark('some', inner.toLossless((value as unknown[])[0])),
  };
}

function vecOf(element: TypeCase): TypeCase {
  return {
    type: IDL.Vec(element.type),
    isNullable: false,
    values: fc.array(element.values, { maxLength: 4 }),
    toDefault: (value) => Array.from(value as unknown[], element.toDefault),
    toLossless: (value) => Array.from(value as unknown[], element.toLossless),
  };
}

type Fields = readonly (readonly [string, TypeCase])[];

function typesOf(fields: Fields): Record<string, IDL.Type> {
  return Object.fromEntries(fields.map(([label, field]) => [label, field.type]));
}

function recordOf(fields: Fields): TypeCase {
  const isTuple = fields.length > 0 && fields.every(([label], index) => label === `_${index}_`);
  const convert = (value: unknown, how: 'toDefault' | 'toLossless'): Record<string, unknown> =>
    Object.fromEntries(fields.map(([label, field]) => [label, field[how]((value as Record<string, unknown>)[label])]));
  return {
    type: IDL.Record(typesOf(fields)),
    isNullable: false,
    values: fc.record(Object.fromEntries(fields.map(([label, field]) => [label, field.values])), {
      noNullPrototype: true,
    }),
    toDefault: (value) => (isTuple ? Object.values(convert(value, 'toDefault')) : convert(value, 'toDefault')),
    toLossless: (value) => {
      const plain = convert(value, 'toLossless');
      return '$svc' in plain ? mark('record', plain) : plain;
    },
  };
}

function variantOf(fields: Fields): TypeCase {
  const chosen = (value: unknown): [string, unknown, TypeCase] => {
    const [[label, payload] = ['', null]] = Object.entries(value as Record<string, unknown>);
    const field = fields.find(([known]) => known === label)?.[1];
    if (field === undefined) throw new Error(`no tag ${label}`);
    return [label, payload, field];
  };
  return {
    type: IDL.Variant(typesOf(fields)),
    isNullable: false,
    values: fc.oneof(...fields.map(([label, field]) => field.values.map((value) => ({ [label]: value })))),
    toDefault: (value) => {
      const [label, payload, field] = chosen(value);
      return { [label]: field.toDefault(payload) };
    },
    toLossless: (value) => {
      const [label, payload, field] = chosen(value);
      return { $svc: 'variant', tag: label, value: field.toLossless(payload) };
    },
  };
}

const labels = fc.constantFrom(
  'a',
  'owner',
  'value',
  'tag',
  'two words',
  'quote"s',
  'back\\slash',
  'käse',
  '$svc',
  '_5_',
  '_4294967295_',
);

function fieldsOf(inner: fc.Arbitrary<TypeCase>, minLength: number): fc.Arbitrary<Fields> {
  return fc.uniqueArray(fc.tuple(labels, inner), { minLength, maxLength: 5, selector: ([label]) => label });
}

/** Types of every kind, nested. */
export const typeCases: fc.Arbitrary<TypeCase> = fc.letrec<{ type: TypeCase }>((tie) => ({
  type: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    fc.constantFrom(...LEAVES),
    tie('type').map(optOf),
    // A vec of bytes is a blob, which stands among the leaves.
    tie('type')
      .filter((element) => element.type !== IDL.Nat8)
      .map(vecOf),
    fieldsOf(tie('type'), 0).map(recordOf),
    fc
      .array(tie('type'), { minLength: 1, maxLength: 3 })
      .map((types) => recordOf(types.map((type, index) => [`_${index}_`, type]))),
    fieldsOf(tie('type'), 1).map(variantOf),
  ),
})).type;

/** A type with a value of it. */
export const typedValues = typeCases.chain((typeCase) =>
  fc.record({ typeCase: fc.constant(typeCase), value: typeCase.values }),
);
