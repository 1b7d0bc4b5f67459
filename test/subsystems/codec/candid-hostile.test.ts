import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { collectGarbage } from '../../../subsystems/threads/index.ts';
import { codec, bytes, codecOf, codecOfTuple, fromCandid, refuses, toCandid } from './support.ts';

/*
 * Hostile messages: each must end in an error within a moment, with little memory. The times allow for slow machines;
 * without the limits these messages run for minutes, exhaust the heap or overflow the stack.
 */

const MOMENT_MS = 100;
const MEMORY_BYTES = 64 * 1024 * 1024;

function leb(value: bigint | number): number[] {
  const out: number[] = [];
  let rest = BigInt(value);
  for (; rest > 127n; rest >>= 7n) out.push(Number(rest & 127n) | 128);
  return [...out, Number(rest)];
}

function sleb(value: number): number[] {
  return value < 64 ? [value] : [(value & 127) | 128, ...sleb(value >> 7)];
}

function message(
  table: readonly (readonly number[])[],
  types: readonly number[],
  values: readonly number[] | Uint8Array,
): Uint8Array {
  const head = [...Buffer.from('DIDL'), ...leb(table.length), ...table.flat(), ...leb(types.length), ...types];
  return new Uint8Array(Buffer.concat([Buffer.from(head), Buffer.from(values)]));
}

/** Runs it and checks CPU time and memory. */
function quickly(run: () => void): void {
  const before = process.memoryUsage();
  const start = process.threadCpuUsage();
  run();
  const { user, system } = process.threadCpuUsage(start);
  const took = (user + system) / 1000;
  const after = process.memoryUsage();
  assert.ok(took < MOMENT_MS, `took ${took.toFixed(0)} ms of CPU`);
  const grown = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
  assert.ok(grown < MEMORY_BYTES, `grew by ${grown} bytes`);
}

const VEC_NULL = [0x6d, 0x7f];
const VEC_RESERVED = [0x6d, 0x70];
const EMPTY_RECORD = [0x6c, 0x00];
const TWO_TO_40 = leb(2n ** 40n);

const BOMBS: readonly (readonly [title: string, message: Uint8Array, expected: RegExp])[] = [
  ['vec null of 2^40', message([VEC_NULL], [0], TWO_TO_40), /too many values/],
  ['vec reserved of 2^40', message([VEC_RESERVED], [0], TWO_TO_40), /too many values/],
  ['vec record {} of 2^40', message([[0x6d, 1], EMPTY_RECORD], [0], TWO_TO_40), /too many values/],
  [
    'vec of nested empty records',
    message([[0x6d, 1], [0x6c, 2, 0, 2, 1, 2], EMPTY_RECORD], [0], TWO_TO_40),
    /too many values/,
  ],
  [
    'vec opt null of 2^40',
    message(
      [
        [0x6d, 1],
        [0x6e, 0x7f],
      ],
      [0],
      TWO_TO_40,
    ),
    /only 0 bytes follow/,
  ],
  ['vec nat of 2^40', message([[0x6d, 0x7d]], [0], TWO_TO_40), /only 0 bytes follow/],
  ['blob of 2^40', message([[0x6d, 0x7b]], [0], TWO_TO_40), /ends within/],
  ['text of 2^40', message([], [0x71], TWO_TO_40), /ends within/],
  [
    'a vec of many vec null',
    message([[0x6d, 1], VEC_NULL], [0], [...leb(1_000), ...Array.from({ length: 1_000 }, () => leb(1_000_000)).flat()]),
    /too many values/,
  ],
  ['200,000 nested opt', message([[0x6e, 0]], [0], new Uint8Array(200_000).fill(1)), /nested deeper than 512/],
  ['200,000 nested vec', message([[0x6d, 0]], [0], new Uint8Array(200_000).fill(1)), /nested deeper than 512/],
  ['200,000 nested variants', message([[0x6b, 1, 0, 0]], [0], new Uint8Array(200_000)), /nested deeper than 512/],
  ['a record that contains itself', message([[0x6c, 1, 0, 0]], [0], []), /nested deeper than 512/],
  [
    'a vec of a record that contains itself',
    message(
      [
        [0x6d, 1],
        [0x6c, 1, 0, 1],
      ],
      [0],
      [5],
    ),
    /nested deeper than 512|only 0 bytes/,
  ],
  [
    'a type table of 2^32',
    new Uint8Array(Buffer.concat([Buffer.from('DIDL'), Buffer.from(leb(2n ** 32n))])),
    /4294967296 entries; at most 10000/,
  ],
  [
    'a type table of 200,000 opt',
    message(
      Array.from({ length: 200_000 }, (_, index) => [0x6e, ...sleb(index + 1)]),
      [0],
      [],
    ),
    /at most 10000/,
  ],
  ['2^32 fields', message([[0x6c, ...leb(2n ** 32n)]], [0], []), /more than 100000/],
  [
    '2^32 arguments',
    new Uint8Array(Buffer.concat([Buffer.from('DIDL\0'), Buffer.from(leb(2n ** 32n))])),
    /more than 100000/,
  ],
  [
    'a nat of 100,000 bytes',
    message([], [0x7d], new Uint8Array(100_000).fill(255)),
    /the number has more than 8192 bytes/,
  ],
  ['a length of 11 bytes', message([], [0x71], [...new Uint8Array(11).fill(128), 0]), /LEB128 of more than 10 bytes/],
  ['a length of 2^60', message([], [0x71], leb(2n ** 60n)), /is 2\^53 or more/],
  ['a type reference of 2^60', message([], [...leb(2n ** 60n)], []), /more than 53 bits/],
];

