/** The first screen of the inspector page in a real Chromium: figures, failures, order of the actors. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { compileCounter } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { launchBrowser, openPage } from './browser.ts';

const ORDERS = join(import.meta.dirname, '../fixtures/inspector/Orders.mo');
const DEADLINE_MS = 30_000;
const LONG_NAME = `long-${'x'.repeat(55)}`;

const ends: (() => Promise<void>)[] = [];
let browser: Browser;
let server: RunningServer;

before(async () => {
  const scope = { after: (end: () => Promise<void>) => void ends.push(end) };
  const args = ['--state', await temporaryDirectory()];
  server = await startServer(scope, { manifest: JSON.stringify({ actors: { orders: { main: ORDERS } } }), args });
  const module = await compileCounter();
  for (const name of ['busy', 'calm', 'halted', LONG_NAME])
    assert.equal((await server.post(`/install/${name}`, module)).status, 200);
  for (let call = 0; call < 5; call++) await server.post('/call-json/busy/inc', '[]');
  await server.post('/stop/halted');
  for (let call = 0; call < 3; call++) await server.post('/call-json/orders/fail');
  browser = await launchBrowser();
});
after(async () => {
  await browser.close();
  for (const end of ends) await end();
});

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + DEADLINE_MS;
  while (!(await isTrue())) {
    assert.ok(Date.now() < deadline, `not so within ${DEADLINE_MS} ms: ${isTrue.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const namesOf = (page: Page): Promise<readonly string[]> =>
  page.getByRole('listbox').getByRole('option').locator('.name').allTextContents();
async function figure(page: Page, name: string): Promise<string> {
  return (
    (await page
      .getByRole('button', { name: new RegExp(`^${name}`) })
      .locator('.value')
      .textContent()) ?? ''
  );
}

/** True if no figure is alone in a row that it does not fill. */
const ROWS_ARE_FULL = `(() => {
  const tiles = [...document.querySelectorAll('.figure')].map((tile) => tile.getBoundingClientRect());
  const [left, right] = [Math.min(...tiles.map((tile) => tile.left)), Math.max(...tiles.map((tile) => tile.right))];
  const rows = [...Map.groupBy(tiles, ({ top }) => top).values()];
  return rows.every((row) => row.length > 1 || (row[0].left < left + 1 && row[0].right > right - 1));
})()`;

/** Pixels that the history is wider than its place. */
const TABLE_OVERFLOW = `[...document.querySelectorAll('#panel-history .scroll')].map(
  ({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)`;

