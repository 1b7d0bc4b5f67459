/** `svc/contracts/inspector`: the suite that every provider of the inspector page has to pass. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { BuiltInspector } from '../../../subsystems/inspector/built-inspector.ts';
import type { Inspector, InspectorPage } from '../../../subsystems/inspector/index.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

export function describeInspector(
  name: string,
  make: (context: SuiteContext, own: () => Inspector) => Inspector | Promise<Inspector>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    const made = async (t: SuiteContext): Promise<Inspector> => make(t, () => new BuiltInspector());

    test('the page is HTML in UTF-8, always the same, with a strong tag', async (t) => {
      const inspector = await made(t);
      const { html, etag } = inspector.page();
      assert.match(new TextDecoder('utf-8', { fatal: true }).decode(html), /^\s*<!doctype html>/i);
      assert.match(etag, /^"[\x21\x23-\x7e]+"$/);
      const again = inspector.page();
      assert.deepEqual([Buffer.from(again.html).equals(html), again.etag], [true, etag]);
    });

    test('names and values of headers stand by turns, and can be sent', async (t) => {
      const { headers } = (await made(t)).page();
      assert.equal(headers.length % 2, 0);
      for (let at = 0; at < headers.length; at += 2) {
        assert.match(headers[at] ?? '', /^[\w!#$%&'*+.^`|~-]+$/);
        assert.match(headers[at + 1] ?? '', /^[\x20-\x7e]*$/);
      }
    });

    test('its policy lets exactly the scripts of the page run, and nothing comes from elsewhere', async (t) => {
      const page = (await made(t)).page();
      const allowed = sourcesOf(page, 'script-src') ?? sourcesOf(page, 'default-src') ?? [];
      const html = Buffer.from(page.html).toString('utf8');
      const scripts = [...html.matchAll(/<script\b[^>]*>([^]*?)<\/script>/g)].map(([, content = '']) => content);
      const hashes = scripts.map((text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`);
      assert.deepEqual(allowed.toSorted(), (hashes.length === 0 ? ["'none'"] : hashes).toSorted());
      assert.doesNotMatch(html, /<(?:script|img|iframe|object|embed)\b[^>]*\b(?:src|data)=/);
    });
  });
}

/** Returns the sources that a directive of the page's policy names; undefined if the policy lacks the directive. */
function sourcesOf({ headers }: InspectorPage, directive: string): readonly string[] | undefined {
  const at = headers.findIndex(
    (header, index) => index % 2 === 0 && header.toLowerCase() === 'content-security-policy',
  );
  assert.ok(at >= 0, 'the page has no content-security-policy');
  const found = (headers[at + 1] ?? '').split(/;\s*/).find((each) => each.startsWith(`${directive} `));
  return found?.split(/\s+/).slice(1);
}
