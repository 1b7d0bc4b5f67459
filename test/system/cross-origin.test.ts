/**
 * A page of another origin in a real Chromium: it may send the headers of traces with a call, and others that its
 * libraries add, and it may read the headers that the server sets.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test, type TestContext } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { compileCounter } from '../support/motoko.ts';
import { startServer } from '../support/server.ts';
import { launchBrowser } from './browser.ts';

const TOKEN = 'a-token-of-a-test';

let browser: Browser;
before(async () => {
  browser = await launchBrowser();
});
after(() => browser.close());

/** Opens a page that comes from a server of its own. */
async function openForeignPage(t: TestContext): Promise<Page> {
  const files = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>app</title>');
  }).listen(0, '127.0.0.1');
  await once(files, 'listening');
  t.after(() => files.close());
  const page = await browser.newPage();
  t.after(() => page.close());
  await page.goto(`http://127.0.0.1:${(files.address() as AddressInfo).port}/`);
  return page;
}

/** Fetches from the page; the names of headers are those that its script can read. */
function fetchFrom(
  page: Page,
  url: string,
  headers: Record<string, string>,
  method = 'POST',
): Promise<{ status: number; body: string; headers: string[] } | { failed: string }> {
  return page.evaluate(
    async (asked) => {
      try {
        const answer = await fetch(asked.url, { method: asked.method, headers: asked.headers });
        return { status: answer.status, body: await answer.text(), headers: [...answer.headers.keys()] };
      } catch (error) {
        return { failed: String(error) };
      }
    },
    { url, headers, method },
  );
}

test('a page of another origin calls with headers of traces, and reads the headers of answers', async (t) => {
  const server = await startServer(t, { manifest: '{"actors":{}}', args: ['--auth-token', TOKEN] });
  const authorization = `Bearer ${TOKEN}`;
  const installed = await server.post('/install/counter', await compileCounter(), { authorization });
  assert.equal(installed.status, 200, installed.body);
  const page = await openForeignPage(t);
  const traces = {
    authorization,
    traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
    tracestate: 'a=b',
    baggage: 'c=d',
  };

  for (const [path, body] of [
    ['/call-json/counter/inc', '[1]'],
    ['/query-json/counter/get', '[1]'],
  ] as const) {
    const headers = { ...traces, 'sentry-trace': 'x', 'content-type': 'application/json', 'idempotency-key': path };
    const answer = await fetchFrom(page, server.origin + path, headers);
    assert.ok('body' in answer, JSON.stringify(answer));
    assert.deepEqual([answer.status, answer.body, answer.headers.includes('svc-version')], [200, body, true]);
  }
  const listed = await fetchFrom(page, `${server.origin}/actors`, traces, 'GET');
  assert.ok('status' in listed && listed.status === 200, JSON.stringify(listed));
  const refused = await fetchFrom(page, `${server.origin}/actors`, {}, 'GET');
  assert.ok('headers' in refused && refused.headers.includes('www-authenticate'), JSON.stringify(refused));
  const foreign = await fetchFrom(page, `${server.origin}/actors`, { ...traces, 'sentry-trace': 'x' }, 'GET');
  assert.ok('failed' in foreign, 'a header that only calls allow');
});

test('a page of another origin calls and watches open methods without the token, and nothing else', async (t) => {
  for (const args of [['--auth-token', TOKEN], ['--browser-guard']]) {
    const server = await startServer(t, { manifest: '{"actors":{}}', args });
    const authorization = `Bearer ${TOKEN}`;
    assert.equal((await server.post('/install/counter', await compileCounter(), { authorization })).status, 200);
    const opened = await server.fetch('/x/actors/counter/public', {
      method: 'PUT',
      headers: { authorization },
      body: '["inc","get"]',
    });
    assert.equal(opened.status, 200);
    const page = await openForeignPage(t);
    const plain = await fetchFrom(page, `${server.origin}/call-json/counter/inc`, {
      'content-type': 'application/json',
    });
    assert.ok('body' in plain, JSON.stringify(plain));
    assert.deepEqual([plain.status, plain.body], [200, '[1]']);
    const events = await page.evaluate(
      (url) =>
        new Promise<string>((resolve) => {
          const source = new EventSource(url);
          source.addEventListener('message', ({ data }) => {
            source.close();
            resolve(String(data));
          });
          source.addEventListener('error', () => resolve('an error'));
        }),
      `${server.origin}/watch/counter/get`,
    );
    assert.equal(events, '[1]');
    const claimed = await fetchFrom(page, `${server.origin}/call-json/counter/inc`, { 'x-caller': '2vxsx-fae' });
    const other = await fetchFrom(page, `${server.origin}/stop/counter`, {});
    const refused = args[0] === '--auth-token' ? 401 : 403;
    assert.deepEqual(['status' in claimed && claimed.status, 'status' in other && other.status], [403, refused]);
    await server.stop();
  }
});