suite('the first screen', { timeout: 240_000 }, () => {
  test('no figure stands alone in a row that it does not fill, and the history is no wider than a telephone', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/inspector`, { isReused: true });
    await page.getByRole('heading', { name: 'This host' }).waitFor();
    // An odd number leaves one alone where there is room for two.
    for (const [count, change] of [
      [12, 'start'],
      [11, 'stop'],
    ] as const) {
      await until(async () => (await page.locator('.figure').count()) === count);
      for (const width of [320, 360, 480, 700, 800, 1024, 1280, 1440, 1600, 1920, 2560]) {
        await page.setViewportSize({ width, height: 800 });
        // The observer of the width draws after the browser has laid the page out.
        await until(() => page.evaluate(ROWS_ARE_FULL));
      }
      assert.equal((await server.post(`/${change}/halted`)).status, 200);
    }
    await page.setViewportSize({ width: 360, height: 800 });
    await page.goto(`${server.origin}/inspector#/orders/history`);
    const table = page.getByRole('tabpanel', { name: 'History' }).locator('.scroll');
    await table.getByRole('row').nth(3).waitFor();
    assert.deepEqual(await page.evaluate(TABLE_OVERFLOW), [0]);
    await table.getByRole('button').first().click();
    await table.getByText('Took').locator('visible=true').waitFor();
    assert.deepEqual(await page.evaluate(TABLE_OVERFLOW), [0]);
  });

  test('has the figures that the server tells, and each leads to where it comes from', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/inspector`, { isReused: true });
    await page.getByRole('heading', { name: 'This host' }).waitFor();
    assert.equal(await figure(page, 'Actors'), '5');
    assert.equal(await figure(page, 'Traps'), '3');
    assert.equal(await figure(page, 'Stopped'), '1');
    assert.match(await figure(page, 'State on disk'), /^[\d.]+ (?:K|M)iB$/);
    assert.match(await figure(page, 'Memory of the process'), /^[\d.]+ MiB$/);

    await page.getByRole('button', { name: /^Traps/ }).click();
    await until(async () => (await namesOf(page))[0] === 'orders');
    await page.getByRole('button', { name: /^Stopped/ }).click();
    await until(async () => (await namesOf(page)).join() === 'halted');
    assert.equal(await page.getByLabel('Actors of this state').inputValue(), 'stopped');
    await page.getByRole('button', { name: /^Actors/ }).click();
    await until(async () => (await namesOf(page)).length === 5);
    await page.getByRole('listbox').and(page.locator(':focus')).waitFor();

    for (const [name, line] of [
      ['Memory of the process', /^process_resident_memory_bytes \d+/m],
      ['State on disk', /^svc_state_bytes \d+/m],
      ['Up for', /^svc_uptime_seconds [\d.]+/m],
      ['Version', /"version":"/],
    ] as const) {
      await page.getByRole('button', { name: new RegExp(`^${name}`) }).click();
      const answer = page.getByLabel(/^Answer of /);
      await until(async () => line.test((await answer.textContent()) ?? ''));
    }
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByLabel(/^Answer of /).waitFor({ state: 'detached' });
  });

  test('counts messages a second as they come', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/`, { isReused: true });
    await until(async () => {
      for (let call = 0; call < 20; call++) await server.post('/call-json/busy/inc', '[]');
      return /^[1-9][\d.]*\/s$/.test(await figure(page, 'Messages a second'));
    });
  });

  test('shows the latest failures of all actors as text, and opens their actor', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/`, { isReused: true });
    const failures = page.getByRole('region', { name: 'Latest failures' });
    await failures.getByText('the shelf <b>fell</b> over').first().waitFor();
    const rows = failures.getByRole('row');
    const shown = await rows.count();
    await server.post('/call-json/orders/fail');
    await until(async () => (await rows.count()) === shown + 1);
    await failures.getByRole('button', { name: 'orders' }).first().click();
    await page.getByRole('heading', { name: 'orders' }).waitFor();
    await page.getByRole('tab', { name: 'History', selected: true }).waitFor();
  });

  test('sorts and finds by what the list has, in both directions', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/`, { isReused: true });
    await page.getByRole('listbox').getByRole('option').first().waitFor();
    const sort = page.getByLabel('Sort actors by');
    await sort.selectOption('Name');
    const byName = ['busy', 'calm', 'halted', LONG_NAME, 'orders'];
    await until(async () => (await namesOf(page)).join() === byName.join());
    await page.getByRole('button', { name: 'Order: ascending' }).click();
    await until(async () => (await namesOf(page)).join() === byName.toReversed().join());
    await sort.selectOption('Messages');
    await until(async () => (await namesOf(page))[0] === 'busy');
    await page.getByRole('button', { name: 'Order: descending' }).click();
    await until(async () => (await namesOf(page)).at(-1) === 'busy');

    const actors = JSON.parse((await server.get('/inspect')).body) as { name: string; principal: string; id: string }[];
    const calm = actors.find(({ name }) => name === 'calm');
    for (const part of [calm?.principal, calm?.id, 'CALM']) {
      await page.getByLabel('Search actors by name').fill(part ?? '');
      await until(async () => (await namesOf(page)).join() === 'calm');
    }
  });

  test('says what to do where there is nothing', async (t) => {
    const empty = await startServer(t, { manifest: '{"actors":{}}' });
    const { page } = await openPage(t, browser, `${empty.origin}/`, { isReused: true });
    await page.getByText('No actors yet.').waitFor();
    await page.getByText('No message has failed').waitFor();
    assert.equal(await figure(page, 'State on disk'), 'none');
  });
});