describe('bombs end at once', () => {
  const typed = codecOf('opt record { a : nat }');
  for (const [title, bomb, expected] of BOMBS) {
    test(`${title}, untyped`, () => {
      quickly(() => refuses(() => codec.untyped.decode(bomb, { lossless: true }), expected));
    });
    test(`${title}, as an argument that nobody expects`, () => {
      quickly(() => refuses(() => codecOfTuple('()').decode(bomb, { lossless: false }), /./));
    });
    test(`${title}, where an opt of something else is expected`, () => {
      quickly(() => refuses(() => typed.decode(bomb, { lossless: false }), /./));
    });
    test(`${title}, in a preview`, () => {
      quickly(() => assert.equal((codec.previewText(bomb, 256) ?? '').length <= 256, true));
    });
  }
});

test('many small opt values that do not fit are skipped in linear time', () => {
  const count = 60_000;
  const variants = message(
    [
      [0x6d, 1],
      [0x6e, 2],
      [0x6b, 2, 0, 0x7f, 1, 0x7f],
    ],
    [0],
    [...leb(count), ...Array.from({ length: count }, () => [1, 1]).flat()],
  );
  quickly(() => {
    const json = fromCandid(codecOf('vec opt variant { 0 }'), variants);
    assert.equal(json.length, count * 5 + 3);
  });
});

test('nested opt values whose innermost does not fit are not tried again at each level', () => {
  const depth = 250;
  const table = [...Array.from({ length: depth }, (_, index) => [0x6e, ...sleb(index + 1)]), [0x6b, 1, 9, 0x7f]];
  const nested = message(table, [0], [...Array.from({ length: depth }, () => 1), 0]);
  const tuple = codecOf(`${'opt '.repeat(depth)} variant { 8 }`);
  quickly(() => assert.equal(fromCandid(tuple, nested), `[${'['.repeat(depth - 1)}null${']'.repeat(depth - 1)}]`));
});

/** Returns this thread's CPU time, the least of three runs: other processes do not count. */
function cpuMs(work: () => unknown): number {
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < 3; run++) {
    const before = process.threadCpuUsage();
    work();
    const { user, system } = process.threadCpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}

test('a message of 256 KiB never takes the thread for long, whatever its types', () => {
  const size = 256 * 1024;
  const shapes: readonly (readonly [string, string, string])[] = [
    ['vec nat8', 'vec nat', '1,'],
    ['vec record { opt null }', 'vec record { opt null }', '[[]],'],
    [
      'records of names',
      'vec record { a_rather_long_name : nat8; another_rather_long_name : nat8 }',
      '{"a_rather_long_name":1,"another_rather_long_name":2},',
    ],
    ['texts', 'vec text', '"\\n",'],
    ['floats', 'vec float32', '0.1,'],
  ];
  for (const [title, type, element] of shapes) {
    const tuple = codecOf(type);
    const json = Buffer.from(`[[${element.repeat(Math.floor(size / element.length)).slice(0, -1)}]]`);
    const encoded = tuple.encode(json, { lossless: false });
    const encodeMs = cpuMs(() => tuple.encode(json, { lossless: false }));
    const decodeMs = cpuMs(() => tuple.decode(encoded, { lossless: true }));
    assert.ok(encodeMs < 150 && decodeMs < 300, `${title}: ${encodeMs.toFixed(0)} and ${decodeMs.toFixed(0)} ms`);
  }
});

