import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { flagsDocument, helpText } from '../../config/help.ts';
import { flagsByName, variablesByName } from '../../config/flags.ts';
import { PARTS } from '../../config/parts.ts';

const options = { version: '0.1.0', width: 80, hasColor: false, parts: PARTS };

test('every flag and variable stands in the help text, with its default and unit', () => {
  const text = helpText(options).replaceAll(/\s+/g, ' ');
  for (const [name, flag] of flagsByName) {
    assert.ok(text.includes(`--${name}`), name);
    if (flag.defaultText !== undefined) assert.ok(text.includes(`Default: ${flag.defaultText}.`), name);
  }
  for (const name of variablesByName.keys()) assert.ok(text.includes(name), name);
  assert.match(text, /-l, --listen ADDR .* Default: 127\.0\.0\.1:7000\./);
  assert.match(text, /Default: 40,000,000,000 instructions\./);
});

test('only plugins that the server can do without are offered for turning off', () => {
  const text = helpText({
    ...options,
    parts: [
      { name: 'door', isOptional: true },
      { name: 'wall', isOptional: false },
    ],
  });
  assert.match(text, /--no-door/);
  assert.doesNotMatch(text, /--no-wall/);
});

test('lines keep to the width of the terminal, within reason', () => {
  for (const [width, longest] of [
    [20, 60],
    [80, 80],
    [400, 110],
  ] as const) {
    for (const line of helpText({ ...options, width }).split('\n')) assert.ok(line.length <= longest, line);
  }
});

test('colours are only added, and only when asked for', () => {
  const plain = helpText(options);
  const colored = helpText({ ...options, hasColor: true });
  assert.ok(!plain.includes('\u001b'));
  assert.ok(colored.includes('\u001b['));
  assert.equal(stripVTControlCharacters(colored), plain);
});

test('docs/flags.md is what the declarations say', (t) => {
  const file = join(import.meta.dirname, '../../docs/flags.md');
  t.assert.fileSnapshot(flagsDocument(PARTS), file, { serializers: [(text) => String(text).trimEnd()] });
});
