import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc, { cases } from '../../support/properties.ts';
import { JsonSyntaxError, placeOf, readJson } from '../../../subsystems/manifest/positioned-json.ts';
import type { JsonNode } from '../../../subsystems/manifest/positioned-json.ts';
import { startCpuTimer } from '../../support/cpu-timer.ts';

/** Returns the value that `JSON.parse` would return. */
function valueOf(node: JsonNode): unknown {
  switch (node.kind) {
    case 'object': {
      const members = node.members.map(({ key, value }): [string, unknown] => [key.value, valueOf(value)]);
      return Object.fromEntries(members);
    }
    case 'array':
      return node.items.map(valueOf);
    case 'string':
      return node.value;
    case 'number':
      return Number(node.text);
    case 'true':
    case 'false':
      return node.kind === 'true';
    case 'null':
      return null;
  }
}

function faultOf(text: string): string {
  try {
    readJson(text);
  } catch (error) {
    assert.ok(error instanceof JsonSyntaxError, String(error));
    const { line, column } = placeOf(text, error.offset);
    return `${line}:${column} ${error.message}`;
  }
  return assert.fail(`accepted ${text}`);
}

test('any JSON value is read as JSON.parse reads it', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
      const text = JSON.stringify(value, undefined, indent);
      // Both sides go through one more round trip, which removes -0 and problems of __proto__.
      assert.equal(JSON.stringify(valueOf(readJson(text))), JSON.stringify(JSON.parse(text)));
    }),
  );
});

test('arbitrary text is accepted exactly where JSON.parse accepts it', () => {
  const piece = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"a"',
    '"',
    '\\',
    '1',
    '-',
    '0',
    '.5',
    'e3',
    'true',
    'nul',
    ' ',
    '\n',
    '//',
    'é',
    '\u0000',
  );
  const accepts = (parse: (text: string) => unknown, text: string): boolean => {
    try {
      parse(text);
      return true;
    } catch (error) {
      assert.ok(error instanceof JsonSyntaxError || error instanceof SyntaxError, String(error));
      return false;
    }
  };
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const text = pieces.join('');
      assert.equal(
        accepts(readJson, text),
        accepts((json) => JSON.parse(json) as unknown, text),
        text,
      );
    }),
    { numRuns: cases(2000) },
  );
});

test('every node knows where it stands, and numbers keep their digits', () => {
  const text = '{ "a": [123456789012345678901234567890.50, "\\u00e9"] }';
  const root = readJson(text);
  assert.ok(root.kind === 'object');
  const [member] = root.members;
  assert.equal(text.slice(member?.key.start, member?.key.end), '"a"');
  assert.equal(text.slice(member?.value.start, member?.value.end), '[123456789012345678901234567890.50, "\\u00e9"]');
  assert.ok(member?.value.kind === 'array');
  const [number, string] = member.value.items;
  assert.ok(number?.kind === 'number' && string?.kind === 'string');
  assert.equal(number.text, '123456789012345678901234567890.50');
  assert.equal(string.value, 'é');
});

test('both of two equal keys are kept', () => {
  const root = readJson('{"a":1,"a":2}');
  assert.equal(root.kind === 'object' ? root.members.length : 0, 2);
});

test('what is not JSON is named at its place', () => {
  for (const [text, fault] of [
    ['', '1:1 the file is empty'],
    ['\n\n  {', '3:4 the file ends inside an object; expected a key or "}"'],
    ['{"a":', '1:6 the file ends where a value is expected'],
    ['{"a":1,}', '1:7 a comma before "}" is not allowed'],
    ['{\n "a": 1\n "b": 2}', '3:2 expected a comma or "}"'],
    ['[1 // one\n]', '1:4 comments are not allowed in JSON'],
    ['[1', '1:3 the file ends inside an array; expected a comma or "]"'],
    ["{'a':1}", '1:2 expected a key in double quotes'],
    ["['a']", '1:2 strings stand in double quotes'],
    ['{a:1}', '1:2 expected a key in double quotes'],
    ['{"a" 1}', '1:6 expected a colon after the key'],
    ['[hello]', '1:2 hello is not a JSON value; text stands in double quotes'],
    ['[01]', '1:2 01 is not a JSON value'],
    ['[+1]', '1:2 +1 is not a JSON value'],
    ['[NaN]', '1:2 NaN is not a JSON value'],
    ['"C:\\dir"', '1:4 unknown escape in a string; a backslash is written \\\\'],
    ['["é\n"]', '1:4 the string is not closed'],
    ['"\u0001"', '1:2 a control character stands in a string; escape it'],
    ['["\\ud800"]', '1:2 the string holds half of a surrogate pair'],
    ['{} {}', '1:4 nothing may follow'],
    ['['.repeat(600), '1:514 nested more than 512 deep'],
  ] as const) {
    assert.ok(faultOf(text).startsWith(fault), `${text.slice(0, 30)}: ${faultOf(text)}`);
  }
});

test('hostile input takes no time', () => {
  const cpuMs = startCpuTimer();
  faultOf('['.repeat(5_000_000));
  faultOf(`"${'a'.repeat(5_000_000)}`);
  readJson(`[${'{"a":[]},'.repeat(200_000)}1]`);
  readJson(`["${'\\u0041'.repeat(500_000)}"]`);
  assert.ok(cpuMs() < 3000);
});