describe('JSON made to hurt', () => {
  const deep = (open: string, close: string): string => `[${open.repeat(100_000)}${close.repeat(100_000)}]`;
  const list = codecOf('L', 'type L = record { next : opt L; rest : vec L; any : reserved };');
  const rows: readonly (readonly [string, () => unknown, RegExp])[] = [
    [
      '100,000 nested arrays for reserved',
      () => toCandid(codecOf('reserved'), deep('[', ']')),
      /nested deeper than 512/,
    ],
    ['100,000 nested objects, typed', () => toCandid(list, deep('{"rest":[', ']}')), /nested deeper than 512/],
    ['100,000 nested opt', () => toCandid(codecOf('T', 'type T = opt T;'), deep('[', ']')), /nested deeper than 512/],
    [
      '100,000 nested arrays, untyped',
      () => codec.untyped.encode(Buffer.from(deep('[', ']')), { lossless: true }),
      /nested deeper than 512/,
    ],
    [
      'a number of 200,000 digits',
      () => toCandid(codecOf('nat'), `[${'9'.repeat(200_000)}]`),
      /nat has 200000 digits; at most 17000/,
    ],
    [
      'a string of 200,000 digits',
      () => toCandid(codecOf('int'), `["-${'9'.repeat(200_000)}"]`),
      /int has 200001 digits; at most 17000/,
    ],
    [
      'a float of 200,000 digits',
      () => toCandid(codecOf('float64'), `[1e${'9'.repeat(200_000)}]`),
      /out of range for float64/,
    ],
  ];
  for (const [title, run, expected] of rows) {
    test(title, () => quickly(() => refuses(run, expected)));
  }

  test('a record of very many optional fields does not make small text large', () => {
    const fields = Array.from({ length: 5_000 }, (_, index) => `f${index} : opt nat`).join('; ');
    const tuple = codecOf(`vec record { ${fields} }`);
    // The first conversion compiles the 5,000 fields, which is not to be measured.
    toCandid(tuple, '[[{}]]');
    quickly(() => refuses(() => toCandid(tuple, `[[${'{},'.repeat(20_000)}{}]]`), /too many values/));
  });

  test('numbers as long as they may be are fast enough', () => {
    const number = '9'.repeat(17_000);
    const tuple = codecOf('vec nat');
    quickly(() => {
      const message15 = toCandid(tuple, `[[${Array.from({ length: 15 }, () => `"${number}"`).join()}]]`);
      assert.ok(fromCandid(tuple, message15).includes(number));
    });
  });
});

describe('malformed messages are refused with the reason', () => {
  const rows: readonly (readonly [string, string, RegExp])[] = [
    ['nothing', '', /it is empty/],
    ['another magic', '4449444d0000', /does not begin with DIDL/],
    ['only the magic', '4449444c', /ends within type table/],
    ['left-over bytes', '4449444c000000', /1 bytes are left over/],
    ['a bool of 2', '4449444c00017e02', /begins with the byte 2 instead of 0 or 1/],
    ['an opt of 2', '4449444c016e7d010002', /begins with the byte 2/],
    ['text that is not UTF-8', '4449444c00017101ff', /not UTF-8/],
    ['a surrogate in UTF-8', '4449444c00017103eda080', /not UTF-8/],
    ['a primitive in the type table', '4449444c017d0000', /-3, which is not a composite type/],
    ['a reference beyond the type table', '4449444c016e010100', /entry 1 of 1/],
    ['an unknown primitive', '4449444c000166', /-26 is not a primitive type/],
    ['field ids that do not increase', '4449444c016c02017d017d0000', /must increase/],
    ['a field id of 2^32', '4449444c016c0180808080107d0000', /not below 2\^32/],
    ['a variant index beyond its tags', '4449444c016b01007f010005', /tag 5, and only 1 tags exist/],
    ['a principal of 30 bytes', `4449444c000168011e${'00'.repeat(30)}`, /30 bytes; at most 29/],
    ['an opaque reference', '4449444c00016800', /opaque reference/],
    ['a value of type empty', '4449444c00016f', /type empty/],
    ['an unknown annotation', '4449444c016a0000010400', /unknown annotation 4/],
    ['methods that are not sorted', '4449444c026902016201016101 6a000000 0100', /must increase/],
    ['a method that is no function', '4449444c01690101617d00', /not a function/],
  ];
  for (const [title, message16, expected] of rows) {
    test(title, () =>
      refuses(() => codec.untyped.decode(bytes(message16), { lossless: true }), expected, 'bad-candid'),
    );
  }
});

