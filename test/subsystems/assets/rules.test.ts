/** `_headers` and `_redirects`: what they mean, and each fault with its line. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { readHeaders, readRedirects } from '../../../subsystems/assets/rules.ts';

suite('_headers', () => {
  test('the headers of all rules that an address of the file meets, in their order', () => {
    const text = [
      '\uFEFF# all',
      '/*',
      '  X-Frame-Options: DENY',
      '',
      '/assets/*',
      '\tCache-Control: public, max-age=31536000, immutable  ',
      '/',
      '  Link: <a.css>; rel=preload',
      '/about',
      '  X-About: 1',
      '/u/:id/x',
      '  X-User: 1',
      '/*.js',
      '  X-Script: 1',
    ].join('\r\n');
    const headersOf = readHeaders(text);
    const frame = ['X-Frame-Options', 'DENY'];
    const cases: readonly (readonly [string, readonly (readonly string[])[]])[] = [
      ['/a.css', [frame]],
      ['/index.html', [frame, ['Link', '<a.css>; rel=preload']]],
      ['/about.html', [frame, ['X-About', '1']]],
      ['/assets/a/b.js', [frame, ['Cache-Control', 'public, max-age=31536000, immutable']]],
      ['/app.js', [frame, ['X-Script', '1']]],
      ['/u/7/x', [frame, ['X-User', '1']]],
      ['/u/7/y', [frame]],
    ];
    for (const [key, headers] of cases) assert.deepEqual(headersOf(key), headers, key);
  });

  test('all faults at once, each with its line', () => {
    const text = '  A: b\nassets\n  no colon\n  Bad Name: x\n  Content-Length: 5\n  A: \u00fc\n  A: b\u0000\n';
    assert.throws(() => readHeaders(text), {
      code: 'assets-rules',
      message: [
        '_headers cannot be used:',
        '  line 1: a path comes before its headers',
        '  line 2: expected a path that begins with "/", or an indented header',
        '  line 3: expected "Name: value"',
        '  line 4: expected "Name: value"',
        "  line 5: Content-Length is the connection's own",
        '  line 6: a value has printable ASCII characters only',
        '  line 7: a value has printable ASCII characters only',
      ].join('\n'),
    });
  });
});

suite('_redirects', () => {
  test('rules as the site reads them', () => {
    const text =
      '# moved\n/old /new 301\n/a/:id/* /b/:id/:splat\n/* /index.html 200!\n/x https://example.org/:splat 308\n';
    assert.equal(
      readRedirects(text),
      '301\t0\t/old\t/new\n302\t0\t/a/:id/*\t/b/:id/:splat\n200\t1\t/*\t/index.html\n308\t0\t/x\thttps://example.org/:splat',
    );
  });

  test('each fault has its line', () => {
    const faults: readonly (readonly [string, RegExp])[] = [
      ['old /new', /line 1: expected a path that begins with "\/", not "old"/],
      ['/old', /the target is a path/],
      ['/old new', /the target is a path/],
      ['/old //evil.example 200', /this is no proxy/],
      ['/old https://example.org 200', /this is no proxy/],
      ['/old /new 418', /the status is one of 200, 301/],
      ['/old /new 301 Country=de', /conditions by country/],
      ['/a*b /new', /"\*" stands for the end of a path/],
      ['/a/:id /new?id=:id', /":id"|a name stands for a whole part/],
      ['/a /b\u00fc', /printable ASCII/],
    ];
    for (const [text, message] of faults) assert.throws(() => readRedirects(text), message, text);
    const many = '/a /b 99\n'.repeat(1000);
    assert.throws(() => readRedirects(many), /… and 980 more/);
  });
});
