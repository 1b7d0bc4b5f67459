/** Changes that the inspector page makes, in a real Chromium against a real server. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { Browser, Download, Page } from 'playwright-core';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { launchBrowser, openPage } from './browser.ts';

const ORDERS = join(import.meta.dirname, '../fixtures/inspector/Orders.mo');
const TALLY = `persistent actor class Tally(first : { start : Nat; step : Nat }) {
  var count = first.start;
  public func inc() : async Nat { count += first.step; count };
  public query func get() : async Nat { count };
};`;
const DEADLINE_MS = 30_000;

const ends: (() => Promise<void>)[] = [];
let browser: Browser;
let server: RunningServer;
let tally: Uint8Array;

before(async () => {
  const scope = { after: (end: () => Promise<void>) => void ends.push(end) };
  const args = ['--state', await temporaryDirectory()];
  server = await startServer(scope, { manifest: JSON.stringify({ actors: { orders: { main: ORDERS } } }), args });
  ({ wasm: tally } = await compileMotoko(TALLY));
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

const moduleFile = (module: Uint8Array, name = 'tally.wasm') => ({
  name,
  mimeType: 'application/wasm',
  buffer: Buffer.from(module),
});

async function install(name: string, start: number): Promise<void> {
  const form = new FormData();
  form.append('wasm', new Blob([Buffer.from(tally)]));
  form.append('args', `[{"start":${start},"step":1}]`);
  const answer = await fetch(`${server.origin}/install/${name}`, { method: 'POST', body: form });
  assert.equal(answer.status, 200, await answer.text());
}

async function countOf(name: string): Promise<unknown> {
  return JSON.parse((await server.post(`/query-json/${name}/get`)).body);
}

/** Clicks a button, reads what it is about to do, and agrees. */
async function agree(page: Page, label: string, tells: RegExp, yes: string): Promise<void> {
  await page.getByRole('button', { name: label, exact: true }).click();
  const question = page.getByRole('group', { name: label, exact: true });
  await question.getByText(tells).waitFor();
  await question.getByRole('button', { name: yes }).and(page.locator(':focus')).waitFor();
  await page.keyboard.press('Enter');
}

async function textOf(download: Download): Promise<string> {
  return readFileSync(await download.path(), 'utf8');
}