test('types of later versions are skipped', () => {
  const future = bytes('4449444c 01 67 03 aabbcc 02 00 7d 02 00 ffff 05');
  assert.equal(fromCandid(codecOfTuple('(reserved, nat)'), future), '[null,5]');
  assert.equal(fromCandid(codecOfTuple('(opt text, nat)'), future), '[null,5]');
  refuses(
    () => fromCandid(codecOfTuple('(text, nat)'), future),
    /expected text, found a type of a later Candid version/,
  );
});

test('redundant LEB128 bytes are accepted', () => {
  assert.equal(fromCandid(codecOf('nat'), bytes('4449444c 8000 8100 7d 858000')), '[5]');
  assert.equal(fromCandid(codecOf('int'), bytes('4449444c 00 01 7c ffff7f')), '[-1]');
});

test('a bool of 2 is refused also where it is skipped', () => {
  refuses(() => fromCandid(codecOfTuple('(opt nat)'), bytes('4449444c 016e7e 0100 0102')), /instead of 0 or 1/);
});

describe('what costs more than its bytes say is paid for', () => {
  const quota = /there are too many values for a message of this length/;

  test('a service of thousands of methods that is compared with thousands of others', () => {
    const count = 1300;
    const others = Array.from({ length: count }, (_, k) => `${k} : opt service { a${k} : () -> () }`);
    const names = Array.from({ length: 36_000 }, (_, k) => k.toString(36).padStart(4, '0'));
    const table = [
      [0x6a, 0, 0, 0],
      [0x69, ...leb(names.length), ...names.flatMap((name) => [...leb(4), ...Buffer.from(name), 0])],
      [0x6c, ...leb(count), ...Array.from({ length: count }, (_, k) => [...leb(k), 1]).flat()],
    ];
    const values = Buffer.alloc(2 * count, Buffer.of(1, 0));
    const hostile = message(table, [2], values);
    const tuple = codecOf(`record { ${others.join('; ')} }`);
    refuses(() => fromCandid(tuple, hostile), quota, 'codec-quota');
  });

  /** Makes a record of null fields that is read as many others. */
  const spread = (readAs: number, fields: number) => {
    const table = [
      [0x6c, ...leb(fields), ...Array.from({ length: fields }, (_, k) => [...leb(k), 0x7f]).flat()],
      [0x6c, ...leb(readAs), ...Array.from({ length: readAs }, (_, k) => [...leb(k), 0]).flat()],
    ];
    const padding = Buffer.alloc(200_000, 'A');
    return message(table, [1, 0x71], Buffer.concat([Buffer.from(leb(padding.length)), padding]));
  };
  const reading = (count: number, mark: string) =>
    codecOf(
      `record { ${Array.from({ length: count }, (_, k) => `${k} : record { ${mark}${k} : opt nat }`).join('; ')} }`,
    );

  test('a record that is read as hundreds of others', () => {
    refuses(() => fromCandid(reading(900, 'x'), spread(900, 1800)), quota, 'codec-quota');
  });

  test('and what was made to read that many is not kept', () => {
    const hostile = spread(100, 1000);
    const tuples = Array.from({ length: 12 }, (_, k) => reading(100, `x${k}_`));
    collectGarbage('full');
    const before = process.memoryUsage().heapUsed;
    for (const tuple of tuples) fromCandid(tuple, hostile);
    collectGarbage('full');
    const grown = process.memoryUsage().heapUsed - before;
    assert.ok(grown < 12 * 2 ** 20, `${grown} bytes for ${tuples.length} types`);
  });
});
