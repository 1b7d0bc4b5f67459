/**
 * A page in a real Chromium that watches a query through `EventSource`: it shows each change once, also over a restart.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { compileCounter } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { startHttpHost } from '../subsystems/http/counter-host.ts';
import { launchBrowser } from './browser.ts';

let browser: Browser;
before(async () => {
  browser = await launchBrowser();
});
after(() => browser.close());

/** Runs in the page: keeps a list of all answers and events as the page's text. */
const WATCH = `
  const seen = [];
  const show = (what) => { seen.push(what); document.body.textContent = seen.join(' '); };
  const events = new EventSource('/watch/counter/get');
  events.onmessage = ({ data }) => show(data);
  events.addEventListener('upgrade', () => show('upgrade'));
`;
const SHOW_UNAVAILABLE = `events.addEventListener('unavailable', ({ data }) => show(JSON.parse(data).message));`;

/** Resolves when the page shows this text and no other; rejects with the text that it shows instead. */
async function shows(page: Page, text: string): Promise<void> {
  const hasText = `document.body.textContent === ${JSON.stringify(text)}`;
  try {
    await page.waitForFunction(hasText, undefined, { timeout: 30_000 });
  } catch (error) {
    assert.equal(await page.evaluate('document.body.textContent'), text, String(error));
  }
}

test(
  'a page that watches a query shows each change once, over an upgrade and a kill',
  { timeout: 120_000 },
  async (t) => {
    const counter = await compileCounter();
    const state = await temporaryDirectory();
    const start = (port: number): Promise<RunningServer> =>
      startServer(t, { manifest: '{"actors":{}}', args: ['--state', state], port });
    let server = await start(0);
    assert.equal((await server.post('/install/counter', counter)).status, 200);
    const page = await browser.newPage();
    t.after(() => page.close());
    // A page of the server's own origin.
    await page.goto(`${server.origin}/health`);
    await page.evaluate(WATCH);
    await shows(page, '[0]');
    for (let n = 1; n <= 5; n++) {
      assert.equal((await server.post('/call-json/counter/inc')).body, `[${n}]`);
      await shows(page, ['[0]', ...Array.from({ length: n }, (_, at) => `[${at + 1}]`)].join(' '));
    }
    assert.equal((await server.post('/upgrade/counter', counter)).status, 200);
    await shows(page, '[0] [1] [2] [3] [4] [5] upgrade');
    await server.kill();
    server = await start(Number(new URL(server.origin).port));
    // The browser comes back by itself; it is not told again of answers that it has.
    assert.equal((await server.post('/call-json/counter/inc')).body, '[6]');
    await shows(page, '[0] [1] [2] [3] [4] [5] upgrade [6]');
  },
);

test('a page that asks while the server starts asks again, and watches', { timeout: 120_000 }, async (t) => {
  const { origin, readiness } = await startHttpHost(t);
  readiness.isReady = false;
  readiness.note = 'recovering counter';
  const page = await browser.newPage();
  t.after(() => page.close());
  await page.goto(`${origin}/health`);
  await page.evaluate(`${WATCH}${SHOW_UNAVAILABLE}`);
  await shows(page, 'starting: recovering counter');
  readiness.isReady = true;
  await shows(page, 'starting: recovering counter [0]');
});
