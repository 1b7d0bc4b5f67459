/** Arguments of `init` as form fields in the inspector page, in a real Chromium: typed by the module's interface. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { Browser, Locator, Page } from 'playwright-core';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { wat } from '../support/wat.ts';
import { launchBrowser, openPage } from './browser.ts';

const STALL = `persistent actor class Stall(first : { owner : Text; kind : { #open; #closed : Nat8 } }, limits : [Nat]) {
  public query func told() : async Text { debug_show (first, limits) };
};`;

const ends: (() => Promise<void>)[] = [];
let browser: Browser;
let server: RunningServer;
let stall: Uint8Array;

before(async () => {
  server = await startServer({ after: (end) => void ends.push(end) }, { manifest: '{"actors":{}}' });
  ({ wasm: stall } = await compileMotoko(STALL));
  browser = await launchBrowser();
});
after(async () => {
  await browser.close();
  for (const end of ends) await end();
});

async function choose(form: Locator, module: Uint8Array): Promise<void> {
  const file = { name: 'a.wasm', mimeType: 'application/wasm', buffer: Buffer.from(module) };
  await form.locator('.drop input').setInputFiles(file);
}

function installForm(page: Page): Locator {
  return page.getByRole('region', { name: 'Install an actor' });
}

async function told(name: string): Promise<string> {
  return (JSON.parse((await server.post(`/query-json/${name}/told`)).body) as [string])[0];
}

suite('arguments of init', { timeout: 240_000 }, () => {
  test('are fields by their types; what is wrong stands at its field, and nothing is sent', async (t) => {
    const { page, requests } = await openPage(t, browser, `${server.origin}/`, { isReused: true });
    const form = installForm(page);
    await form.getByLabel('Name').fill('stall');
    await choose(form, stall);
    const owner = form.getByLabel('owner text');
    await owner.fill('<b>Ada</b>');
    await form.getByRole('button', { name: 'Add item' }).click();
    await form.getByLabel('0 nat').fill('two');
    await form.getByRole('button', { name: 'Install' }).click();
    await form.getByText('choose one').waitFor();
    await form.getByText('expected a nat: digits only').waitFor();
    await form.getByRole('alert').getByText('nothing was sent').waitFor();
    assert.ok(!requests.some((request) => request.startsWith('POST /install')));
    await form.getByLabel('0 nat').fill('2');
    await form.getByText('expected a nat: digits only').waitFor({ state: 'detached' });
    await form.getByRole('combobox', { name: 'kind' }).selectOption('closed');
    await form.getByRole('textbox', { name: 'nat8' }).fill('7');

    await form.getByLabel('As text').check();
    const text = form.getByLabel('Arguments of init');
    const kind = 'kind = variant { closed = 7 : nat8 }';
    assert.equal(await text.inputValue(), `(record { ${kind}; owner = "<b>Ada</b>" }, vec { 2 : nat })`);
    await text.fill('(record {})');
    await form.getByLabel('As text').click();
    await form.getByText('Candid text does not become a form').waitFor();
    await text.fill('[{"owner": "Bea", "kind": {"open": null}}, [3, 4]]');
    await form.getByLabel('As text').uncheck();
    assert.equal(await owner.inputValue(), 'Bea');
    assert.equal(await form.getByLabel('1 nat').inputValue(), '4');
    await form.getByRole('button', { name: 'Install' }).click();
    await page.getByRole('heading', { name: 'stall', exact: true }).waitFor();
    assert.match(await told('stall'), /Bea.*\[3, 4\]/);
  });

  test('are text where the module tells no types, or other ones are chosen', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/`, { isReused: true });
    const form = installForm(page);
    await choose(form, stall);
    await form.getByLabel('owner text').waitFor();
    await choose(form, wat('(module (memory 1))'));
    await form.getByRole('textbox', { name: 'Arguments of init' }).waitFor();
    assert.equal(await form.getByLabel('As text').count(), 0);
    await form.getByLabel('Name').fill('bare');
    await form.getByRole('button', { name: 'Install' }).click();
    await page.getByRole('heading', { name: 'bare' }).waitFor();
  });
});
