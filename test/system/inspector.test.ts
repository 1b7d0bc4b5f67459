/** The inspector page in a real Chromium, against a real server with real actors. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { Browser, Locator, Page } from 'playwright-core';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';
import { launchBrowser, openPage, type PageOptions, type WatchedPage } from './browser.ts';

const TOKEN = 'correct-horse';
const AUTHORIZED = { authorization: `Bearer ${TOKEN}` };
const ORDERS = join(import.meta.dirname, '../fixtures/inspector/Orders.mo');
/** Number of actors for more than two pages of the list. */
const CROWD = 110;
/** Number of actors installed before the crowd: orders, box, described. */
const OTHERS = 3;
/** A method whose name has a blank does not count as public. */
const EVIL_METHOD = '<img/src=x/onerror=window.hacked=1>';
/** Limit for what a page is told next, on a machine that does ten other things. */
const DEADLINE_MS = 30_000;

/** Answers with its version, by two methods of which one has a hostile name; it has no Candid interface. */
function versioned(version: number): Uint8Array {
  return wat(`(module
    (import "ic0" "msg_reply" (func $reply))
    (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
    (memory 1)
    (data (i32.const 0) "DIDL\\00\\01\\7d\\0${version}")
    (func $answer (call $append (i32.const 0) (i32.const 8)) (call $reply))
    (func (export "canister_query version") (call $answer))
    (func (export "canister_query ${EVIL_METHOD}") (call $answer)))`);
}

/** Makes a custom section. */
function section(name: string, content: string): Uint8Array {
  const [label, body] = [Buffer.from(name), Buffer.from(content)];
  return Buffer.concat([Buffer.of(0, 1 + label.length + body.length, label.length), label, body]);
}

const ends: (() => Promise<void>)[] = [];
let browser: Browser;
let server: RunningServer;

before(async () => {
  server = await startServer(
    { after: (end) => void ends.push(end) },
    { manifest: JSON.stringify({ actors: { orders: { main: ORDERS } } }), args: ['--auth-token', TOKEN] },
  );
  await post('/install/box', versioned(1));
  browser = await launchBrowser();
});
after(async () => {
  await browser.close();
  for (const end of ends) await end();
});

async function post(path: string, body: string | Uint8Array = '[]'): Promise<string> {
  const answer = await server.post(path, body, AUTHORIZED);
  assert.equal(answer.status, 200, answer.body);
  return answer.body;
}

/** Opens a page that has been given the token. */
async function inspect(t: TestContext, hash = '', options: PageOptions = {}): Promise<WatchedPage> {
  const watched = await openPage(t, browser, `${server.origin}/inspector${hash}`, { isReused: true, ...options });
  await watched.page.getByLabel('bearer token').fill(TOKEN);
  await watched.page.keyboard.press('Enter');
  await watched.page.getByRole('listbox').getByRole('option').first().waitFor();
  return watched;
}

