/** Calls in the inspector page in a real Chromium: what they did, what is wrong with them, and what is kept of them. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { wat } from '../support/wat.ts';
import { launchBrowser, openPage } from './browser.ts';

const ORDERS = join(import.meta.dirname, '../fixtures/inspector/Orders.mo');
const KINDS = `persistent actor Kinds {
  public func small(byte : Nat8, whole : Int16) : async Nat { ignore whole; ignore byte; 1 };
  public func who(p : Principal) : async Principal { p };
  public func wait() : async () { loop { await async {} } };
  public query func big(numbers : [Nat], note : ?Text) : async ([Nat], ?Text) { (numbers, note) };
};`;
const DEADLINE_MS = 30_000;

const ends: (() => Promise<void>)[] = [];
let browser: Browser;
let server: RunningServer;
let kinds: Uint8Array;

before(async () => {
  const scope = { after: (end: () => Promise<void>) => void ends.push(end) };
  server = await startServer(scope, { manifest: JSON.stringify({ actors: { orders: { main: ORDERS } } }) });
  ({ wasm: kinds } = await compileMotoko(KINDS));
  assert.equal((await server.post('/install/kinds', kinds)).status, 200);
  const echo = wat(`(module
    (import "ic0" "msg_arg_data_size" (func $size (result i32)))
    (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
    (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
    (import "ic0" "msg_reply" (func $reply))
    (memory 1)
    (func (export "canister_query echo")
      (call $copy (i32.const 0) (i32.const 0) (call $size))
      (call $append (i32.const 0) (call $size))
      (call $reply)))`);
  assert.equal((await server.post('/install/bytes', echo)).status, 200);
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

const resultText = async (page: Page): Promise<string> =>
  (await page.getByLabel('Result', { exact: true }).locator('pre').first().textContent()) ?? '';

suite('a call and what it did', { timeout: 240_000 }, () => {
  test('has instructions, cycles, time and the number of messages that it caused beside its result', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/#/orders/call/say`, { isReused: true });
    await page.getByLabel('line text').fill('hello');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    const effects = page.getByLabel('Effects');
    await effects.waitFor();
    const [entry] = (JSON.parse((await server.get('/history/orders')).body) as { instructions: number }[]).slice(-1);
    const shown = await effects.locator('dt:text-is("Instructions") + dd').textContent();
    assert.equal(shown?.replaceAll(/\D/g, ''), String(entry?.instructions));
    assert.equal(await effects.locator('dt:text-is("Caused") + dd').textContent(), 'no other messages');
  });

  test('each end has its name', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/#/orders/call/fail`, { isReused: true });
    const call = page.getByRole('button', { name: 'Call', exact: true });
    await call.click();
    await page.getByText('Trap', { exact: true }).waitFor();
    await server.post('/stop/orders');
    await page.locator('.actor-head').getByText('stopped').waitFor();
    await call.click();
    await page.getByText('Actor is stopped', { exact: true }).waitFor();
    await server.post('/start/orders');
    await page.getByRole('button', { name: /^total/ }).click();
    await page.getByLabel('As JSON').check();
    await page.getByLabel('Arguments').fill('[1, 2]');
    await page.getByRole('button', { name: 'Query', exact: true }).click();
    await page.getByText('Bad argument', { exact: true }).waitFor();
  });

  test('the time that it takes is shown, and nobody has to wait for it', async (t) => {
    // An actor of its own: the call goes on until the actor is deleted, and would slow down all other cases.
    assert.equal((await server.post('/install/endless', kinds)).status, 200);
    const { page } = await openPage(t, browser, `${server.origin}/#/endless/call/wait`, { isReused: true });
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByRole('timer').waitFor();
    await page.getByRole('button', { name: 'Do not wait' }).click();
    await page.getByText('nobody waits for this call any more').waitFor();
    await page.getByRole('button', { name: 'Call', exact: true }).waitFor();
    assert.equal((await server.fetch('/actors/endless?force=true', { method: 'DELETE' })).status, 200);
  });
});

suite('what is wrong', { timeout: 240_000 }, () => {
  test('stands at its field, goes when it is corrected, and is not sent', async (t) => {
    const { page, requests } = await openPage(t, browser, `${server.origin}/#/kinds/call/small`, { isReused: true });
    const call = page.getByRole('button', { name: 'Call', exact: true });
    await page.getByLabel('byte nat8').fill('256');
    await page.getByLabel('whole int16').fill('-32769');
    await call.click();
    await page.getByText('a nat8 is from 0 to 255').waitFor();
    await page.getByText('an int16 is from -32768 to 32767').waitFor();
    await page.getByLabel('byte nat8').fill('255');
    await page.getByText('a nat8 is from 0 to 255').waitFor({ state: 'detached' });
    await page.getByText('an int16 is from -32768 to 32767').waitFor();
    await page.getByLabel('whole int16').fill('-32768');
    await page.getByText('an int16 is from').waitFor({ state: 'detached' });

    await page.getByLabel('Caller').fill('aaaaa-ab');
    await call.click();
    const caller = page.locator('#caller-problem');
    await caller.waitFor();
    await page.getByLabel('Caller').fill('aaaaa-aa');
    await caller.waitFor({ state: 'hidden' });
    assert.ok(!requests.some((request) => request.includes('-json/')));
    await call.click();
    await until(async () => (await resultText(page)) === '[1]');

    await page.getByRole('button', { name: /^who/ }).click();
    await page.getByRole('textbox', { name: 'principal' }).fill('bkyz2-fmaaa-aaaaa-qaaaq-caj');
    await call.click();
    await page.getByText('the checksum of this principal is wrong').waitFor();
    await page.getByRole('textbox', { name: 'principal' }).fill('bkyz2-fmaaa-aaaaa-qaaaq-cai');
    await page.getByText('the checksum of this principal is wrong').waitFor({ state: 'detached' });
    await call.click();
    await until(async () => (await resultText(page)) === '["bkyz2-fmaaa-aaaaa-qaaaq-cai"]');
  });
});

suite('what is kept', { timeout: 240_000 }, () => {
  test('JSON and form become each other, in both encodings, without rounding', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/#/kinds/call/big`, { isReused: true });
    await page.getByLabel('As JSON').check();
    const json = page.getByLabel('Arguments');
    await json.fill('[[1, 90071992547409931234], "x"]');
    await page.getByLabel('Lossless').check();
    assert.deepEqual(JSON.parse(await json.inputValue()), [
      [
        { $svc: 'nat', value: '1' },
        { $svc: 'nat', value: '90071992547409931234' },
      ],
      { $svc: 'some', value: 'x' },
    ]);
    await page.getByLabel('As JSON').uncheck();
    await page
      .getByRole('textbox')
      .and(page.locator('[value="90071992547409931234"]'))
      .or(page.locator('form'))
      .first()
      .waitFor();
    await page.getByLabel('Lossless').uncheck();
    await page.getByLabel('As JSON').check();
    assert.deepEqual(JSON.parse(await json.inputValue()), [[1, '90071992547409931234'], 'x']);
    await json.fill('[[1], 2, 3]');
    await page.getByLabel('As JSON').click();
    await page.getByText('the method takes 2 arguments, not 3').waitFor();
    assert.ok(await page.getByLabel('As JSON').isChecked());
    await json.fill('[[1], null');
    await page.getByRole('button', { name: 'Query', exact: true }).click();
    await page.locator('#arguments-problem').filter({ hasText: /./ }).waitFor();
    await json.fill('[[1], null]');
    await page.locator('#arguments-problem').filter({ hasText: /./ }).waitFor({ state: 'detached' });
  });

  test('what was typed outlives a reload, and a link brings it to others', async (t) => {
    const options = { permissions: ['clipboard-read', 'clipboard-write'], isReused: true };
    const { page } = await openPage(t, browser, `${server.origin}/#/kinds/call/small`, options);
    await page.getByLabel('byte nat8').fill('7');
    await page.getByLabel('Caller').fill('aaaaa-aa');
    await page.reload();
    await until(async () => (await page.getByLabel('byte nat8').inputValue()) === '7');
    assert.equal(await page.getByLabel('Caller').inputValue(), 'aaaaa-aa');
    await page.getByLabel('whole int16').fill('-3');
    await page.getByRole('button', { name: 'Copy link' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const link: string = await page.evaluate('navigator.clipboard.readText()');
    const other = await openPage(t, browser, link, { isReused: true });
    await until(async () => (await other.page.getByLabel('whole int16').inputValue()) === '-3');
    assert.equal(await other.page.getByLabel('byte nat8').inputValue(), '7');
    assert.equal(await other.page.getByLabel('Caller').inputValue(), 'aaaaa-aa');
    assert.ok(!other.requests.some((request) => request.includes('-json/')), 'a link calls nothing');
  });

  test('an actor without interface takes and gives raw bytes', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/#/bytes/call/echo`, { isReused: true });
    await page.getByLabel('Raw bytes').check();
    const field = page.getByLabel('Arguments');
    await field.fill('00ff1');
    await page.getByRole('button', { name: 'Query', exact: true }).click();
    await page.getByText('expected pairs of hex digits').waitFor();
    await field.fill('00ff10');
    await page.getByText('expected pairs of hex digits').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Query', exact: true }).click();
    await until(async () => (await resultText(page)) === '00ff10');
    await page.getByText('3 bytes of Candid, in hex').waitFor();
  });

  test('a call is copied as code that does the same', async (t) => {
    const options = { permissions: ['clipboard-read', 'clipboard-write'], isReused: true };
    const { page } = await openPage(t, browser, `${server.origin}/#/kinds/call/small`, options);
    await page.getByLabel('byte nat8').fill('7');
    await page.getByLabel('whole int16').fill('-3');
    await page.getByRole('button', { name: 'Copy as fetch' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const code: string = await page.evaluate('navigator.clipboard.readText()');
    const module = `data:text/javascript,${encodeURIComponent(`${code}\nexport default result;`)}`;
    assert.deepEqual(((await import(module)) as { default: unknown }).default, [1]);
  });
});
