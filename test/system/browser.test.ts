/** Tabs that cases use one after the other (`openPage` with `isReused`): a case finds nothing of the one before. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test, type TestContext } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import type { TestOwner } from '../support/server.ts';
import { launchBrowser, openPage } from './browser.ts';

/** Keeps something also in the moment in which it is left, as the inspector page does. */
const PAGE = `<!doctype html><link rel="icon" href="data:,"><script>
  addEventListener('pagehide', () => sessionStorage.setItem('left', 'yes'));
</script>`;
const KEPT = `JSON.stringify([
  { ...localStorage }, { ...sessionStorage }, document.cookie, 'marked' in window, innerWidth,
  matchMedia('(prefers-color-scheme: dark)').matches, matchMedia('(prefers-reduced-motion: reduce)').matches,
])`;

let browser: Browser;
before(async () => {
  browser = await launchBrowser();
});
after(() => browser.close());

async function serve(t: TestContext): Promise<string> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end(PAGE);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** Runs a case with a tab that is used again, as a test would; resolves when the case has ended. */
async function inCase(url: string, work: (page: Page, t: TestOwner) => Promise<void>): Promise<void> {
  const ends: (() => Promise<void>)[] = [];
  const t = { after: (end: () => Promise<void>) => void ends.push(end) };
  const { page } = await openPage(t, browser, url, { isReused: true });
  await work(page, t);
  for (const end of ends) await end();
}

test('a tab that is used again has storage, cookies, routes, listeners and size of a new one', async (t) => {
  const url = await serve(t);
  let first: Page | undefined;
  let fresh: unknown;
  let heard = 0;
  await inCase(url, async (page) => {
    first = page;
    fresh = await page.evaluate(KEPT);
    page.on('request', () => heard++);
    await page.route('**/routed', (route) => route.fulfill({ body: 'routed' }));
    await page.setViewportSize({ width: 320, height: 500 });
    await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
    await page.evaluate(`localStorage.a = 1, sessionStorage.b = 2, document.cookie = 'c=3', window.marked = true`);
    await (await page.context().newPage()).goto(url);
    assert.notEqual(await page.evaluate(KEPT), fresh);
    assert.equal(await page.evaluate('fetch("/routed").then((answer) => answer.text())'), 'routed');
    assert.equal(heard, 1);
  });
  await inCase(url, async (page) => {
    assert.equal(page, first);
    assert.equal(await page.evaluate(KEPT), fresh);
    assert.equal(await page.evaluate('fetch("/routed").then((answer) => answer.text())'), PAGE);
    assert.equal(page.context().pages().length, 1);
    assert.equal(heard, 1);
  });
});

test('two tabs of a case are two, and a closed one is not used again', async (t) => {
  const url = await serve(t);
  await inCase(url, async (page, owner) => {
    const { page: other } = await openPage(owner, browser, url, { isReused: true });
    assert.notEqual(other.context(), page.context());
    await page.close();
  });
  await inCase(url, async (page) => assert.equal(page.isClosed(), false));
});

test('what a page does wrong is told at the end of its own case, and not of the next one', async (t) => {
  const url = await serve(t);
  const wrong = inCase(url, async (page) => {
    const thrown = page.waitForEvent('pageerror');
    await page.evaluate(`setTimeout(() => { throw new Error('wrong'); })`);
    await thrown;
  });
  await assert.rejects(wrong, /Error: wrong/);
  await inCase(url, async (page) => assert.equal(await page.evaluate('1 + 1'), 2));
});