/** Resolves when `isTrue` holds. */
async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + DEADLINE_MS;
  while (!(await isTrue())) {
    assert.ok(Date.now() < deadline, `not so within ${DEADLINE_MS} ms: ${isTrue.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Returns the result of a call, as JSON. */
async function resultOf(page: Page): Promise<unknown> {
  return JSON.parse((await page.getByLabel('Result', { exact: true }).locator('pre').first().textContent()) ?? '');
}

async function isHacked(page: Page): Promise<boolean> {
  return page.evaluate('"hacked" in window || document.querySelector("#app img, #app script, #app a") !== null');
}

const option = (page: Page, name: string): Locator =>
  page.getByRole('listbox').getByRole('option').filter({ hasText: name });

suite('the token', { timeout: 120_000 }, () => {
  test('is asked for, refused when it is wrong, and kept for the tab until it is forgotten', async (t) => {
    const { page, requests } = await openPage(t, browser, `${server.origin}/`, { isReused: true });
    await page.getByLabel('bearer token').fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByText('This server knows no such token.').waitFor();
    const asked = requests.length;
    await page.getByLabel('bearer token').fill('жук');
    await page.keyboard.press('Enter');
    await page.getByText('A token has visible ASCII characters').waitFor();
    assert.equal(requests.length, asked, 'what a header cannot hold is not sent');
    await page.getByLabel('bearer token').fill('two words');
    await page.keyboard.press('Enter');
    await page.getByText('This server knows no such token.').waitFor();
    await page.getByLabel('bearer token').fill(TOKEN);
    await page.getByRole('button', { name: 'Log in' }).click();
    await option(page, 'orders').waitFor();
    await page.reload();
    await option(page, 'orders').waitFor();
    assert.ok(!requests.some((request) => request.includes(TOKEN)));

    const tab = await page.context().newPage();
    await tab.goto(`${server.origin}/`);
    await tab.getByLabel('bearer token').waitFor();

    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('bearer token').waitFor();
    await page.reload();
    await page.getByLabel('bearer token').waitFor();
  });

  test('is not asked for where the server has none', async (t) => {
    const open = await startServer(t, { manifest: '{"actors":{}}' });
    const { page } = await openPage(t, browser, `${open.origin}/inspector`, { isReused: true });
    await page.getByText('No actors yet.').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Log out' }).count(), 0);
  });

  test('a server that runs with --no-inspector has no page', async (t) => {
    const without = await startServer(t, { manifest: '{"actors":{}}', args: ['--no-inspector'] });
    const answer = await without.get('/inspector');
    assert.equal(answer.status, 404);
    assert.match(answer.body, /turned off \(--no-inspector\)/);
  });
});

suite('calls', { timeout: 120_000 }, () => {
  test('an update with a record, a variant, an opt and a vec is filled in and called', async (t) => {
    const { page } = await inspect(t, '#/orders/call/place');
    const call = page.getByRole('button', { name: 'Call', exact: true });
    await page.getByLabel('customer text').fill('Ada <b>Lovelace</b>');
    await page.getByRole('button', { name: 'Add item' }).click();
    await page.getByLabel('article text').fill('engine');
    await page.getByLabel('quantity nat').fill('two');
    await page.getByLabel('price float64').fill('12.5');

    await call.click();
    await page.getByText('expected a nat: digits only').waitFor();
    await page.getByText('choose one').waitFor();
    assert.equal(await page.getByRole('status').count(), 0, 'nothing was sent');

    await page.getByLabel('quantity nat').fill('2');
    await page.getByLabel('delivery Delivery').selectOption('address');
    await page.getByLabel('street text').fill('St James’s Square');
    await page.getByLabel('city text').fill('London');
    await page.getByLabel('note opt text').check();
    await page.getByRole('tab', { name: 'Overview' }).click();
    await page.getByRole('tabpanel', { name: 'Overview' }).waitFor();
    await page.getByRole('tab', { name: 'Call' }).click();
    await page.locator('.nested textarea').last().fill('line 1\nline 2');
    await call.click();
    const answer = (await resultOf(page)) as [{ ok: number }];
    assert.ok(answer[0].ok >= 1);

    await page.getByRole('button', { name: /^list/ }).click();
    await page.getByRole('button', { name: 'Query', exact: true }).click();
    await page.getByText('Ada <b>Lovelace</b>').first().waitFor();
    const [orders] = (await resultOf(page)) as [unknown[]];
    assert.deepEqual(orders.at(-1), {
      customer: 'Ada <b>Lovelace</b>',
      items: [{ article: 'engine', quantity: 2, price: 12.5 }],
      delivery: { address: { street: 'St James’s Square', city: 'London' } },
      note: 'line 1\nline 2',
    });
  });

  test('a recursive type unfolds as far as somebody wants', async (t) => {
    const { page } = await inspect(t, '#/orders/call/sum');
    await page.getByLabel('Tree').selectOption('node');
    for (const [index, leaf] of ['40', '2'].entries()) {
      await page
        .getByRole('tabpanel')
        .getByRole('combobox')
        .nth(index + 1)
        .selectOption('leaf');
      await page.getByPlaceholder('0', { exact: true }).nth(index).fill(leaf);
    }
    // The form is sent by the keyboard alone.
    await page.keyboard.press('Control+Enter');
    assert.deepEqual(await resultOf(page), [42]);
  });

  test('results are shown in both encodings, arguments may be JSON, and the caller may be claimed', async (t) => {
    const { page } = await inspect(t, '#/orders/call/large');
    const query = page.getByRole('button', { name: 'Query', exact: true });
    await query.click();
    assert.deepEqual(await resultOf(page), ['18446744073709551615', 0.5]);
    await page.getByLabel('Lossless').check();
    await query.click();
    await page.getByText('"$svc"').first().waitFor();
    assert.deepEqual(await resultOf(page), [
      { $svc: 'nat64', value: '18446744073709551615' },
      { $svc: 'float64', value: '0.5' },
    ]);

    await page.getByRole('button', { name: /^whoami/ }).click();
    // The form of the method before has such a field, too.
    await page.getByText('"$svc"').first().waitFor({ state: 'hidden' });
    await page.getByLabel('Caller').fill('aaaaa-aa');
    await query.click();
    assert.deepEqual(await resultOf(page), ['aaaaa-aa']);

    await page.getByRole('button', { name: /^total/ }).click();
    await page.getByLabel('number nat').fill('7');
    await page.getByLabel('As JSON').check();
    assert.equal(await page.getByLabel('Arguments').inputValue(), '[7]');
    await page.getByLabel('Arguments').fill('[1, 2]');
    await query.click();
    await page
      .getByRole('alert')
      .getByText(/expected an array of 1 argument/)
      .waitFor();
  });

  test('a key that is held is one call, and each call has a key of its own', async (t) => {
    const { page } = await inspect(t, '#/orders/call/say');
    const keys: (string | undefined)[] = [];
    let release = (): void => undefined;
    await page.route(/\/(?:call|query)-json\//, async (route) => {
      keys.push(route.request().headers()['idempotency-key']);
      await new Promise<void>((resolve) => (release = resolve));
      await route.continue();
    });
    const pressFor = async (times: number): Promise<void> => {
      for (let time = 0; time < times; time++) await page.keyboard.down('Enter');
    };
    await page.getByLabel('line text').fill('once');
    await page.keyboard.down('Control');
    await pressFor(3);
    await page.getByRole('button', { name: 'Waiting' }).waitFor();
    await page.keyboard.up('Enter');
    await page.keyboard.press('Enter');
    await page.keyboard.down('Enter');
    release();
    assert.deepEqual(await resultOf(page), []);
    await pressFor(3);
    await page.keyboard.up('Enter');
    assert.equal(keys.length, 1);
    await page.keyboard.press('Enter');
    await page.keyboard.up('Control');
    await until(() => keys.length === 2);
    release();
    assert.match(keys.join(' '), /^[0-9a-f]{32} [0-9a-f]{32}$/);
    assert.notEqual(keys[0], keys[1]);

    await page.getByRole('button', { name: /^list/ }).click();
    await page.getByRole('button', { name: 'Query', exact: true }).click();
    await until(() => keys.length === 3);
    release();
    assert.equal(keys[2], undefined);
  });

  test('what is wrong in a form is not sent, not copied, and not turned into JSON', async (t) => {
    const { page, requests } = await inspect(t, '#/orders/call/total');
    const wrong = page.getByText('expected a nat: digits only');
    await page.getByLabel('number nat').fill('1x');
    await page.getByRole('button', { name: 'Copy as curl' }).click();
    await wrong.waitFor();
    assert.equal(await page.getByText(/^Copied$|curl -X/).count(), 0);
    await page.getByLabel('As JSON').click();
    assert.equal(await page.getByLabel('As JSON').isChecked(), false);
    await page.getByLabel('number nat').fill('1');
    for (const caller of ['жук', 'A', 'a b']) {
      await page.getByLabel('Caller').fill(caller);
      await page.keyboard.press('Control+Enter');
      await page.getByLabel('Caller').and(page.locator(':invalid:focus')).waitFor();
    }
    assert.equal(await page.getByRole('alert').count(), 0);
    assert.ok(!requests.some((request) => request.includes('-json/')));
  });

  test('what is typed stays while somebody looks elsewhere', async (t) => {
    const { page } = await inspect(t, '#/orders/call/total');
    const field = page.getByLabel('number nat');
    await field.fill('7');
    await page.getByRole('button', { name: /^say/ }).click();
    await page.getByLabel('line text').waitFor();
    await option(page, 'orders').click();
    await page.getByLabel('line text').waitFor();
    await page.getByRole('button', { name: /^total/ }).click();
    assert.equal(await field.inputValue(), '7');
    await field.focus();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    await page.getByRole('heading', { name: 'This host' }).waitFor();
    await page.goBack();
    assert.equal(await field.inputValue(), '7');
  });

  test('a trap is shown with its reason, which stays text', async (t) => {
    const { page } = await inspect(t, '#/orders/call/fail');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    // The reason stands in the answer, and below it as what the message has printed.
    await page.getByText('the shelf <b>fell</b> over').first().waitFor();
    await page.getByText('Trap', { exact: true }).waitFor();
    assert.equal(await isHacked(page), false);
  });

  test('the command that is copied does the same in a shell', async (t) => {
    const { page } = await inspect(t, '#/orders/call/say', { permissions: ['clipboard-read', 'clipboard-write'] });
    await page.getByLabel('line text').fill(`it's "quoted" $HOME`);
    await page.getByRole('button', { name: 'Copy as curl' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const command: string = await page.evaluate('navigator.clipboard.readText()');
    assert.doesNotMatch(command, new RegExp(TOKEN));
    const { execFile } = await import('node:child_process');
    const shell = execFile('sh', ['-c', `${command} --silent --show-error`], {
      env: { ...process.env, SVC_TOKEN: TOKEN },
    });
    let printed = '';
    shell.stdout?.setEncoding('utf8').on('data', (text: string) => (printed += text));
    await once(shell, 'close');
    assert.equal(printed, '[]');
    assert.match((await server.get('/logs/orders', AUTHORIZED)).body, /it's "quoted" \$HOME\n/);
  });

  test('methods without an interface are called with lossless JSON, whatever their names', async (t) => {
    const { page } = await inspect(t, '#/box/call');
    await page.getByRole('button', { name: /^version/ }).click();
    await page.getByRole('button', { name: 'Query', exact: true }).click();
    assert.deepEqual(await resultOf(page), [{ $svc: 'nat', value: '1' }]);
    await page.getByRole('button').filter({ hasText: EVIL_METHOD }).click();
    await page.getByRole('heading', { name: EVIL_METHOD }).waitFor();
    await page.getByRole('button', { name: 'Query', exact: true }).click();
    assert.deepEqual(await resultOf(page), [{ $svc: 'nat', value: '1' }]);
    assert.equal(await isHacked(page), false);
  });
});

suite('what actors do', { timeout: 120_000 }, () => {
  test('numbers move on the screen, and not while the tab is hidden', async (t) => {
    const { page, requests } = await inspect(t, '#/orders/overview');
    const streams = (): number => requests.filter((request) => /\/x\/host\?/.test(request)).length;
    const opened = streams();
    const messages = page.locator('dt:text-is("Messages") + dd');
    const shown = async (): Promise<number> => Number((await messages.textContent())?.replaceAll(/\D/g, ''));
    const first = await shown();
    // Without a clipboard the text is shown for copying by hand, and its selection stays.
    await page.evaluate(`Object.defineProperty(window, 'isSecureContext', { value: false })`);
    await page.getByRole('button', { name: 'Copy principal' }).click();
    const byHand = page.getByLabel('Copy this by hand');
    const selection = (): Promise<string> => page.evaluate('getSelection().toString()');
    assert.match(await byHand.inputValue(), /^[a-z0-9-]{20,}$/);
    assert.equal(await selection(), await byHand.inputValue());
    await page.evaluate('document.activeElement.setSelectionRange(0, 5)');
    await post('/call-json/orders/say', '["x"]');
    await until(async () => (await shown()) === first + 1);
    assert.equal((await selection()).length, 5);
    await until(async () => (await page.locator('.chart path.stroke').count()) >= 4);

    assert.equal(streams(), opened, 'all of this came by one request');
    const hidden = page.waitForEvent('requestfailed', (request) => request.url().includes('/x/host?'));
    await page.evaluate(
      `Object.defineProperty(document, 'hidden', { value: true, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'))`,
    );
    await hidden;
    await post('/call-json/orders/say', '["y"]');
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    assert.deepEqual([streams(), await shown()], [opened, first + 1]);
    await page.evaluate(`delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))`);
    await until(async () => (await shown()) === first + 2);
    assert.equal(streams(), opened + 1);
  });

  test('output is shown without being taken from anybody, and stays text', async (t) => {
    const { page, requests } = await inspect(t, '#/orders/output');
    await server.get('/logs/orders', AUTHORIZED);
    const hostile = '<img src=x onerror=window.hacked=1>';
    await post('/call-json/orders/say', JSON.stringify([hostile]));
    await page.getByText(hostile).first().waitFor();
    assert.equal(await isHacked(page), false);
    assert.deepEqual(
      requests.filter((request) => /\/(?:logs|events)\//.test(request)),
      [],
    );
    assert.ok((await server.get('/logs/orders', AUTHORIZED)).body.includes(hostile), 'it is still there for others');
  });

  test('a server that goes away and comes back is waited for, and may be another version', async (t) => {
    const { page, requests } = await inspect(t, '#/orders/overview');
    const versions = (): number => requests.filter((request) => request === 'GET /version').length;
    assert.equal(versions(), 1);
    await page.route(/\/x\/host/, (route) => route.abort());
    await page.getByLabel('Search actors by name').fill('o');
    await page.getByText('the server cannot be reached — trying again').waitFor();
    await page.unrouteAll();
    await page.getByText('trying again').waitFor({ state: 'detached' });
    await until(() => versions() === 2);
  });

  test('a server that takes questions and answers none is told of; what nobody waits for is given up', async (t) => {
    const { page } = await inspect(t, '#/orders/history', { isReused: false });
    await page.clock.install();
    await page.route(/\/x\/host/, () => undefined);
    const asked = page.waitForEvent('request', (request) => request.url().includes('find=y'));
    await page.getByLabel('Search actors by name').fill('y');
    await asked;
    const another = page.waitForEvent('requestfailed', (request) => request.url().includes('find=y'));
    await page.getByLabel('Search actors by name').fill('x');
    assert.equal((await another).failure()?.errorText, 'net::ERR_ABORTED');
    await page.clock.runFor(16_000);
    await page.getByText('the server does not answer — trying again').waitFor();
  });
});

suite('changing actors', { timeout: 120_000 }, () => {
  test('cycles are topped up', async (t) => {
    const { page } = await inspect(t, '#/box/overview');
    await page.getByLabel('Cycles to add').fill('1 000 000');
    await page.getByRole('button', { name: 'Top up' }).click();
    await page.getByText('Topped up: the balance is').waitFor();
    await page.getByRole('tab', { name: 'History' }).click();
    await page.getByRole('tab', { name: 'Overview' }).click();
    await page.getByText('Topped up: the balance is').waitFor();
    await page.getByLabel('Cycles to add').fill('lots');
    await page.getByRole('button', { name: 'Top up' }).click();
    await page.getByRole('alert').getByText(/400: /).waitFor();
    await page.getByRole('button', { name: '1 T', exact: true }).click();
    await page.getByRole('button', { name: 'Top up' }).click();
    await page.getByText('Topped up: the balance is').waitFor();
    assert.ok(BigInt((await server.get('/cycles/box', AUTHORIZED)).body) > 100_999_000_000_000n);
  });

  test('a module is upgraded by choosing a file, and by dropping one', async (t) => {
    const { page } = await inspect(t, '#/box/code');
    const upgrade = page.getByRole('button', { name: 'Upgrade box' });
    assert.ok(await upgrade.isDisabled());
    await page
      .locator('.drop input')
      .first()
      .setInputFiles({
        name: 'v2.wasm',
        mimeType: 'application/wasm',
        buffer: Buffer.from(versioned(2)),
      });
    await page.getByText('v2.wasm').waitFor();
    await upgrade.click();
    await page.getByText(/^upgraded in /).waitFor();
    assert.equal(await post('/query-json/box/version?lossless=1'), '[{"$svc":"nat","value":"2"}]');
    await page.getByRole('tab', { name: 'Call' }).click();
    await page.getByRole('tab', { name: 'Code' }).click();
    await page.getByText(/^upgraded in /).waitFor();

    await page.getByLabel('Force: do not check').check();
    const bytes = gzipSync(versioned(3)).toString('base64');
    const transfer = await page.evaluateHandle(`(() => {
      const files = new DataTransfer();
      const content = Uint8Array.from(atob('${bytes}'), (character) => character.charCodeAt(0));
      files.items.add(new File([content], 'v3.wasm.gz'));
      return files;
    })()`);
    await page.dispatchEvent('.drop', 'drop', { dataTransfer: transfer });
    await page.getByText('v3.wasm.gz').waitFor();
    assert.equal(await page.getByLabel('Force: do not check').isChecked(), false, 'another file');
    const text = await page.evaluateHandle(`(() => {
      const words = new DataTransfer();
      words.setData('text/plain', 'no file');
      return words;
    })()`);
    await page.dispatchEvent('.drop', 'drop', { dataTransfer: text });
    await upgrade.click();
    await page.getByText(/^upgraded in /).waitFor();
    assert.equal(await post('/query-json/box/version?lossless=1'), '[{"$svc":"nat","value":"3"}]');
  });

  test('what an upgrade changes, or would break, is shown; what was refused can be forced', async (t) => {
    const described = (method: string): Uint8Array =>
      Buffer.concat([
        versioned(4),
        section('icp:private candid:service', `service : { ${method} : () -> (nat) query }`),
      ]);
    assert.match(await post('/install/described', described('version')), /^[0-9a-f]{20}$/);
    const { page } = await inspect(t, '#/described/code');
    const choose = async (module: Uint8Array): Promise<void> => {
      await page
        .locator('.drop input')
        .first()
        .setInputFiles({ name: 'v.wasm', mimeType: '', buffer: Buffer.from(module) });
      await page.getByRole('button', { name: 'Upgrade described' }).click();
    };
    await choose(described('other'));
    await page
      .getByRole('alert')
      .getByText(/breaks callers of the old one: version is gone/)
      .waitFor();
    const table = page.getByRole('region', { name: 'Interface' });
    assert.deepEqual(await table.getByRole('row').allInnerTexts(), [
      'removed\tversion\tfunc () -> (nat) query\tcallers that use the method fail',
      'added\tother\tfunc () -> (nat) query\t',
    ]);
    await page.getByText('breaks callers', { exact: true }).waitFor();
    await page.getByLabel('Force: do not check').check();
    await page.getByRole('button', { name: 'Upgrade described' }).click();
    await page.getByText(/^upgraded in /).waitFor();
    assert.equal(await table.getByRole('row').count(), 2);
    assert.ok(!(await page.getByLabel('Force: do not check').isChecked()), 'once');
  });

  test('what is refused says why', async (t) => {
    const { page } = await inspect(t, '#/box/code');
    await page.getByRole('button', { name: "Reload the manifest's file" }).click();
    await page.getByText('no wasm recorded for that actor').waitFor();
    await page
      .locator('.drop input')
      .first()
      .setInputFiles({ name: 'x.wasm', mimeType: '', buffer: Buffer.from('no module') });
    await page.getByRole('button', { name: 'Upgrade box' }).click();
    await page.getByRole('alert').getByText(/400: /).waitFor();

    const file = join(await temporaryDirectory(), 'rebuilt.wasm');
    writeFileSync(file, 'one build');
    await page.locator('.drop input').first().setInputFiles(file);
    await page.getByText('rebuilt.wasm').waitFor();
    await new Promise((resolve) => setTimeout(resolve, 50));
    writeFileSync(file, 'another build');
    await page.getByRole('button', { name: 'Upgrade box' }).click();
    await page.getByText('rebuilt.wasm has changed since it was chosen: choose it again').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Upgrade box' }).isDisabled());
  });

  test('a form follows the interface, and keeps what is typed as long as its types are the same', async (t) => {
    const give = async (methods: string): Promise<void> => {
      const body = `service : {\n${methods}\n}`;
      const answer = await fetch(`${server.origin}/candid/box`, { method: 'PUT', body, headers: AUTHORIZED });
      assert.equal(await answer.text(), 'kept');
    };
    await give('version : (nat) -> (nat) query');
    const { page, requests } = await inspect(t, '#/box/call/version');
    const query = page.getByRole('button', { name: 'Query', exact: true });
    await page.getByLabel('nat', { exact: true }).fill('7');
    await give('// With a comment.\nversion : (nat) -> (nat) query');
    await page.getByText('With a comment.').waitFor();
    assert.equal(await page.getByLabel('nat', { exact: true }).inputValue(), '7');

    await give('version : (blob, variant { no : empty }) -> (nat) query');
    const blob = page.getByRole('textbox', { name: 'blob' });
    await blob.waitFor();
    const file = page.locator('.blob input[type=file]');
    const bytes = (size: number) => ({ name: 'bytes', mimeType: '', buffer: Buffer.alloc(size, 1) });
    await file.setInputFiles(bytes(3));
    await until(async () => (await blob.inputValue()) === 'AQEB');
    await file.setInputFiles(bytes(1024 * 1024 + 1));
    await page.getByText('the file has more than 1 MiB').waitFor();
    await page.getByRole('tabpanel').getByRole('combobox').last().selectOption('no');
    await query.click();
    await page.getByText('no value of this type exists').waitFor();
    await page.getByText('the file has more than 1 MiB').waitFor();
    assert.equal(await blob.inputValue(), '');
    assert.ok(!requests.some((request) => request.includes('-json/')));
  });
});

suite('many actors', { timeout: 240_000 }, () => {
  before(async () => {
    const module = versioned(1);
    for (let index = 0; index < CROWD; index++) await post(`/install/crowd-${String(index).padStart(3, '0')}`, module);
  });

  test('are shown by pages, and found by their names', async (t) => {
    const { page } = await inspect(t);
    const options = page.getByRole('listbox').getByRole('option');
    await until(async () => (await options.count()) === 50);
    await page.getByRole('button', { name: 'Next →' }).click();
    await until(async () => (await options.first().textContent())?.includes('crowd-047') ?? false);
    await page.getByRole('button', { name: 'Next →' }).click();
    await until(async () => (await options.count()) === CROWD + OTHERS - 100);
    assert.ok(await page.getByRole('button', { name: 'Next →' }).isDisabled());
    await page.getByRole('button', { name: '← Previous' }).click();
    await until(async () => (await options.first().textContent())?.includes('crowd-047') ?? false);

    await page.getByLabel('Search actors by name').fill('d-10');
    await until(async () => (await options.count()) === 10);
    await page.getByLabel('Search actors by name').fill('nobody');
    await page.getByText("No actor's name, id or principal has “nobody”.").waitFor();
  });

  test('Enter and a second click wait for the list that they are about', async (t) => {
    const { page } = await inspect(t);
    const pages = page.locator('.pages span');
    await page.route(/\/x\/host\?/, async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      await route.continue();
    });
    const next = page.getByRole('button', { name: 'Next →' });
    await next.dispatchEvent('click');
    await page.locator('.list[aria-busy=true]').waitFor();
    await next.dispatchEvent('click');
    await page.getByRole('listbox').getByRole('option').filter({ hasText: 'crowd-047' }).waitFor();
    assert.equal(await pages.textContent(), `51–100 of ${CROWD + OTHERS}`);
    await page.getByLabel('Search actors by name').fill('d-109');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'crowd-109' }).waitFor();
    await page.unrouteAll({ behavior: 'wait' });
  });

  test('an actor that no page shows is open all the same', async (t) => {
    const { page } = await inspect(t, '#/crowd-109/overview');
    await page.getByRole('heading', { name: 'crowd-109' }).waitFor();
    await page.goto(`${server.origin}/inspector#/nobody`);
    await page.getByText('There is no actor nobody.').waitFor();
  });

  test('are reached by the keyboard alone', async (t) => {
    const { page } = await inspect(t);
    await page.keyboard.press('/');
    await page.keyboard.type('crowd-00');
    await until(async () => (await page.getByRole('listbox').getByRole('option').count()) === 10);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'crowd-002' }).waitFor();
    await page.getByRole('tab', { name: 'Overview' }).focus();
    await page.keyboard.press('ArrowRight');
    await page.getByRole('tab', { name: 'Call', selected: true }).waitFor();
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowLeft');
    await page.getByRole('tab', { name: 'Code', selected: true }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('heading', { name: 'This host' }).waitFor();
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'crowd-001' }).waitFor();
  });
});

