/** Open methods in the inspector page, in a real Chromium: offered, told, opened, and closed by other code. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { launchBrowser, openPage } from './browser.ts';

const TOKEN = 'correct-horse';
const AUTHORIZED = { authorization: `Bearer ${TOKEN}` };
const SHOP = `persistent actor Shop {
  var count = 0;
  public func order() : async Nat { count += 1; count };
  public query func get() : async Nat { count };
  public query func list() : async [Nat] { [] };
};`;

const ends: (() => Promise<void>)[] = [];
let browser: Browser;
let server: RunningServer;
let shop: Uint8Array;
let smallShop: Uint8Array;

before(async () => {
  const scope = { after: (end: () => Promise<void>) => void ends.push(end) };
  server = await startServer(scope, { manifest: '{"actors":{}}', args: ['--auth-token', TOKEN] });
  ({ wasm: shop } = await compileMotoko(SHOP));
  ({ wasm: smallShop } = await compileMotoko(SHOP.replace(/ {2}public query func get.*\n/, '')));
  browser = await launchBrowser();
});
after(async () => {
  await browser.close();
  for (const end of ends) await end();
});

async function openMethodsOf(page: Page, name: string): Promise<ReturnType<Page['getByRole']>> {
  await page.goto(`${server.origin}/#/${name}/manage`);
  await page.getByLabel('bearer token').fill(TOKEN);
  await page.keyboard.press('Enter');
  return page.getByRole('region', { name: 'Open methods' });
}

async function install(name: string): Promise<void> {
  const answer = await server.post(`/install/${name}`, shop, AUTHORIZED);
  assert.equal(answer.status, 200, answer.body);
}

async function statusOf(path: string): Promise<number> {
  return (await server.post(path)).status;
}

suite('open methods', { timeout: 240_000 }, () => {
  test('are opened and closed, after the page has said what that does', async (t) => {
    await install('shop');
    const { page, requests } = await openPage(t, browser, `${server.origin}/`, { isReused: true });
    const panel = await openMethodsOf(page, 'shop');
    const offered = panel.getByRole('list', { name: 'Methods that can be open' }).getByRole('listitem');
    await offered.first().waitFor();
    assert.deepEqual((await offered.allTextContents()).toSorted(), ['getquery', 'listquery', 'orderupdate']);
    const save = panel.getByRole('button', { name: 'Save open methods', exact: true });
    assert.ok(await save.isDisabled());
    await panel.getByLabel('get').check();
    await panel.getByLabel('order').check();
    await save.click();
    const question = panel.getByRole('group', { name: 'Save open methods' });
    await question.getByText(/may call .* without a token, as the anonymous caller/).waitFor();
    await question.getByText(/order can change the state/).waitFor();
    await question.getByText(/The list of the manifest, if it has one, is set again at each start/).waitFor();
    assert.ok(!requests.some((request) => request.startsWith('PUT')));
    assert.equal(await statusOf('/query-json/shop/get'), 401);
    await question.getByRole('button', { name: 'Open them' }).click();
    await panel.getByText(/^Open: (get, order|order, get)\.$/).waitFor();
    assert.equal(await statusOf('/query-json/shop/get'), 200);
    assert.equal(await statusOf('/call-json/shop/order'), 200);
    assert.equal(await statusOf('/query-json/shop/list'), 401);

    await panel.getByLabel('order').uncheck();
    await save.click();
    await question.getByText(/order needs a token again/).waitFor();
    await question.getByRole('button', { name: 'Close them' }).click();
    await panel.getByText('Open: get.').waitFor();
    assert.equal(await statusOf('/call-json/shop/order'), 401);
    assert.equal((await server.get('/x/actors/shop/public', AUTHORIZED)).body, '["get"]');
  });

  test('that are gone with the code are told, and what was ticked stays', async (t) => {
    await install('changing');
    await server.fetch('/x/actors/changing/public', { method: 'PUT', body: '["get"]', headers: AUTHORIZED });
    const { page } = await openPage(t, browser, `${server.origin}/`, { isReused: true });
    const panel = await openMethodsOf(page, 'changing');
    await panel.getByLabel('list').check();
    assert.ok(await panel.getByLabel('get').isChecked());
    const upgrade = await server.post('/upgrade/changing?force=true', smallShop, AUTHORIZED);
    assert.equal(upgrade.status, 200, upgrade.body);
    await panel.getByText('get is gone: the code has no such method any more').waitFor();
    await panel.getByLabel('get').waitFor({ state: 'detached' });
    assert.ok(await panel.getByLabel('list').isChecked());
    await panel.getByRole('button', { name: 'Save open methods', exact: true }).click();
    await panel.getByRole('button', { name: 'Open them' }).click();
    await panel.getByText('Open: list.').waitFor();
  });
});
