/** Stable variables in the inspector page, in a real Chromium: types, values by pages and paths, and every refusal. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { Browser, Locator, Page } from 'playwright-core';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { wat } from '../support/wat.ts';
import { launchBrowser, openPage } from './browser.ts';
import { assertLook } from './page-look.ts';

const MARKUP = '<img src=x onerror=window.hacked=1>';
const SHOP = `
  import Array "mo:core/Array";
  import List "mo:core/List";
  import Map "mo:core/Map";
  import Text "mo:core/Text";

  persistent actor {
    type Tree = { #leaf : Nat; #node : { left : Tree; right : Tree } };
    let many = Array.tabulate<Nat>(100_000, func i = i * 10_000_000_000_000_000_000);
    let stock = Map.empty<Text, { amount : Nat; var isDear : Bool }>();
    var note : ?Text = null;
    var tree : Tree = #node { left = #leaf 7; right = #node { left = #leaf 8; right = #leaf 9 } };
    var rows : [[Nat]] = [Array.tabulate<Nat>(1_500, func i = i), [1]];
    var long = "";
    var count = 0;

    public func fill() : async () {
      Map.add(stock, Text.compare, "tea", { amount = 7; var isDear = true });
      note := ?"${MARKUP}";
      for (_ in Array.repeat(0, 2_000).values()) long #= "0123456789";
    };
    public func inc() : async () { count += 1 };
  };`;
/** Elements of `many`: more than an answer has room for. */
const MANY = 100_000;
const DEADLINE_MS = 30_000;

const ends: (() => Promise<void>)[] = [];
let browser: Browser;
let server: RunningServer;

before(async () => {
  server = await startServer({ after: (end) => void ends.push(end) }, { manifest: '{"actors":{}}' });
  const install = async (name: string, module: Uint8Array): Promise<void> => {
    const { status, body } = await server.post(`/install/${name}`, module);
    assert.equal(status, 200, body);
  };
  await install('shop', (await compileMotoko(SHOP)).wasm);
  assert.equal((await server.post('/call-json/shop/fill')).status, 200);
  await install('bare', wat('(module (memory 1) (func (export "canister_query x")))'));
  browser = await launchBrowser();
});
after(async () => {
  await browser.close();
  for (const end of ends) await end();
});

const value = (page: Page): Locator => page.getByRole('region', { name: 'Value', exact: true });
const shown = (page: Page): Locator => value(page).getByLabel('Value of the variable', { exact: true });

