/** Changes that the page makes to texts before it shows or copies them. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';
import fc from '../../../support/properties.ts';
import { stateOf } from '../../../../subsystems/inspector/page/actor-state.ts';
import { plainText, styledPieces } from '../../../../subsystems/inspector/page/ansi.ts';
import { errorOf } from '../../../../subsystems/inspector/page/api-errors.ts';
import { nameFields } from '../../../../subsystems/inspector/page/candid/name-fields.ts';
import { curlCommand } from '../../../../subsystems/inspector/page/curl.ts';
import { EventStream } from '../../../../subsystems/inspector/page/event-stream.ts';
import {
  bytesText,
  durationText,
  groupedText,
  largeText,
  rateText,
  timeText,
} from '../../../../subsystems/inspector/page/format.ts';
import { inertText } from '../../../../subsystems/inspector/page/inert-text.ts';
import { layoutJson } from '../../../../subsystems/inspector/page/json-layout.ts';
import {
  drawnLines,
  NO_OUTPUT,
  type Output,
  outputAfter,
  outputText,
  type PrintedLine,
  withOutput,
} from '../../../../subsystems/inspector/page/output-lines.ts';
import { hashOf, placeOf } from '../../../../subsystems/inspector/page/place.ts';

suite('texts of actors', () => {
  test('what has no sign of its own gets one: escapes, marks of direction, zero widths, lone surrogates', () => {
    assert.equal(inertText('\u001b[31mred\u0007\u007f'), '⟨ESC⟩[31mred⟨BEL⟩⟨DEL⟩');
    assert.equal(inertText('\u001b]8;;http://evil.example\u001b\\click'), '⟨ESC⟩]8;;http://evil.example⟨ESC⟩\\click');
    assert.equal(inertText('a\u202eb\u200bc\u2066'), 'a⟨U+202E⟩b⟨U+200B⟩c⟨U+2066⟩');
    assert.equal(inertText('\u009b31m'), '⟨U+009B⟩31m');
    assert.equal(inertText('x\ud800y😀'), 'x�y😀');
    assert.equal(inertText('tag\u{e0041}'), 'tag⟨U+E0041⟩');
  });

  test('letters without ink are written out', () => {
    assert.equal(
      inertText('a\u3164\u115f\u1160\uffa0\u2800\u034fb'),
      'a⟨U+3164⟩⟨U+115F⟩⟨U+1160⟩⟨U+FFA0⟩⟨U+2800⟩⟨U+034F⟩b',
    );
    assert.equal(inertText('한글 ❤️ שלום'), '한글 ❤️ שלום');
  });

  test('line feeds and tabs stay only where a text may have lines', () => {
    assert.equal(inertText('a\n\tb\r'), 'a⟨LF⟩⟨HT⟩b⟨CR⟩');
    assert.equal(inertText('a\n\tb\r', { hasLines: true }), 'a\n\tb⟨CR⟩');
  });

  test('markup stays text', () => {
    assert.equal(inertText('<img src=x onerror=alert(1)>'), '<img src=x onerror=alert(1)>');
  });
});

function laidOut(text: string): string | undefined {
  return layoutJson(text)
    ?.map((token) => token.text)
    .join('');
}

suite('JSON in lines', () => {
  test('what fits stays in one line, the rest is indented', () => {
    assert.equal(laidOut('[ 1,2 , {"a":null}]'), '[1, 2, {"a": null}]');
    const long = `"${'x'.repeat(80)}"`;
    assert.equal(
      laidOut(`{"a":[1,${long}],"b":{},"c":[]}`),
      `{\n  "a": [\n    1,\n    ${long}\n  ],\n  "b": {},\n  "c": []\n}`,
    );
  });

  test('numbers and keys are left as they are', () => {
    assert.equal(laidOut('[-0, 1e400, 123456789012345678901]'), '[-0, 1e400, 123456789012345678901]');
    assert.equal(laidOut('{"2":1,"1":2,"__proto__":3}'), '{"2": 1, "1": 2, "__proto__": 3}');
  });

  test('keys, strings, numbers and words are told apart', () => {
    const kinds = layoutJson('{"k":["s",1,true]}')?.filter(({ kind }) => kind !== 'sign' && kind !== 'space');
    assert.deepEqual(
      kinds?.map(({ kind, text }) => [kind, text]),
      [
        ['key', '"k"'],
        ['string', '"s"'],
        ['number', '1'],
        ['word', 'true'],
      ],
    );
  });

  test('any JSON keeps its meaning, and no line that could be broken is long', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const text = laidOut(JSON.stringify(value));
        assert.ok(text !== undefined);
        assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  test('deep nesting takes linear time', () => {
    const depth = 100_000;
    assert.ok(laidOut(`${'['.repeat(depth)}${']'.repeat(depth)}`) !== undefined);
  });

  test('what is no JSON is left to be shown as it is', () => {
    for (const text of ['[1', ']', '{"a":1}}', 'hello world!', '<html>']) assert.equal(laidOut(text), undefined, text);
  });
});

suite('server-sent events', () => {
  const source =
    ': hello\n\nid: 1\nevent: debug\ndata: a\ndata:b\n\n: ping\r\n\r\nid: 2\r\ndata:  c\r\n\r\nid: 3\ndata: not yet';
  const expected = [
    { id: '1', type: 'debug', data: 'a\nb' },
    { id: '2', type: 'message', data: ' c' },
  ];

  test('events come out as they are completed, however the text is cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: source.length }), { maxLength: 10 }), (cuts) => {
        const stream = new EventStream();
        const places = [0, ...cuts.toSorted((left, right) => left - right), source.length];
        const events = places.slice(1).flatMap((end, index) => [...stream.push(source.slice(places[index], end))]);
        assert.deepEqual(events, expected);
      }),
    );
  });

  test('an event without an end is refused at its bound', () => {
    const stream = new EventStream();
    assert.throws(() => {
      for (let pieces = 0; pieces < 70; pieces++) for (const _event of stream.push('x'.repeat(1024 * 1024)));
    }, /without an end/);
  });
});

suite('the command for a call', () => {
  const request = { actor: 'a', method: 'm', isQuery: false, isLossless: false, caller: '', json: '[]' };

  /** Returns the arguments that a shell hands to curl. */
  function argumentsOf(command: string): readonly string[] {
    const script = `curl() { for part in "$@"; do printf '%s\\0' "$part"; done; }\n${command}`;
    const output = execFileSync('sh', ['-c', script], { env: { SVC_TOKEN: 'secret' }, encoding: 'utf8' });
    return output.split('\0').slice(0, -1);
  }

  test('a shell takes it apart into exactly what was called, whatever the names and arguments hold', () => {
    const json = `["it's $(id) \`id\` \\\\ \\"x\\" !!"]`;
    const command = curlCommand(
      'http://127.0.0.1:7000',
      { ...request, method: `a b'/\n?`, json, caller: `x'; id` },
      true,
    );
    assert.deepEqual(argumentsOf(command), [
      '-X',
      'POST',
      '-H',
      'Authorization: Bearer secret',
      '-H',
      "x-caller: x'; id",
      '--data-raw',
      json,
      "http://127.0.0.1:7000/call-json/a/a%20b'%2F%0A%3F",
    ]);
  });

  test('queries and the lossless encoding go to their routes, and the token only where there is one', () => {
    const command = curlCommand('http://h', { ...request, isQuery: true, isLossless: true }, false);
    assert.deepEqual(argumentsOf(command), ['-X', 'POST', '--data-raw', '[]', 'http://h/query-json/a/m?lossless=1']);
  });
});

