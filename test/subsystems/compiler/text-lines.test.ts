import assert from 'node:assert/strict';
import { test } from 'node:test';
import { linesByFile, TextLines } from '../../../subsystems/compiler/text-lines.ts';

test('each place of a text is found as one finds it who reads from the beginning', () => {
  for (const text of ['', '\n', 'a', 'a\n', '\na', 'ä\r\n€b\n\n😀c', `${'x\n'.repeat(300)}end`]) {
    const lines = new TextLines(text);
    let line = 0;
    let byte = 0;
    for (let offset = 0; offset <= text.length; offset++) {
      // Offsets between the two units of a character are skipped.
      if (!/^[\udc00-\udfff]/.test(text.slice(offset)))
        assert.deepEqual([offset, lines.positionAt(offset)], [offset, { line, byte }]);
      assert.equal(lines.lineAt(offset), line);
      const character = text.slice(offset, offset + 1);
      byte += /[\ud800-\udbff]/.test(character)
        ? 4
        : /[\udc00-\udfff]/.test(character)
          ? 0
          : Buffer.byteLength(character);
      if (character !== '\n') continue;
      line++;
      byte = 0;
    }
    const expected = text.split('\n').map((known) => known.replace(/\r$/, ''));
    assert.deepEqual(
      Array.from({ length: line + 2 }, (_, at) => lines.textOf(at)),
      [...expected, undefined],
    );
  }
});

test('the lines of a file are looked for once', () => {
  const asked: string[] = [];
  const linesOf = linesByFile((file) => {
    asked.push(file);
    return file === 'A.mo' ? 'actor {}' : undefined;
  });
  assert.equal(linesOf('A.mo'), linesOf('A.mo'));
  assert.equal(linesOf('A.mo')?.textOf(0), 'actor {}');
  assert.equal(linesOf('B.mo'), undefined);
  assert.deepEqual(asked, ['A.mo', 'B.mo']);
});
