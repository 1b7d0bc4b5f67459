import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { buildPage, PAGE_FILE } from '../../../.ci/build-inspector.ts';
import { BuiltInspector } from '../../../subsystems/inspector/built-inspector.ts';

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

function policyOf(inspector: BuiltInspector): ReadonlyMap<string, string> {
  const { headers } = inspector.page();
  const policy = headers[headers.indexOf('content-security-policy') + 1] ?? '';
  return new Map(
    policy.split('; ').map((directive) => [directive.split(' ')[0] ?? '', directive.replace(/^\S+ /, '')]),
  );
}

test('the page that is committed is what its sources make: npm run build:inspector', async () => {
  assert.ok(readFileSync(PAGE_FILE, 'utf8') === (await buildPage()), 'page.html is stale: npm run build:inspector');
});

test('the page is one file that names nothing to load', () => {
  const html = Buffer.from(new BuiltInspector().page().html).toString('utf8');
  assert.doesNotMatch(html, /<(?:script|img|iframe|object|embed)\b[^>]*\b(?:src|data)=/);
  assert.deepEqual(html.match(/<link\b[^>]*?href="(?!data:)/g), null);
  assert.doesNotMatch(html, /@import|url\(/);
  assert.doesNotMatch(html, /sourceMappingURL/);
});

test('the policy lets exactly the scripts and styles of the page run, and nothing be fetched from elsewhere', () => {
  const page = new BuiltInspector(
    Buffer.from('<style>a{}</style><script>one("é")</script><script type="module">\ntwo</script>'),
  );
  const policy = policyOf(page);
  assert.equal(policy.get('default-src'), "'none'");
  assert.equal(policy.get('script-src'), `${hashOf('one("é")')} ${hashOf('\ntwo')}`);
  assert.equal(policy.get('style-src'), hashOf('a{}'));
  assert.equal(policy.get('connect-src'), "'self'");
  assert.equal(policy.get('frame-ancestors'), "'none'");
  assert.equal(policy.get('require-trusted-types-for'), "'script'");
  assert.equal(policyOf(new BuiltInspector(Buffer.from('plain'))).get('script-src'), "'none'");
});

test('another page has another tag', () => {
  const tagOf = (html: string): string => new BuiltInspector(Buffer.from(html)).page().etag;
  assert.match(tagOf('a'), /^"[\w+/]{27}"$/);
  assert.equal(tagOf('a'), tagOf('a'));
  assert.notEqual(tagOf('a'), tagOf('b'));
});
