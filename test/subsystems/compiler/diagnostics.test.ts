import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderDiagnostic, renderDiagnostics } from '../../../subsystems/compiler/diagnostics.ts';
import type { Diagnostic, SourceView } from '../../../subsystems/compiler/diagnostics.ts';
import { linesByFile } from '../../../subsystems/compiler/text-lines.ts';

function view(text: string | undefined): SourceView {
  return { linesOf: linesByFile(() => text), displayName: (file) => `src/${file}` };
}

function fault(line: number, from: number, to: number, more: Partial<Diagnostic> = {}): Diagnostic {
  return {
    file: 'Main.mo',
    start: { line, byte: from },
    end: { line, byte: to },
    severity: 'error',
    category: 'type',
    code: 'M0050',
    message: 'wrong type',
    ...more,
  };
}

test('a diagnostic shows place, kind, code, message, the line and carets', () => {
  const shown = renderDiagnostic(fault(1, 6, 9), view('actor {\n  let abc = 1;\n}'));
  assert.equal(shown, 'src/Main.mo:2.7-2.10: type error [M0050] wrong type\n   2 |   let abc = 1;\n     |       ^^^');
});

test('columns count characters although the compiler counts bytes', () => {
  const line = 'é😀 = x';
  const shown = renderDiagnostic(fault(0, 9, 10), view(line));
  assert.equal(shown, `src/Main.mo:1.6-1.7: type error [M0050] wrong type\n   1 | ${line}\n     |      ^`);
});

test('tabs are widened so that the caret stays under its column', () => {
  const lines = renderDiagnostic(fault(0, 1, 2), view('\tx\t= 1')).split('\n');
  assert.deepEqual(lines.slice(1), ['   1 |     x    = 1', '     |     ^']);
});

test('a range over several lines is marked to the end of its first line', () => {
  const lines = renderDiagnostic(fault(0, 2, 0, { end: { line: 2, byte: 1 } }), view('a bcd\nefg\nh\n')).split('\n');
  assert.deepEqual(lines, ['src/Main.mo:1.3-3.2: type error [M0050] wrong type', '   1 | a bcd', '     |   ^^^']);
});

test('an empty range has one caret, and a place past the text none', () => {
  assert.match(renderDiagnostic(fault(0, 3, 3), view('abc')), /:1\.4: type error.*\n {3}1 \| abc\n {5}\| {4}\^$/u);
  assert.equal(renderDiagnostic(fault(9, 0, 1), view('abc')), 'src/Main.mo:10.1-10.2: type error [M0050] wrong type');
  assert.doesNotMatch(renderDiagnostic(fault(0, 0, 1), view(undefined)), /\n/u);
});

test('a very long line is cut around the fault', () => {
  const shown = renderDiagnostic(fault(0, 50_000, 50_003), view(`${'a'.repeat(50_000)}bcd${'e'.repeat(50_000)}`));
  const [, source = '', carets = ''] = shown.split('\n');
  assert.ok(source.length < 200);
  assert.equal(source.slice(carets.indexOf('^'), carets.lastIndexOf('^') + 1), 'bcd');
  assert.match(source, /\| …a+bcde+…$/u);
});

test('control characters of a source never reach the terminal', () => {
  const shown = renderDiagnostic(
    fault(0, 0, 1, { message: 'bad \u001b[2J' }),
    view('\u001b]0;title\u0007\u202e x\r\n'),
  );
  assert.doesNotMatch(shown.replaceAll('\n', ''), /[\u0000-\u001f\u202e]/u);
});

test('a line of megabytes is cut between characters, however many bytes they have', () => {
  const line = `x${'😀'.repeat(100_000)}`;
  const [headline, shown = '', carets] = renderDiagnostic(fault(0, 1 + 4 * 50_000, 1 + 4 * 50_002), view(line)).split(
    '\n',
  );
  assert.match(headline ?? '', /:1\.50002-1\.50004: /u);
  assert.equal(shown, `   1 | …${'😀'.repeat(160)}…`);
  assert.equal(carets, `     | ${' '.repeat(81)}^^`);
});

test('no more than a screenful of diagnostics is shown, and the rest counted', () => {
  const shown = renderDiagnostics(
    Array.from({ length: 60 }, () => fault(0, 0, 1)),
    view(undefined),
  ).split('\n');
  assert.equal(shown.length, 51);
  assert.equal(shown.at(-1), '… and 10 more');
  assert.match(renderDiagnostics([fault(0, 0, 1)], view(undefined), 3), /\n… and 2 more$/u);
});
