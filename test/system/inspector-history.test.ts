/** The history in the inspector page, in a real Chromium: chosen, run again, and followed from caller to callee. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { launchBrowser, openPage } from './browser.ts';

const BACK = `import Runtime "mo:core/Runtime";
persistent actor Back {
  public func put(entry : { name : Text; count : Nat; raw : Blob }) : async { #ok : Nat; #none } {
    if (entry.count == 0) Runtime.trap("nothing <b>here</b>");
    #ok(entry.count + 1);
  };
  public query func get() : async Nat { 5 };
};`;
const FRONT = `persistent actor Front {
  type Back = actor { put : { name : Text; count : Nat; raw : Blob } -> async { #ok : Nat; #none } };
  public func relay(to : Principal, count : Nat) : async Bool {
    let back = actor (debug_show (to)) : Back;
    switch (await back.put({ name = "relayed"; count; raw = "\\00\\ff" })) { case (#ok _) true; case (#none) false };
  };
};`;

const ends: (() => Promise<void>)[] = [];
let browser: Browser;
let server: RunningServer;

before(async () => {
  server = await startServer({ after: (end) => void ends.push(end) }, { manifest: '{"actors":{}}' });
  for (const [name, source] of [
    ['back', BACK],
    ['front', FRONT],
  ] as const) {
    const { wasm } = await compileMotoko(source);
    assert.equal((await server.post(`/install/${name}`, wasm)).status, 200);
  }
  const [{ principal }] = JSON.parse((await server.get('/inspect?name=back')).body) as [{ principal: string }];
  for (const body of ['[{"name":"<i>one</i>","count":7,"raw":"AP8="}]', '[{"name":"two","count":0,"raw":""}]'])
    await server.post('/call-json/back/put', body);
  await server.post('/query-json/back/get');
  const relayed = await server.post('/call-json/front/relay', JSON.stringify([principal, 3]));
  assert.equal(relayed.body, '[true]');
  browser = await launchBrowser();
});
after(async () => {
  await browser.close();
  for (const end of ends) await end();
});

suite('the history', { timeout: 240_000 }, () => {
  test('has the reply beside the arguments, and is chosen by method, outcome and caller', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/#/back/history`, { isReused: true });
    const rows = page.getByRole('tabpanel').locator('tr.entry');
    await rows.nth(3).waitFor();
    await page.getByLabel('Method').selectOption('put');
    await page.getByLabel('Outcome').selectOption('trap');
    await rows.nth(1).waitFor({ state: 'detached' });
    assert.equal(await rows.count(), 1);
    await page.getByLabel('Outcome').selectOption('');
    await page
      .getByLabel('Caller')
      .locator('option', { hasText: /^front$/ })
      .waitFor({ state: 'attached' });
    await page.getByLabel('Caller').selectOption({ label: 'front' });
    await rows.nth(1).waitFor({ state: 'detached' });
    await rows.first().click();
    await page.getByText('name = "relayed"').waitFor();
    await page.getByText('(variant { ok = 4 : nat })').waitFor();
    await page.getByLabel('Method').selectOption('get');
    await page.getByText('No message is like that.').waitFor();
  });

  test('runs a message again from its form, with the arguments that it had', async (t) => {
    const { page, requests } = await openPage(t, browser, `${server.origin}/#/back/history`, { isReused: true });
    await page.getByLabel('Outcome').selectOption('reply');
    await page.getByLabel('Caller').selectOption('2vxsx-fae');
    await page.getByLabel('Method').selectOption('put');
    await page.getByRole('tabpanel').locator('tr.entry').first().click();
    await page.getByRole('link', { name: 'Run again …' }).click();
    await page.waitForURL(/\/back\/call\/put\//);
    assert.equal(await page.getByLabel('name text').inputValue(), '<i>one</i>');
    assert.equal(await page.getByLabel('count nat').inputValue(), '7');
    assert.ok(!requests.some((request) => request.includes('call-json')), 'a link calls nothing');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByLabel('Result', { exact: true }).locator('pre').filter({ hasText: '8' }).waitFor();
  });

  test('leads from a caller to what it called, and back', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/#/front/history`, { isReused: true });
    await page.getByRole('tabpanel').locator('tr.entry', { hasText: 'relay' }).click();
    const tree = page.getByRole('list', { name: 'Tree of messages' });
    assert.match((await tree.getByRole('listitem').first().textContent()) ?? '', /^front\.relayreply.*instructions$/);
    await tree.getByRole('link', { name: 'back.put' }).click();
    await page.getByRole('heading', { name: 'back', exact: true }).waitFor();
    await page.getByText('name = "relayed"').waitFor();
    await page.locator('tr.details dd').getByRole('link', { name: 'front', exact: true }).click();
    await page.getByRole('heading', { name: 'front', exact: true }).waitFor();
    await page.locator('tr.details').getByText('(true)').waitFor();
    await page.goto(`${server.origin}/#/front/history/gone-1`);
    await page.getByText('The history does not have the message gone-1 any more.').waitFor();
  });
});
