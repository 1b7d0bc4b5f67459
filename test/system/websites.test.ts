/** The example website in a real Chromium, served as `npm start` serves it: by its path and by its host name. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { type RunningServer, startServer } from '../support/server.ts';
import { launchBrowser, openPage } from './browser.ts';

const ends: (() => Promise<void>)[] = [];
let browser: Browser;
let server: RunningServer;

before(async () => {
  const args = ['--site-hosts', '--browser-guard'];
  server = await startServer({ after: (end) => void ends.push(end) }, { args });
  browser = await launchBrowser();
});
after(async () => {
  await browser.close();
  for (const end of ends) await end();
});

const hostOf = (name: string): string => server.origin.replace('127.0.0.1', name);

async function sign(page: Page, name: string, message: string): Promise<void> {
  await page.getByPlaceholder('Your name').fill(name);
  await page.getByPlaceholder('What you want to say').fill(message);
  await page.getByRole('button', { name: 'Sign' }).click();
  await page.getByText(`${name}: ${message}`).waitFor();
}

suite('the example website', { timeout: 120_000 }, () => {
  for (const [where, address] of [
    ['under /site/website/', () => `${server.origin}/site/website/`],
    ['at website.localhost', () => `${hostOf('website.localhost')}/`],
    ['at its principal', () => `${hostOf('be2us-64aaa-aaaaa-qaabq-cai.localhost')}/`],
  ] as const) {
    test(`${where}: pages, assets, a form that posts, a streamed file`, async (t) => {
      const { page, requests } = await openPage(t, browser, address(), { isReused: true });
      assert.equal(await page.title(), 'Guestbook');
      const color = await page.evaluate('getComputedStyle(document.querySelector("nav a")).color');
      assert.equal(color, 'rgb(36, 87, 197)', 'the style sheet has been applied');
      assert.equal(await page.evaluate('document.querySelector("img").naturalWidth > 0'), true);

      await sign(page, 'Ada & <b>Bob</b>', `“hello” from ${where} 100 %+1`);
      assert.equal(page.url(), address(), 'the browser was sent back to the page');
      assert.equal(await page.evaluate('document.querySelector("#guests b")'), null);
      assert.ok(requests.some((request) => request.startsWith('POST ') && request.endsWith('/sign')));

      await page.getByRole('link', { name: 'A long file' }).click();
      await page.waitForURL(/lines\.txt$/, { waitUntil: 'load' });
      const lines = (await page.locator('pre').innerText()).trimEnd().split('\n');
      assert.equal(lines.length, 20_000);
      assert.match(lines.at(-1) ?? '', /^line 20000 of 20000:/);
    });

    test(`${where}: a page that calls its own actor by the JSON API`, async (t) => {
      const { page, requests } = await openPage(t, browser, address(), { isReused: true });
      await page.getByRole('link', { name: 'Live' }).click();
      await page.getByText(/\d+ so far/).waitFor();
      await sign(page, 'Grace', `live ${where}`);
      assert.ok(requests.some((request) => /^POST \/call-json\/[^/]+\/sign$/.test(request)));
    });
  }

  test('a page of another origin gets nothing from the API, and may look at the website', async (t) => {
    const { page } = await openPage(t, browser, `${hostOf('website.localhost')}/live`, {
      isAttacked: true,
      isReused: true,
    });
    const statusOf = (url: string, method = 'GET'): Promise<unknown> =>
      page.evaluate(
        `fetch(${JSON.stringify(url)}, { method: ${JSON.stringify(method)} }).then(({ status }) => status, String)`,
      );
    assert.equal(await statusOf(`${server.origin}/actors`), 403);
    assert.equal(await statusOf(`${hostOf('localhost')}/call-json/counter/inc`, 'POST'), 403);
    assert.equal(await statusOf(`${hostOf('website.localhost')}/actors`), 200);
    assert.equal(await statusOf(`${server.origin}/site/website/`), 200);
    assert.equal(await statusOf(`${server.origin}/health`), 200);
    // The call had no effect.
    assert.equal((await server.post('/query-json/counter/get')).body, '[0]');
  });
});
