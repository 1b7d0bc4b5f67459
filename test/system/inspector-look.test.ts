/** Each screen of the inspector page at three widths in both themes: axe-core's rules, no cut and no covered text. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { type RunningServer, startServer } from '../support/server.ts';
import { wat } from '../support/wat.ts';
import { launchBrowser, openPage } from './browser.ts';
import { assertLook } from './page-look.ts';

const TOKEN = 'correct-horse';
const AUTHORIZED = { authorization: `Bearer ${TOKEN}` };
const ORDERS = join(import.meta.dirname, '../fixtures/inspector/Orders.mo');
/** As long as a name may be. */
const LONG_NAME = `long-${'W'.repeat(59)}`;
const LONG_METHOD = `m${'ethod_'.repeat(40)}`;

const ends: (() => Promise<void>)[] = [];
let browser: Browser;
let server: RunningServer;
/** A tab that goes from screen to screen: what a new one takes is its load, and nothing of what the screens show. */
let tab: Page;

before(async () => {
  server = await startServer(
    { after: (end) => void ends.push(end) },
    { manifest: JSON.stringify({ actors: { orders: { main: ORDERS } } }), args: ['--auth-token', TOKEN] },
  );
  const hostile = wat(`(module
    (import "ic0" "msg_reply" (func $reply))
    (import "ic0" "trap" (func $trap (param i32 i32)))
    (memory 1)
    (data (i32.const 0) "<img src=x onerror=alert(1)> \\e2\\80\\ae${'W'.repeat(300)}")
    (func (export "canister_update ${LONG_METHOD}") (call $trap (i32.const 0) (i32.const 330))))`);
  await post(`/install/${LONG_NAME}`, hostile);
  await post('/x/actors/orders/snapshots', '');
  const order = {
    customer: 'W'.repeat(400),
    items: [{ article: 'lamp', quantity: 1, price: 2.5 }],
    delivery: 'pickup',
    note: null,
  };
  for (let call = 0; call < 3; call++) await post('/call-json/orders/place', JSON.stringify([order]));
  await server.post('/call-json/orders/fail', '[]', AUTHORIZED);
  await server.post(`/call/${LONG_NAME}/${LONG_METHOD}`, '', AUTHORIZED);
  browser = await launchBrowser();
  ends.push(() => browser.close());
  ({ page: tab } = await openPage(
    { after: (end) => void ends.push(end) },
    browser,
    `${server.origin}/inspector#/orders`,
  ));
  await enter(tab);
});
after(async () => {
  for (const end of ends.toReversed()) await end();
});

async function post(path: string, body: string | Uint8Array): Promise<void> {
  const answer = await server.post(path, body, AUTHORIZED);
  assert.ok(answer.status < 300, `${path}: ${answer.body}`);
}

async function enter(page: Page): Promise<void> {
  await page.getByLabel('bearer token').fill(TOKEN);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Log out' }).waitFor();
}

const SCREENS: Readonly<Record<string, { readonly hash: string; readonly until: (page: Page) => Promise<void> }>> = {
  home: {
    hash: '',
    until: (page) => page.getByRole('region', { name: 'Latest failures' }).last().getByRole('row').nth(1).waitFor(),
  },
  source: {
    hash: '',
    until: async (page) => {
      await page.getByRole('button', { name: /^Up for/ }).click();
      await page.getByLabel('Answer of /metrics').waitFor();
    },
  },
  overview: {
    hash: '#/orders',
    until: async (page) => {
      // Two samples make a line.
      await page.locator('.chart path.stroke').nth(1).waitFor({ state: 'attached' });
    },
  },
  call: {
    hash: '#/orders/call/place',
    until: async (page) => {
      await page.getByRole('button', { name: 'Add item' }).click();
      await page.getByRole('button', { name: 'Call', exact: true }).click();
      await page.locator('[aria-invalid=true]').first().waitFor();
    },
  },
  'saved calls': {
    hash: '#/orders/call/list',
    until: async (page) => {
      const save = page.getByRole('button', { name: 'Save …' });
      await save.click();
      await page.getByLabel('Name of the saved call').fill('W'.repeat(80));
      await page.keyboard.press('Enter');
      await page.getByText('Saved calls (1)').click();
      await save.click();
      await page.getByLabel('Name of the saved call').fill('');
      await page.keyboard.press('Enter');
      await page.getByText('type a name').waitFor();
    },
  },
  tree: {
    hash: '#/orders/call/sum',
    until: async (page) => {
      const select = page.getByRole('tabpanel').getByRole('combobox');
      for (let depth = 0; depth < 5; depth++) await select.nth(depth).selectOption('node');
      await select.nth(5).waitFor();
    },
  },
  answer: {
    hash: '#/orders/call/list',
    until: async (page) => {
      await page.getByRole('button', { name: 'Query', exact: true }).click();
      await page.getByLabel('Result', { exact: true }).locator('pre').first().waitFor();
    },
  },
  trap: {
    hash: `#/${LONG_NAME}/call/${LONG_METHOD}`,
    until: async (page) => {
      await page.getByRole('button', { name: 'Call', exact: true }).click();
      await page.locator('.answer').waitFor();
    },
  },
  history: { hash: '#/orders/history', until: (page) => page.getByRole('tabpanel').getByRole('row').nth(3).waitFor() },
  'a message': {
    hash: '#/orders/history',
    until: async (page) => {
      await page.getByRole('tabpanel').locator('tr.entry', { hasText: 'place' }).first().click();
      await page.getByText('It cannot be run again from here').waitFor();
      await page.getByText('Neither caused by another message').waitFor();
    },
  },
  output: { hash: '#/orders/output', until: (page) => page.getByRole('tabpanel', { name: 'Output' }).waitFor() },
  manage: {
    hash: '#/orders/manage',
    until: async (page) => {
      await page.getByRole('list', { name: 'Snapshots' }).getByRole('listitem').first().waitFor();
      await page.getByRole('button', { name: 'Stop', exact: true }).click();
      await page.getByRole('group', { name: 'Stop', exact: true }).waitFor();
    },
  },
  code: { hash: '#/orders/code', until: (page) => page.getByRole('tabpanel', { name: 'Code' }).waitFor() },
  'long name': { hash: `#/${LONG_NAME}`, until: (page) => page.getByRole('tabpanel').waitFor() },
  nobody: { hash: '#/nobody', until: (page) => page.getByText('There is no actor nobody.').waitFor() },
};

suite('each screen is clean at three widths in both themes', { timeout: 480_000 }, () => {
  test('the token', async (t) => {
    const { page } = await openPage(t, browser, `${server.origin}/inspector`, { isReused: true });
    await page.getByLabel('bearer token').fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByText('This server knows no such token.').waitFor();
    await assertLook(page, 'token');
  });

  for (const [name, { hash, until }] of Object.entries(SCREENS)) {
    test(name, async () => {
      await tab.goto(`${server.origin}/inspector${hash}`);
      await until(tab);
      await assertLook(tab, name);
    });
  }

  test('an empty host, and one that has gone', async (t) => {
    const empty = await startServer(t, { manifest: '{"actors":{}}' });
    const { page } = await openPage(t, browser, `${empty.origin}/inspector`, { isReused: true });
    await page.getByText('No actors yet.').waitFor();
    await assertLook(page, 'empty');
    await empty.kill();
    await page.getByRole('alert').getByText('trying again').waitFor();
    await assertLook(page, 'gone');
  });
});