/** Waits until the value that is shown is exactly this JSON, blanks apart. */
async function shows(page: Page, json: string): Promise<void> {
  const deadline = Date.now() + DEADLINE_MS;
  const text = async (): Promise<string> => (await shown(page).allTextContents()).join().replaceAll(/\s/g, '');
  while ((await text()) !== json.replaceAll(/\s/g, '')) {
    assert.ok(Date.now() < deadline, `${await text()} instead of ${json}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function read(page: Page, path: string): Promise<void> {
  await value(page).getByLabel('Path of the value').fill(path);
  await page.keyboard.press('Enter');
}

async function openState(t: Parameters<typeof openPage>[0], actor: string) {
  const watched = await openPage(t, browser, `${server.origin}/#/${actor}/state`, { isReused: true });
  await retried(watched.page, watched.page.getByRole('button', { name: 'Read again' }));
  return watched;
}

/** Waits for a part of the page, and asks again where a busy machine had no time for the copy. */
async function retried(page: Page, part: Locator): Promise<void> {
  const again = page.getByRole('button', { name: 'Try again' });
  for (;;) {
    await part.or(again).first().waitFor();
    if (await part.first().isVisible()) return;
    // The answer may come between the two looks: then there is no button to click.
    await again.dispatchEvent('click', undefined, { timeout: 1_000 }).catch(() => undefined);
  }
}

suite('stable variables', { timeout: 240_000 }, () => {
  test('are told with types and sizes, and values come when they are asked for, as text', async (t) => {
    const { page, requests } = await openState(t, 'shop');
    const table = page.getByRole('table');
    const row = (name: string): Locator =>
      table.getByRole('row').filter({ has: page.getByText(name, { exact: true }) });
    await row('stock').getByText('map', { exact: true }).waitFor();
    await row('note').getByText('var ?Text').waitFor();
    assert.match((await row('long').locator('.number').textContent()) ?? '', /KiB$/);
    assert.ok(!requests.some((request) => request.includes('path=')), 'no value is read before it is asked for');

    await page.getByRole('button', { name: 'Show note' }).click();
    await shows(page, JSON.stringify(MARKUP));
    assert.equal(await page.evaluate('"hacked" in window || document.querySelector("#app img") !== null'), false);
    await read(page, 'stock');
    await shows(page, '[["tea",{"isDear":true,"amount":7}]]');
    assert.equal((await server.post('/x/actors/shop/variables')).status, 404, 'it is read-only');
  });

  test('numbers keep their digits, and pages fit together while the actor goes on', async (t) => {
    const { page, requests } = await openState(t, 'shop');
    await page.getByRole('button', { name: 'Show many' }).click();
    await shown(page).getByText('"10000000000000000000"', { exact: true }).waitFor();
    const place = value(page).getByText(/of 100.000$/);
    const bounds = async (): Promise<readonly number[]> =>
      ((await place.textContent()) ?? '').split(/–| of /).map((part) => Number(part.replaceAll(/\D/g, '')));
    let [first = 0, last = 0] = await bounds();
    assert.equal(first, 1);
    let pages = 1;
    for (; last < MANY; pages++) {
      await server.post('/call-json/shop/inc');
      await page.getByRole('button', { name: 'After →' }).click();
      const begins = `${last + 1}`.replaceAll(/\B(?=(?:\d{3})+$)/g, '.');
      await value(page)
        .getByText(new RegExp(`^${begins}–`))
        .waitFor();
      [first = 0, last = 0] = await bounds();
    }
    assert.ok(pages > 1 && (await page.getByRole('button', { name: 'After →' }).isDisabled()));
    const copies = requests.flatMap((request) => /path=many.*copy=(\d+)/.exec(request)?.[1] ?? []);
    assert.equal(copies.length, pages - 1);
    assert.equal(new Set(copies).size, 1, copies.join());
    for (let left = pages - 1; left > 0; left--) await page.getByRole('button', { name: '← Before' }).click();
    await value(page).getByText(/^1–/).waitFor();
  });

  test('parts are reached by choice, by path and by what was cut, and lead back', async (t) => {
    const { page } = await openState(t, 'shop');
    await page.getByRole('button', { name: 'Show tree' }).click();
    await shows(page, '{"node":{"left":{"leaf":7},"right":{"node":{"left":{"leaf":8},"right":{"leaf":9}}}}}');
    await value(page).getByRole('button', { name: 'Go into' }).click();
    await value(page).getByLabel('Part').selectOption('tree.node.right');
    await value(page).getByRole('button', { name: 'Go into' }).click();
    await shows(page, '{"node":{"left":{"leaf":8},"right":{"leaf":9}}}');
    await read(page, 'tree.node.right.node.left.leaf');
    await shows(page, '8');
    await page
      .getByRole('navigation', { name: 'Way to this value' })
      .getByText('tree.node.right', { exact: true })
      .click();
    await shows(page, '{"node":{"left":{"leaf":8},"right":{"leaf":9}}}');

    await read(page, 'rows');
    await page
      .getByRole('list', { name: 'Parts that were cut' })
      .getByRole('button', { name: /^rows\[0\]/ })
      .click();
    await value(page)
      .getByText(/of 1.500$/)
      .waitFor();

    await read(page, 'tree.lief');
    await value(page).getByRole('alert').getByText('tree.lief').waitFor();
    await read(page, '[1');
    await value(page).getByRole('alert').getByText('a path begins with the name of a variable').waitFor();
    await read(page, 'count');
    await value(page).getByRole('alert').waitFor({ state: 'detached' });
  });

  test('a module that tells no variables says why, and what to do', async (t) => {
    const { page } = await openState(t, 'bare');
    await page.getByText(/^Values are not decoded: \S/).waitFor();
    await page.getByText('There are no stable variables').waitFor();
    await assertLook(page, 'state of a bare module');
  });

  test('a server that has no memory is told, and asked again by a button', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/`, { isReused: true });
    let refusals = 2;
    await page.route(/\/variables/, async (route) => {
      if (refusals-- <= 0) return route.continue();
      return route.fulfill({ status: 503, json: { code: 5, message: 'memory is short: free some' } });
    });
    await page.goto(`${server.origin}/#/shop/state`);
    for (let turn = 0; turn < 2; turn++) {
      await page.getByRole('alert').getByText('memory is short: free some').waitFor();
      await page.getByText('nothing was changed').waitFor();
      await page.getByRole('button', { name: 'Try again' }).click();
    }
    await retried(page, page.getByRole('button', { name: 'Show note' }));
    assert.equal(await page.getByRole('alert').count(), 0);
    await page.unrouteAll({ behavior: 'wait' });
  });

  test('a copy that takes long is waited for, for the table and for a value', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/`, { isReused: true });
    await page.evaluate(`new MutationObserver(() => {
      if (document.querySelector('[role=alert]') !== null) document.documentElement.dataset.refused = 'yes';
    }).observe(document.body, { childList: true, subtree: true })`);
    const left = [2, 2];
    const asked = [0, 0];
    await page.route(/\/variables/, async (route) => {
      const isValue = Number(route.request().url().includes('path='));
      asked[isValue] = (asked[isValue] ?? 0) + 1;
      left[isValue] = (left[isValue] ?? 0) - 1;
      if ((left[isValue] ?? 0) < 0) return route.continue();
      const message = 'the state of actor shop is still being copied; try again in a second';
      return route.fulfill({ status: 503, json: { code: 2, message } });
    });
    await page.evaluate(`void (location.hash = '#/shop/state')`);
    await page.getByRole('button', { name: 'Show note' }).click();
    await shows(page, JSON.stringify(MARKUP));
    assert.ok(
      asked.every((times) => times >= 3),
      asked.join(),
    );
    assert.equal(await page.locator('html[data-refused]').count(), 0, 'no refusal is shown in between');
    await page.unrouteAll({ behavior: 'wait' });
  });

  test('a copy that is gone is replaced, and the page says so', async (t) => {
    const { page } = await openState(t, 'shop');
    await page.getByRole('button', { name: 'Show many' }).click();
    await value(page)
      .getByText(/of 100.000$/)
      .waitFor();
    await page.route(/copy=/, (route) =>
      route.fulfill({ status: 404, json: { code: 5, message: 'the copy is not there any more' } }),
    );
    await page.getByRole('button', { name: 'After →' }).click();
    await value(page).getByText('this one is from a newer copy').waitFor();
    await page.unrouteAll({ behavior: 'wait' });
    await assertLook(page, 'state');
  });
});