suite('looks', { timeout: 120_000 }, () => {
  for (const width of [360, 320])
    test(`a screen of ${width} pixels shows the list or an actor, and nothing is larger than it`, async (t) => {
      const { page } = await inspect(t, '', { viewport: { width, height: 740 } });
      const fits = async (part: string): Promise<void> => {
        const { scrollWidth, scrollHeight } = (await page.evaluate(`(() => {
          const { scrollWidth, scrollHeight } = document.documentElement;
          return { scrollWidth, scrollHeight };
        })()`)) as { scrollWidth: number; scrollHeight: number };
        assert.ok(scrollWidth <= width && scrollHeight <= 740, `${part}: ${scrollWidth} x ${scrollHeight}`);
      };
      await fits('list');
      await option(page, 'orders').click();
      await page.getByRole('heading', { name: 'orders' }).waitFor();
      assert.equal(await page.getByLabel('Search actors by name').isVisible(), false);
      for (const tab of ['Call', 'History', 'Output', 'Code', 'Overview']) {
        await page.getByRole('tab', { name: tab }).click();
        await page.getByRole('tabpanel', { name: tab }).waitFor();
        await fits(tab);
      }
      await page.getByRole('button', { name: 'Back to the list' }).click();
      await page.getByLabel('Search actors by name').waitFor();
      await page.getByRole('listbox').and(page.locator(':focus')).waitFor();
    });

  test('colours follow the system until somebody chooses', async (t) => {
    const { page } = await inspect(t, '', { colorScheme: 'dark' });
    const ground = (): Promise<string> => page.evaluate('getComputedStyle(document.body).backgroundColor');
    const dark = await ground();
    await page.emulateMedia({ colorScheme: 'light' });
    const light = await ground();
    assert.notEqual(light, dark);
    await page.getByRole('button', { name: 'Colours: system' }).click();
    await until(async () => (await ground()) === dark);
    await page.reload();
    await until(async () => (await ground()) === dark);
    await page.getByRole('button', { name: 'Colours: dark' }).click();
    await until(async () => (await ground()) === light);
  });
});

test('what is injected all the same does not run, and reaches nobody', { timeout: 60_000 }, async (t) => {
  const { page, console: said } = await inspect(t, '#/orders/overview', { isAttacked: true });
  const tried: Record<string, boolean> = await page.evaluate(`(async () => {
    const outcomes = {};
    const attempt = async (name, attack) => {
      try {
        await attack();
        outcomes[name] = true;
      } catch {
        outcomes[name] = false;
      }
    };
    await attempt('html', () => (document.body.innerHTML += '<img src=x onerror="window.hacked=1">'));
    await attempt('fetch', () => fetch('http://127.0.0.1:9/', { mode: 'no-cors' }));
    await attempt('script', () => {
      const script = document.createElement('script');
      script.append('window.hacked=1');
      document.body.append(script);
    });
    await attempt('image', () => {
      const image = new Image();
      image.src = location.origin + '/health';
      document.body.append(image);
    });
    return outcomes;
  })()`);
  assert.equal(tried['html'], false);
  assert.equal(tried['fetch'], false);
  assert.equal(await page.evaluate('"hacked" in window'), false);
  await until(() => ['connect-src', 'img-src'].every((name) => said.some((line) => line.includes(name))));
});