suite('small texts', () => {
  test('numbers for people', () => {
    assert.deepEqual([0, 1023, 1536, 5_305_139, 3 * 1024 ** 3].map(bytesText), [
      '0 B',
      '1023 B',
      '1.5 KiB',
      '5.06 MiB',
      '3 GiB',
    ]);
    assert.deepEqual([0, 999, 12_345, 99_999_969_773_702].map(largeText), ['0', '999', '12.35 k', '100 T']);
    assert.deepEqual([0, 0.01, 3.64, 1234].map(rateText), ['0/s', '<0.1/s', '3.64/s', '1.234 k/s']);
    assert.deepEqual([0.2, 12, 1500, 90_000, 7_200_000, 200_000_000].map(durationText), [
      '<1 ms',
      '12 ms',
      '1.5 s',
      '1 min',
      '2 h',
      '2 d',
    ]);
    assert.equal(groupedText('1234567'), '1\u202f234\u202f567');
  });

  test('numbers keep their size: what is rounded up to a whole step is one of the next unit', () => {
    assert.deepEqual([999.6, 999_949, 999_999, 999_999_410_000, 1_000_000, 1_010_000, 1e21].map(largeText), [
      '1 k',
      '999.9 k',
      '1 M',
      '1 T',
      '1 M',
      '1.01 M',
      '1000 E',
    ]);
    assert.deepEqual([1023.9, 1024 ** 2 - 1, 10 * 1024].map(bytesText), ['1 KiB', '1 MiB', '10 KiB']);
    assert.equal(durationText(999.7), '1 s');
    const sizeOf = (text: string, units: readonly string[], step: number): number => {
      const [digits = '', unit = units[0]] = text.split(' ');
      assert.ok(Number(digits) < step, text);
      return Number(digits) * step ** units.indexOf(unit ?? '');
    };
    fc.assert(
      fc.property(fc.double({ min: 1, max: 9e20, noNaN: true }), (value) => {
        const shown = sizeOf(largeText(value), ['', 'k', 'M', 'G', 'T', 'P', 'E'], 1000);
        assert.ok(Math.abs(shown / value - 1) < 0.005, `${value}: ${largeText(value)}`);
      }),
    );
    fc.assert(
      fc.property(fc.double({ min: 1, max: 1024 ** 5 - 1e12, noNaN: true }), (value) => {
        const shown = sizeOf(bytesText(value), ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
        assert.ok(Math.abs(shown / value - 1) < 0.005, `${value}: ${bytesText(value)}`);
      }),
    );
  });

  test('the state of an actor: one that ran dry is not shown as running', () => {
    const running = { status: 'running', live: true, dry: false };
    assert.equal(stateOf(running), 'running');
    assert.equal(stateOf({ ...running, dry: true }), 'dry');
    assert.equal(stateOf({ ...running, live: false }), 'asleep');
    assert.equal(stateOf({ ...running, live: false, dry: true }), 'dry');
    assert.equal(stateOf({ ...running, status: 'stopping', dry: true }), 'stopping');
  });

  test('a time has its date, unless that is today', () => {
    const at = new Date(2026, 10, 5, 7, 8, 9, 12);
    assert.equal(timeText(at.toISOString(), at.getTime() + 1000), '07:08:09.012');
    assert.equal(timeText(at.toISOString(), at.getTime() + 86_400_000), '2026-11-05 07:08:09.012');
    assert.equal(timeText('soon', 0), undefined);
  });

  test('the place in the address survives names of any kind', () => {
    const shared = { args: '["#/%"]', lossless: true, caller: 'aaaaa-aa' };
    const place = { actor: 'a/b %', tab: 'call', method: 'm#?/', shared } as const;
    assert.deepEqual(placeOf(hashOf(place.actor, place.tab, place.method, shared)), place);
    assert.deepEqual(placeOf('#/x/nonsense'), { actor: 'x', tab: 'overview', method: undefined, shared: undefined });
    assert.deepEqual(placeOf('#/%zz'), { actor: '%zz', tab: 'overview', method: undefined, shared: undefined });
    assert.deepEqual(placeOf(''), { actor: undefined, tab: 'overview', method: undefined, shared: undefined });
  });

  test('an error says what the server said, in whichever form', () => {
    assert.equal(errorOf(404, '{"code":404,"message":"no such actor"}').message, 'no such actor');
    assert.deepEqual(errorOf(400, '{"code":5,"message":"trapped","logs":["a","b"]}').logs, ['a', 'b']);
    assert.equal(errorOf(400, '{"code":400,"message":"no"}').report, undefined);
    assert.equal(
      errorOf(400, '{"upgraded":false,"persistence":"keep","code":400,"message":"no"}').report?.persistence,
      'keep',
    );
    assert.equal(errorOf(503, 'starting: reading').message, 'starting: reading');
    assert.equal(errorOf(500, '').message, 'the server answered 500');
    assert.equal(errorOf(500, 'null').message, 'null');
  });
});

suite('arguments in the history', () => {
  const names = new Map([
    [789_114_462, 'customer'],
    [2_127_366_524, 'pickup'],
    [5, 'odd "name"'],
  ]);

  test('ids get their names, but not in texts and values', () => {
    assert.equal(
      nameFields('(record { 789114462 = "5 = 789114462 = \\" x"; 5 = 789114462 : nat; 7 = null })', names),
      '(record { customer = "5 = 789114462 = \\" x"; "odd \\"name\\"" = 789114462 : nat; 7 = null })',
    );
    assert.equal(nameFields('variant { 2127366524 }', names), 'variant { pickup }');
    assert.equal(nameFields('vec { 5 }', names), 'vec { 5 }');
  });

  test('a text that was cut is still a text', () => {
    assert.equal(nameFields('(record { 789114462 = "5 = x', names), '(record { customer = "5 = x');
  });
});

suite('debug output', () => {
  /** Returns the drawn texts. */
  const drawn = (output: Output, search = ''): readonly string[] =>
    drawnLines(output, search).lines.map(({ text }) => text);
  /** Returns the output with further texts, whose numbers go on. */
  const withTexts = (output: Output, texts: readonly string[]): Output => {
    const last = Number(output.last.split('-')[1] ?? 0);
    return withOutput(
      output,
      texts.map((text, index) => printed(last + index + 1, { text })),
    );
  };
  const printed = (seq: number, more: Partial<PrintedLine> = {}): PrintedLine => ({
    id: `p-${seq}`,
    seq,
    time: '2026-01-01T00:00:00.000Z',
    message: null,
    text: `line ${seq}`,
    ...more,
  });

  test('what was printed at once is drawn in its lines, each with a key of its own', () => {
    const output = withTexts(withTexts(NO_OUTPUT, ['a\n\nb', '']), ['c\n']);
    assert.deepEqual(drawn(output), ['a', '', 'b', '', 'c', '']);
    assert.equal(outputText(output), 'a\n\nb\n\nc\n');
    assert.equal(new Set(drawnLines(output).lines.map(({ key }) => key)).size, 6);
    assert.deepEqual([output.lines, output.lost], [6, 0]);
  });

  test('the newest lines are drawn, within bounds of lines and of characters; all are kept for copying', () => {
    const many = withTexts(
      withTexts(NO_OUTPUT, ['first']),
      Array.from({ length: 16_000 }, (_line, index) => `line ${index}`),
    );
    assert.deepEqual([drawn(many).length, drawn(many)[0], many.lines, many.lost], [2_000, 'line 14000', 16_001, 0]);
    assert.match(outputText(many), /^first\nline 0\n[^]*\nline 15999$/);
    const keys = new Set(drawnLines(many).lines.map(({ key }) => key));
    assert.equal(drawnLines(withTexts(many, ['new'])).lines.filter(({ key }) => keys.has(key)).length, 1_999);
    assert.equal(drawn(withTexts(many, new Array<string>(150).fill('y'.repeat(10_000)))).length, 100);
    assert.deepEqual(drawn(withTexts(many, ['\n'.repeat(1_000_000)])), new Array<string>(2_000).fill(''));
  });

  test('lines that are searched are found in either case, behind colours, and counted beyond those that are drawn', () => {
    const output = withTexts(NO_OUTPUT, [
      ...Array.from({ length: 5_000 }, (_line, index) => (index % 2 === 0 ? `Even\nrest ${index}` : 'odd')),
      'x\u001b[31mev\u001b[0men',
    ]);
    const { lines, found } = drawnLines(output, 'EVEN');
    assert.deepEqual([lines.length, found, lines[0]?.text], [2_000, 2_501, 'Even']);
    assert.equal(lines.at(-1)?.text, 'x\u001b[31mev\u001b[0men');
    assert.deepEqual(drawn(output, 'rest 4998'), ['rest 4998']);
    assert.deepEqual(drawn(output, '31m'), []);
  });

  test('what is missing is told where it is missing', () => {
    const gaps = (output: Output): readonly unknown[] =>
      drawnLines(output)
        .lines.map(({ gap }) => gap)
        .filter((gap) => gap !== 0);
    const first = withOutput(NO_OUTPUT, [printed(1), printed(2)]);
    assert.deepEqual(gaps(first), []);
    assert.deepEqual(gaps(withOutput(NO_OUTPUT, [printed(4), printed(5)])), [3]);
    assert.deepEqual(gaps(withOutput(first, [printed(3), printed(9, { text: 'a\nb' }), printed(10)])), [5]);
    const again = withOutput(first, [
      { ...printed(1), id: 'q-1' },
      { ...printed(2), id: 'q-2' },
    ]);
    assert.deepEqual([gaps(again), again.last], [['restart'], 'q-2']);
    assert.deepEqual(gaps(withOutput(outputAfter('p-7'), [printed(8)])), []);
  });

  test('the time stands in front of a print, not of each of its lines', () => {
    const times = drawnLines(withOutput(NO_OUTPUT, [printed(1, { text: 'a\nb' })])).lines.map(({ time }) => time);
    assert.deepEqual(times, ['2026-01-01T00:00:00.000Z', '']);
  });

  test('a long line is drawn in part, and says so; copied it is whole', () => {
    const output = withTexts(NO_OUTPUT, [`a\n${'z'.repeat(1_000_000)}`]);
    assert.match(drawn(output)[1] ?? '', /^z{10000}… and 990000 more characters$/);
    assert.equal(outputText(output).length, 1_000_002);
  });

  test('what there is no room for is counted', () => {
    const mebibyte = 'x'.repeat(1024 * 1024 - 1);
    const full = withTexts(NO_OUTPUT, ['a\nb', 'c', ...new Array<string>(4).fill(mebibyte)]);
    assert.deepEqual([full.prints.length, full.lines, full.lost], [4, 4, 3]);
    const again = withTexts(full, ['d']);
    assert.deepEqual([again.prints.length, again.lines, again.lost], [4, 4, 4]);
    assert.equal(withTexts(NO_OUTPUT, ['y'.repeat(5 * 1024 * 1024)]).prints.length, 1);
    assert.equal(withTexts(NO_OUTPUT, new Array<string>(70_000).fill('')).lost, 70_000 - 65_536);
  });
});

suite('colours of terminals', () => {
  const pieces = (line: string): readonly string[] =>
    styledPieces(line).map(({ text, style }) => (style === '' ? text : `${style}(${text})`));

  test('become styles, and other sequences stay', () => {
    assert.deepEqual(pieces('plain'), ['plain']);
    assert.deepEqual(pieces('a\u001b[31mb\u001b[1;4mc\u001b[0md'), [
      'a',
      'ansi-1(b)',
      'ansi-bold ansi-underlined ansi-1(c)',
      'd',
    ]);
    assert.deepEqual(pieces('\u001b[1;2;3;92mx\u001b[22my\u001b[23;39mz\u001b[4mu\u001b[24mv\u001b[mw'), [
      'ansi-bold ansi-dim ansi-italic ansi-10(x)',
      'ansi-italic ansi-10(y)',
      'z',
      'ansi-underlined(u)',
      'v',
      'w',
    ]);
    assert.deepEqual(pieces('\u001b[38;5;9ma\u001b[38;5;200mb\u001b[32;48;2;1;31;3mc\u001b[38;2;31;31;31md'), [
      'ansi-9(a)',
      'b',
      'ansi-2(c)',
      'd',
    ]);
    assert.deepEqual(pieces('\u001b[2J\u001b[31'), ['\u001b[2J\u001b[31']);
    assert.deepEqual(pieces('\u001b[31m'), []);
  });

  test('are as many as a line may have, and no text is lost', () => {
    const many = '\u001b[31m<b>'.repeat(3_000);
    const found = styledPieces(many);
    assert.equal(found.length, 101);
    assert.equal(found.map(({ text }) => text).join(''), '<b>'.repeat(3_000));
    assert.equal(plainText(many), '<b>'.repeat(3_000));
    const texts = fc.array(fc.constantFrom('\u001b[', '0', '1', '3', '8', ';', ':', 'm', 'x', '\u001b', '5'));
    fc.assert(
      fc.property(texts, (parts) => {
        const line = parts.join('');
        assert.equal(
          styledPieces(line)
            .map(({ text }) => text)
            .join(''),
          plainText(line),
        );
        for (const { style } of styledPieces(line)) assert.match(style, /^(?:ansi-(?:\d|1[0-5]|[a-z]+) ?)*$/u);
      }),
    );
  });
});
