/** Code, Candid text and saved calls that the inspector page makes of its call form, in a real Chromium. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, suite, test } from 'node:test';
import { promisify } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { launchBrowser, openPage } from './browser.ts';

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '../..');
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');
const TOKEN = 'correct-horse';
const KINDS = `persistent actor class Kinds(start : { first : Int; names : [Text] }) {
  public func put(whole : Int, note : ?Text, side : { #left; #right : Nat8 }) : async Text {
    debug_show (start.first, start.names, whole, note, side)
  };
};`;
const COMPILED = {
  compilerOptions: {
    strict: true,
    noEmit: true,
    target: 'es2024',
    module: 'nodenext',
    lib: ['es2024', 'dom', 'dom.iterable', 'dom.asynciterable'],
    types: [],
    allowImportingTsExtensions: true,
    paths: { 'svc/client': [join(ROOT, 'client/index.ts')] },
  },
  files: ['globals.d.ts', 'call.mts'],
};
const CLIPBOARD = { permissions: ['clipboard-read', 'clipboard-write'], isReused: true };
const STORED = 'svc-inspector-saved-calls';

const ends: (() => Promise<void>)[] = [];
let browser: Browser;
let server: RunningServer;
let kinds: Uint8Array;

before(async () => {
  const scope = { after: (end: () => Promise<void>) => void ends.push(end) };
  server = await startServer(scope, { manifest: '{"actors":{}}', args: ['--auth-token', TOKEN] });
  ({ wasm: kinds } = await compileMotoko(KINDS));
  await install('kinds', '(record { first = -1; names = vec { "a" } })');
  await install('other', '(record { first = 7; names = vec {} })');
  browser = await launchBrowser();
});
after(async () => {
  await browser.close();
  for (const end of ends) await end();
});

async function install(name: string, args: string): Promise<void> {
  const form = new FormData();
  form.append('wasm', new Blob([Buffer.from(kinds)]));
  form.append('args', args);
  const answer = await server.fetch(`/install/${name}`, {
    method: 'POST',
    body: form,
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  assert.equal(answer.status, 200, await answer.text());
}

async function enter(page: Page): Promise<void> {
  await page.getByLabel('bearer token').fill(TOKEN);
  await page.keyboard.press('Enter');
}

/** Fills in the form of `put`. */
async function fill(page: Page): Promise<void> {
  await page.getByLabel('whole int').fill('-90071992547409931234');
  await page.getByLabel('note opt text').check();
  await page.getByRole('textbox', { name: 'text', exact: true }).fill('it\'s "so"');
  await page.getByRole('combobox', { name: 'side' }).selectOption('right');
  await page.getByRole('textbox', { name: 'nat8' }).fill('7');
}

async function copied(page: Page, button: string): Promise<string> {
  await page.getByRole('button', { name: button, exact: true }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  return page.evaluate<string>('navigator.clipboard.readText()');
}

const RESULT = `(-1, ["a"], -90_071_992_547_409_931_234, ?"it's "so"", #right(7))`;

suite('copies', { timeout: 240_000 }, () => {
  test('as TypeScript it is checked by the declarations of its actor, and makes the same call', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/#/kinds/call/put`, CLIPBOARD);
    await enter(page);
    await fill(page);
    const code = await copied(page, 'Copy as TypeScript');
    const folder = await temporaryDirectory();
    const [, command] = /^\/\/ Types: (.*)$/m.exec(code) ?? [];
    assert.ok(command !== undefined, code);
    const env = { ...process.env, SVC_TOKEN: TOKEN };
    await run('sh', ['-c', command], { cwd: folder, env });
    const file = join(folder, 'call.mts');
    await writeFile(file, code);
    await writeFile(
      join(folder, 'globals.d.ts'),
      'declare const process: { env: Record<string, string | undefined> };',
    );
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(COMPILED));
    await run(process.execPath, [TSC, '-p', folder]);
    const client = pathToFileURL(join(ROOT, 'client/index.ts')).href;
    await writeFile(
      file,
      `${code.replace("'svc/client'", JSON.stringify(client))}\nconsole.log(JSON.stringify(result));`,
    );
    const { stdout } = await run(process.execPath, [file], { env });
    assert.equal(stdout.trim().split('\n').at(-1), JSON.stringify([RESULT]));
  });

  test('arguments as Candid text are those of the form, and a form that is wrong is not copied', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/#/kinds/call/put`, CLIPBOARD);
    await enter(page);
    const button = page.getByRole('button', { name: 'Copy as Candid text' });
    await button.click();
    await page.getByText('type an int').waitFor();
    await fill(page);
    const text = await copied(page, 'Copy as Candid text');
    assert.equal(text, String.raw`(-90071992547409931234, opt "it's \"so\"", variant { right = 7 : nat8 })`);
    await page.getByLabel('As JSON').check();
    assert.equal(await copied(page, 'Copy as Candid text'), text);
    await page.getByLabel('Arguments').fill('[1, null, {"up": 1}]');
    await button.click();
    await page.getByText('argument 3: expected one of left, right').waitFor();
  });
});

