import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { codecOfTuple, fromCandid, refuses, toCandid } from './support.ts';

/** Wire types, a value of them, the expected types, and the value read as those: JSON, or an error. */
const ROWS: readonly (readonly [wire: string, json: string, expected: string, result: string | RegExp])[] = [
  ['nat', '5', 'int', '5'],
  ['int', '5', 'nat', /expected nat, found int/],
  ['nat8', '5', 'nat', /expected nat, found nat8/],
  ['service {}', '"aaaaa-aa"', 'principal', '"aaaaa-aa"'],
  ['principal', '"aaaaa-aa"', 'service {}', /expected service, found principal/],
  ['text', '"x"', 'reserved', 'null'],
  ['null', 'null', 'opt nat', 'null'],
  ['reserved', 'null', 'opt nat', 'null'],
  ['nat', '5', 'opt nat', '5'],
  ['nat', '5', 'opt opt nat', '[5]'],
  ['nat', '5', 'opt text', 'null'],
  ['opt nat', '5', 'opt int', '5'],
  ['opt nat', '5', 'opt text', 'null'],
  ['opt nat', 'null', 'opt text', 'null'],
  ['opt nat', '5', 'nat', /expected nat, found opt/],
  ['opt opt nat', '[5]', 'opt nat', 'null'],
  ['null', 'null', 'null', 'null'],
  ['nat', '5', 'null', /expected null, found nat/],
  ['record { a : nat; b : text }', '{"a":1,"b":"x"}', 'record { a : nat }', '{"a":1}'],
  [
    'record { a : nat }',
    '{"a":1}',
    'record { a : nat; b : opt text; c : null; d : reserved }',
    '{"a":1,"b":null,"c":null,"d":null}',
  ],
  ['record { a : nat }', '{"a":1}', 'record { a : nat; b : text }', /the field "b" is missing/],
  ['record { nat; text }', '[1,"x"]', 'record { nat }', '[1]'],
  ['record { a : nat }', '{"a":1}', 'record { a : opt text }', '{"a":null}'],
  ['variant { a }', '"a"', 'variant { a; b : nat }', '{"a":null}'],
  ['variant { a; b : nat }', '{"b":1}', 'variant { a }', /the tag _98_ is not one of the expected type/],
  ['opt variant { a; b : nat }', '{"b":1}', 'opt variant { a }', 'null'],
  ['vec opt variant { a; b : nat }', '[{"b":1},"a",null]', 'vec opt variant { a }', '[null,{"a":null},null]'],
  [
    'opt record { x : vec variant { a; b : nat } }',
    '{"x":["a",{"b":1}]}',
    'opt record { x : vec variant { a } }',
    'null',
  ],
  [
    'opt record { x : opt variant { b : nat }; y : nat }',
    '{"x":{"b":1},"y":2}',
    'opt record { x : opt variant { a }; y : nat }',
    '{"x":null,"y":2}',
  ],
  ['vec nat', '[1,2]', 'vec int', '[1,2]'],
  ['vec nat', '[]', 'vec text', '[]'],
  ['vec nat', '[1]', 'vec text', /^args\[0\]\[0\]: expected text, found nat$/],
  ['vec nat', '[1]', 'blob', /expected a blob/],
  ['vec empty', '[]', 'blob', '""'],
  ['blob', '"AQI="', 'vec opt nat8', '[1,2]'],
  [
    'func (nat) -> (nat)',
    '{"principal":"aaaaa-aa","method":"m"}',
    'func (nat) -> (int)',
    '{"principal":"aaaaa-aa","method":"m"}',
  ],
  [
    'func (int) -> ()',
    '{"principal":"aaaaa-aa","method":"m"}',
    'func (nat) -> ()',
    '{"principal":"aaaaa-aa","method":"m"}',
  ],
  ['func (nat) -> ()', '{"principal":"aaaaa-aa","method":"m"}', 'func (int) -> ()', /another signature/],
  ['func () -> () query', '{"principal":"aaaaa-aa","method":"m"}', 'func () -> ()', /another signature/],
  ['func () -> () query', '{"principal":"aaaaa-aa","method":"m"}', 'opt func () -> ()', 'null'],
  [
    'func () -> (nat)',
    '{"principal":"aaaaa-aa","method":"m"}',
    'func (text) -> (nat, opt text)',
    '{"principal":"aaaaa-aa","method":"m"}',
  ],
  ['service { a : () -> (); b : () -> () }', '"aaaaa-aa"', 'service { a : () -> () }', '"aaaaa-aa"'],
  ['service { a : () -> () }', '"aaaaa-aa"', 'service { a : () -> (); b : () -> () }', /another signature/],
  [
    'func (S) -> ()',
    '{"principal":"aaaaa-aa","method":"m"}',
    'func (S) -> ()',
    '{"principal":"aaaaa-aa","method":"m"}',
  ],
];

describe('a value on the wire reads as the expected type, by the rules of Candid', () => {
  const definitions = 'type S = record { next : opt S; f : func (S) -> (S) };';
  for (const [wire, json, expected, result] of ROWS) {
    test(`${wire} ${json} as ${expected}`, () => {
      const message = toCandid(codecOfTuple(`(${wire})`, definitions), `[${json}]`);
      const tuple = codecOfTuple(`(${expected})`, definitions);
      if (typeof result === 'string') assert.equal(fromCandid(tuple, message), `[${result}]`);
      else refuses(() => fromCandid(tuple, message), result, 'bad-candid');
    });
  }
});

describe('arguments coerce like a tuple', () => {
  const message = toCandid(codecOfTuple('(nat, text)'), '[1,"x"]');
  test('extra ones are skipped', () => assert.equal(fromCandid(codecOfTuple('(nat)'), message), '[1]'));
  test('missing ones are null where that is allowed', () => {
    assert.equal(fromCandid(codecOfTuple('(nat, text, opt nat, null, reserved)'), message), '[1,"x",null,null,null]');
    assert.equal(fromCandid(codecOfTuple('(nat, text, opt opt nat)'), message), '[1,"x",[]]');
  });
  test('missing ones are an error otherwise', () => {
    refuses(() => fromCandid(codecOfTuple('(nat, text, nat)'), message), 'args: expected 3 values, found 2');
  });
});

test('messages with other heads between them do not disturb each other', () => {
  const tuple = codecOfTuple('(opt nat)');
  const asNat = toCandid(codecOfTuple('(nat)'), '[1]');
  const asOpt = toCandid(codecOfTuple('(opt nat)'), '[2]');
  const asText = toCandid(codecOfTuple('(text)'), '["x"]');
  for (let round = 0; round < 3; round++) {
    assert.equal(fromCandid(tuple, asNat), '[1]');
    assert.equal(fromCandid(tuple, asOpt), '[2]');
    assert.equal(fromCandid(tuple, asText), '[null]');
  }
});