suite('installing', { timeout: 240_000 }, () => {
  test('a module says what its init takes; what is missing stands at its field, and nothing is sent', async (t) => {
    const { page, requests } = await openPage(t, browser, `${server.origin}/`, { isReused: true });
    const form = page.getByRole('region', { name: 'Install an actor' });
    await form.getByRole('button', { name: 'Install' }).click();
    await form.getByText('type a name').waitFor();
    await form.getByText('choose a module').waitFor();
    await form.getByLabel('Name').fill('typed');
    await form.getByText('type a name').waitFor({ state: 'detached' });
    await form.locator('.drop input').setInputFiles(moduleFile(Buffer.from('no module')));
    await form.getByText('the file is no WebAssembly module').waitFor();
    await form.locator('.drop input').setInputFiles(moduleFile(Buffer.from([0x1f, 0x8b, 8, 0, 0, 0])));
    await form.getByText('the file is broken gzip').waitFor();
    await form.locator('.drop input').setInputFiles(moduleFile(gzipSync(tally), 'tally.wasm.gz'));
    await form.getByRole('group', { name: 'Arguments of init' }).waitFor();
    await form.getByLabel('As text').check();
    await form.locator('.type', { hasText: 'record' }).waitFor();
    await form.getByText(/^the module takes \(/).waitFor();
    const args = form.getByLabel('Arguments of init');
    await args.fill('{"start":1}');
    await form.getByText('expected (…), Candid text, or […], a JSON array').waitFor();
    await form.getByLabel('Cycles').fill('many');
    await form.getByText('expected decimal digits').waitFor();
    await form.getByRole('button', { name: 'Install' }).click();
    await form.getByRole('alert').getByText('nothing was sent').waitFor();
    assert.ok(!requests.some((request) => request.startsWith('POST /install')));

    await form.getByLabel('Cycles').fill('');
    await args.fill('(record { start = true; step = 1 })');
    await form.getByRole('button', { name: 'Install' }).click();
    await form
      .getByRole('alert')
      .getByText(/^400: /)
      .waitFor();
    await args.fill('(record { start = 40; step = 2 })');
    await form.getByRole('button', { name: 'Install' }).click();
    await page.getByRole('heading', { name: 'typed' }).waitFor();
    await server.post('/call-json/typed/inc');
    assert.deepEqual(await countOf('typed'), [42]);
  });

  test('a reinstallation says that the state is lost, and loses it', async (t) => {
    await install('again', 5);
    await server.post('/call-json/again/inc');
    const { page } = await openPage(t, browser, `${server.origin}/#/again/code`, { isReused: true });
    const panel = page.getByRole('tabpanel', { name: 'Code' });
    await panel.locator('.install .drop input').setInputFiles(moduleFile(tally));
    await panel.getByLabel('start nat').fill('100');
    await panel.getByLabel('step nat').fill('1');
    await agree(page, 'Reinstall', /is lost, and the module starts afresh/, 'Reinstall, and lose the state');
    await panel.getByText('again has started afresh.').waitFor();
    assert.deepEqual(await countOf('again'), [100]);
  });
});

suite('managing', { timeout: 240_000 }, () => {
  test('an actor is stopped, started and deleted, each after the page has said what that does', async (t) => {
    await install('brief', 1);
    const { page, requests } = await openPage(t, browser, `${server.origin}/#/brief/manage`, { isReused: true });
    await page.getByRole('button', { name: 'Stop', exact: true }).click();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Stop', exact: true }).and(page.locator(':focus')).waitFor();
    assert.ok(!requests.some((request) => request.startsWith('POST')));
    await agree(page, 'Stop', /New calls of brief are refused/, 'Stop brief');
    await page.getByText('brief is stopped.').waitFor();
    await until(() => page.getByRole('button', { name: 'Stop', exact: true }).isDisabled());
    await agree(page, 'Start', /brief is stopped\. It takes calls again/, 'Start brief');
    await page.getByText('brief is started.').waitFor();
    await agree(page, 'Delete', /gone for good.*It is running/, 'Delete brief');
    await page.getByRole('heading', { name: 'This host' }).waitFor();
    assert.equal((await server.get('/candid/brief')).status, 404);
  });

  test('two pages that change at once are told what is so', async (t) => {
    await install('shared', 1);
    const [one, other] = [
      await openPage(t, browser, `${server.origin}/#/shared/manage`, { isReused: true }),
      await openPage(t, browser, `${server.origin}/#/shared/manage`, { isReused: true }),
    ];
    await other.page.getByRole('button', { name: 'Delete', exact: true }).click();
    await agree(one.page, 'Delete', /gone for good/, 'Delete shared');
    await one.page.getByRole('heading', { name: 'This host' }).waitFor();
    await other.page.getByText('There is no actor shared.').waitFor();

    await install('raced', 7);
    const pages = [
      await openPage(t, browser, `${server.origin}/#/raced/code`, { isReused: true }),
      await openPage(t, browser, `${server.origin}/#/raced/code`, { isReused: true }),
    ];
    for (const { page } of pages) {
      await page.locator('.drop input').first().setInputFiles(moduleFile(tally));
      await page.getByLabel('Argument of the upgrade hook').fill('4449444c026c02');
    }
    await Promise.all(pages.map(({ page }) => page.getByRole('button', { name: 'Upgrade raced' }).click()));
    for (const { page } of pages)
      await page
        .getByRole('alert')
        .getByText(/^400: /)
        .waitFor();
    assert.deepEqual(await countOf('raced'), [7]);
  });

  test('settings are checked, and only those that were edited are sent', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/#/orders/manage`, { isReused: true });
    const settings = page.getByLabel('Settings as JSON');
    await until(async () => (await settings.inputValue()).includes('log_visibility'));
    const save = page.getByRole('button', { name: 'Save settings' });
    assert.ok(await save.isDisabled());
    const told = await settings.inputValue();
    await settings.fill(`${told}}`);
    await page.locator('#settings-problem.problem').waitFor();
    assert.ok(await save.isDisabled());
    const edited = JSON.parse(told) as Record<string, unknown>;
    await settings.fill(JSON.stringify({ ...edited, controllers: ['not a principal'] }));
    await page.getByText('Changes controllers;').waitFor();
    await save.click();
    await page
      .getByRole('alert')
      .getByText(/controllers\[0\]/)
      .waitFor();
    await settings.fill(JSON.stringify({ ...edited, log_visibility: { public: null } }));
    const request = page.waitForRequest((asked) => asked.method() === 'PUT');
    await save.click();
    assert.deepEqual(JSON.parse((await request).postData() ?? ''), { log_visibility: { public: null } });
    await page.getByText('The settings are saved.').waitFor();
    assert.match((await server.get('/x/actors/orders/settings')).body, /"log_visibility":\{"public":null\}/);
  });

  test('a snapshot is taken, loaded and deleted', async (t) => {
    await install('kept', 10);
    const { page } = await openPage(t, browser, `${server.origin}/#/kept/manage`, { isReused: true });
    await page.getByText('There is none.').waitFor();
    await agree(page, 'Take a snapshot', /are kept beside it/, 'Take it');
    await page.getByText(/^Snapshot [0-9a-f]+ is taken\.$/).waitFor();
    await server.post('/call-json/kept/inc');
    assert.deepEqual(await countOf('kept'), [11]);
    await agree(page, 'Load', /What happened since is lost/, 'Load it into kept');
    await page.getByText('The snapshot is loaded.').waitFor();
    assert.deepEqual(await countOf('kept'), [10]);
    await agree(page, 'Delete snapshot', /gone for good/, 'Delete it');
    await page.getByText('There is none.').waitFor();
    assert.equal((await server.get('/x/actors/kept/snapshots')).body, '[]');
  });

  test('files come as they are, and a backup restores', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/#/orders/manage`, { isReused: true });
    const download = async (button: string): Promise<Download> => {
      const [file] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: button }).click(),
      ]);
      return file;
    };
    const did = await download('Interface (.did)');
    assert.equal(did.suggestedFilename(), 'orders.did');
    assert.equal(await textOf(did), (await server.get('/candid/orders')).body);
    assert.equal(await textOf(await download('OpenAPI')), (await server.get('/openapi/orders')).body);
    assert.equal(await textOf(await download('TypeScript types')), (await server.get('/x/actors/orders/types')).body);
    assert.ok(await page.getByRole('button', { name: 'Open website' }).isDisabled());
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Download a backup' }).click();
    await page.getByText(/everything that they keep secret/).waitFor();
    const backup = await download('Download it');
    assert.ok(readFileSync(await backup.path()).length > 10_000);
    await page.getByText('The backup is complete.').waitFor();
  });
});

test('a query is watched: each change is shown, and what ends says so', { timeout: 120_000 }, async (t) => {
  await install('live', 3);
  const { page, requests } = await openPage(t, browser, `${server.origin}/#/live/call/get`, { isReused: true });
  await page.getByRole('button', { name: 'Watch' }).click();
  const result = page.getByLabel('Live result').locator('pre').or(page.locator('pre[aria-label="Live result"]'));
  await until(async () => (await result.textContent()) === '[3]');
  await server.post('/call-json/live/inc');
  await until(async () => (await result.textContent()) === '[4]');
  await page.getByText('2 answers').waitFor();
  assert.equal(requests.filter((request) => request.includes('/watch/')).length, 1);
  await page.getByRole('button', { name: 'Stop watching' }).click();
  await result.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Watch' }).click();
  await result.waitFor();
  const ended = page.getByText('ended', { exact: true }).or(page.getByText('There is no actor live.'));
  await server.fetch('/actors/live?force=true', { method: 'DELETE' });
  await ended.first().waitFor();
});