suite('saved calls', { timeout: 240_000 }, () => {
  test('are listed, opened and deleted, and outlive a reload', async (t) => {
    const { page, requests } = await openPage(t, browser, `${server.origin}/#/kinds/call/put`, { isReused: true });
    await enter(page);
    await fill(page);
    await page.getByRole('button', { name: 'Save …' }).click();
    const name = page.getByLabel('Name of the saved call');
    await name.and(page.locator(':focus')).waitFor();
    assert.equal(await name.inputValue(), 'put');
    await name.fill('');
    await page.keyboard.press('Enter');
    await page.getByText('type a name').waitFor();
    await name.fill('<b>the usual</b>');
    await page.keyboard.press('Enter');
    await page.getByText('Saved in this browser.').waitFor();
    assert.ok(!requests.some((request) => request.includes('call-json')), 'saving calls nothing');

    // In this order: the former actor has the same list, which is closed when the other one's interface comes.
    await page.goto(`${server.origin}/#/other/call`);
    await page.reload();
    await page.getByRole('heading', { name: 'other' }).waitFor();
    await page.getByText('Saved calls (1)').click();
    const saved = page.getByRole('list', { name: 'Saved calls' });
    await saved.getByRole('button', { name: '<b>the usual</b> kinds' }).click();
    await page.getByRole('heading', { name: 'kinds' }).waitFor();
    const whole = page.getByLabel('whole int');
    await whole.waitFor();
    assert.equal(await whole.inputValue(), '-90071992547409931234');
    await whole.fill('5');
    // Opened again at the same address.
    await page.getByText('Saved calls (1)').click();
    await saved.getByRole('button', { name: '<b>the usual</b>', exact: true }).click();
    await page.waitForFunction(
      `[...document.querySelectorAll('.method-call input')].some(({ value }) => value === '-90071992547409931234')`,
    );
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByLabel('Result', { exact: true }).locator('pre').filter({ hasText: '#right(7)' }).waitFor();
    await page.getByRole('button', { name: 'Delete saved call <b>the usual</b>' }).click();
    await saved.waitFor({ state: 'detached' });
    assert.equal(await page.evaluate(`localStorage.getItem('${STORED}')`), '[]');
  });

  test('that are broken, or somebody else has written, change nothing', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/#/kinds/call/put`, { isReused: true });
    const good = { name: 'good', actor: 'kinds', method: 'put', shared: { args: '[5, null, {"left": null}]' } };
    const gone = { name: 'gone', actor: 'kinds', method: 'nothing', shared: { args: 'no JSON' } };
    const entries = [null, 7, { name: {} }, { ...good, name: 'evil', actor: ['x'] }, good, gone];
    for (const stored of ['{', '"x"', JSON.stringify(entries)]) {
      await page.evaluate(`localStorage.setItem('${STORED}', ${JSON.stringify(stored)})`);
      await page.reload();
      const heading = page.getByRole('heading', { name: 'put' });
      await heading.or(page.getByLabel('bearer token')).waitFor();
      if (await page.getByLabel('bearer token').isVisible()) await enter(page);
      await heading.waitFor();
    }
    await page.getByText('Saved calls (2)').click();
    const saved = page.getByRole('list', { name: 'Saved calls' });
    assert.equal(await saved.getByRole('listitem').count(), 2);
    await saved.getByRole('button', { name: 'gone', exact: true }).click();
    await page.waitForURL(/call\/nothing/);
    await saved.getByRole('button', { name: 'good', exact: true }).click();
    await page.waitForFunction(`document.querySelector('.method-call input')?.value === '5'`);
  });
});
