/**
 * Takes the pictures of the inspector that README.md shows: `npm run screenshots`, two and a half minutes. Look at them
 * before you commit them, and make them smaller (`pngquant --ext .png --force docs/images/*.png`): 120 KB each at most.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { compileCounter } from '../support/motoko.ts';
import { EXAMPLES, startServer } from '../support/server.ts';
import { launchBrowser } from './browser.ts';

const ROOT = join(import.meta.dirname, '../..');
const IMAGES = join(ROOT, 'docs/images');
/** Time after which the charts are almost full: they show two minutes, then five. */
const WARM_UP_MS = 112_000;
const COUNTERS = ['accounts', 'carts', 'mailer', 'sessions', 'stock', 'visits'];
const CUSTOMERS = ['Ada Lovelace', 'Grace Hopper', 'Alan Turing', 'Barbara Liskov'];

const ends: (() => Promise<void>)[] = [];
const { actors } = JSON.parse(await readFile(EXAMPLES, 'utf8')) as { actors: Record<string, { main: string }> };
const manifest = {
  actors: {
    orders: { main: join(ROOT, 'test/fixtures/inspector/Orders.mo') },
    ...Object.fromEntries(
      Object.entries(actors).map(([name, { main }]) => [name, { main: join(ROOT, 'config/examples', main) }]),
    ),
  },
};
const server = await startServer(
  { after: (end) => void ends.push(end) },
  { manifest: JSON.stringify(manifest), args: ['--auth-token', 'secret'] },
);
const post = (path: string, body: string | Uint8Array = '[]'): Promise<unknown> =>
  server.post(path, body, { authorization: 'Bearer secret' });
const module = await compileCounter();
for (const name of COUNTERS) await post(`/install/${name}`, module);

/** Makes traffic that comes in waves. */
async function work(signal: AbortSignal): Promise<void> {
  for (let turn = 0; !signal.aborted; turn++) {
    for (const [index, name] of [...COUNTERS, 'counter'].entries()) {
      const calls = Math.max(0, Math.round(3 + 3 * Math.sin(turn / (5 + index)) - (index % 3)));
      for (let call = 0; call < calls; call++) await post(`/call-json/${name}/inc`);
    }
    const delivery = turn % 2 === 0 ? 'pickup' : { address: { street: '12 St James’s Square', city: 'London' } };
    const items = [{ article: ['lamp', 'desk', 'chair'][turn % 3], quantity: 1 + (turn % 3), price: 12.5 + turn }];
    await post(
      '/call-json/orders/place',
      JSON.stringify([{ customer: CUSTOMERS[turn % 4], items, delivery, note: null }]),
    );
    if (turn % 3 === 1) await post('/query-json/orders/total', '[1]');
    if (turn % 17 === 9) await post('/call-json/orders/fail');
    await new Promise((resolve) => setTimeout(resolve, 250 + 150 * Math.sin(turn / 9)));
  }
}

const browser = await launchBrowser();
async function open(hash: string, heading: string, options: BrowserContextOptions): Promise<Page> {
  const page = await (await browser.newContext(options)).newPage();
  await page.goto(`${server.origin}/${hash}`);
  await page.getByLabel('bearer token').fill('secret');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: heading }).waitFor();
  return page;
}

const desktop = { width: 1280, height: 800 };
const home = await open('#/', 'This host', { viewport: desktop });
const overview = await open('#/orders', 'orders', { viewport: desktop });
const call = await open('#/orders/call/place', 'orders', { viewport: desktop, colorScheme: 'dark' });
const phone = await open('#/orders', 'orders', { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 });

const stop = new AbortController();
const working = work(stop.signal);
await new Promise((resolve) => setTimeout(resolve, WARM_UP_MS));
await home.screenshot({ path: join(IMAGES, 'inspector-home.png') });
await overview.screenshot({ path: join(IMAGES, 'inspector.png') });
await phone.screenshot({ path: join(IMAGES, 'inspector-phone.png') });

await call.getByLabel('customer text').fill('Ada Lovelace');
await call.getByLabel('delivery Delivery').selectOption('pickup');
await call.getByRole('button', { name: 'Add item' }).click();
await call.getByLabel('article text').fill('lamp');
await call.getByLabel('price float64').fill('12.5');
await call.getByLabel('quantity nat').fill('2');
await call.getByRole('button', { name: 'Call', exact: true }).click();
await call.getByText('Reply').waitFor();
await call.locator('.answer').scrollIntoViewIfNeeded();
await call.mouse.move(0, 0);
await call.screenshot({ path: join(IMAGES, 'inspector-call.png') });

stop.abort();
await working;
await browser.close();
for (const end of ends) await end();
