/** Live parts of the inspector page: history, queue and debug output. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, test, type TestContext } from 'node:test';
import type { Browser } from 'playwright-core';
import { attempts } from '../support/attempts.ts';
import { startServer } from '../support/server.ts';
import { launchBrowser, openPage } from './browser.ts';

const ORDERS = join(import.meta.dirname, '../fixtures/inspector/Orders.mo');

let browser: Browser;
before(async () => {
  browser = await launchBrowser();
});
after(() => browser.close());

interface Proxy {
  readonly origin: string;
  /** Ends every connection. */
  readonly cutAll: () => void;
  /** Ends the next connection on which a call is answered, instead of passing the answer on. */
  readonly cutNextCall: () => void;
}

/** Starts a proxy that passes bytes on until it is told to cut. */
async function startProxy(t: TestContext, port: number): Promise<Proxy> {
  const sockets = new Set<Socket>();
  let cutsNext = false;
  const proxy = createServer((client) => {
    const upstream = connect(port, '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => socket.destroy()).on('close', () => sockets.delete(socket));
    }
    let isCut = false;
    client.on('data', (request) => {
      isCut ||= cutsNext && request.includes('POST /call-json/');
      if (isCut) cutsNext = false;
    });
    client.pipe(upstream);
    upstream.on('data', (answer) => (isCut ? client.destroy() : client.write(answer)));
    upstream.on('end', () => client.end());
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const cutAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  t.after(() => {
    proxy.close();
    cutAll();
  });
  const origin = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  return { origin, cutAll, cutNextCall: () => (cutsNext = true) };
}

const DEADLINE_MS = 30_000;

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + DEADLINE_MS;
  while (!(await isTrue())) {
    assert.ok(Date.now() < deadline, `not so within ${DEADLINE_MS} ms: ${isTrue.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test('history and output appear as they happen, and nobody misses a line by it', { timeout: 180_000 }, async (t) => {
  const server = await startServer(t, { manifest: JSON.stringify({ actors: { orders: { main: ORDERS } } }) });
  const { origin, cutAll } = await startProxy(t, Number(new URL(server.origin).port));
  const say = async (line: string): Promise<void> => {
    assert.equal((await server.post('/call-json/orders/say', JSON.stringify([line]))).status, 200);
  };

  const { page, requests } = await openPage(t, browser, `${origin}/#/orders/history`, { isReused: true });
  await page.getByText('install', { exact: true }).waitFor();
  const order = { customer: '<b>Ada</b>', items: [], delivery: 'pickup', note: null };
  await server.post('/call-json/orders/place', JSON.stringify([order]));
  await server.post('/call-json/orders/fail');
  await page.getByRole('row').filter({ hasText: 'fail update' }).getByText('trap').waitFor();
  await page.getByRole('row').filter({ hasText: 'place update' }).getByRole('button').click();
  await page.getByText('customer = "<b>Ada</b>"').waitFor();
  await page.getByText('delivery = variant { pickup }').waitFor();
  await page.getByRole('tab', { name: 'Overview' }).click();
  await page.getByText('Latest messages').waitFor();
  await page.locator('dt:text-is("Queued") + dd').waitFor();

  await say('before the click');
  assert.match((await server.get('/logs/orders')).body, /before the click\n/, 'somebody has taken it');
  await page.getByRole('tab', { name: 'Output' }).click();
  await page.getByText('before the click').waitFor();
  await say('while\nstreaming\u001b[2J <script>window.hacked=1</script>');
  await page.getByText('streaming⟨ESC⟩[2J <script>window.hacked=1</script>').waitFor();
  assert.equal(await page.evaluate('"hacked" in window'), false);
  assert.match((await server.get('/logs/orders')).body, /^while\nstreaming/, 'the page has taken nothing');

  // When the connection ends, the stream goes on behind the last line that was seen.
  const asked = page.waitForRequest(/\/output\?after=[0-9a-z]+-\d+$/);
  cutAll();
  await asked;
  await say('afterwards');
  await page.getByText('afterwards').waitFor();
  assert.ok(!requests.some((request) => /\/(?:events|logs)\//.test(request)));
  const lines = await page.locator('.output-text').allTextContents();
  assert.equal(lines.filter((line) => line === 'before the click').length, 1);
  assert.equal(await page.locator('.output-gap').count(), 0);

  await page.getByRole('tab', { name: 'Call' }).click();
  await page.getByRole('tab', { name: 'Output' }).getByRole('img', { name: 'streaming' }).waitFor();
});

test(
  'output has times and colours, is searched, stopped and cleared, and outlives a reload',
  { timeout: 180_000 },
  async (t) => {
    const server = await startServer(t, { manifest: JSON.stringify({ actors: { orders: { main: ORDERS } } }) });
    const say = async (line: string): Promise<void> => {
      assert.equal((await server.post('/call-json/orders/say', JSON.stringify([line]))).status, 200);
    };
    await say('first');
    await say('\u001b[1;31mred\u001b[0m plain');
    const { page } = await openPage(t, browser, `${server.origin}/#/orders/output`, { isReused: true });
    const texts = page.locator('.output-text');
    await page.getByText('red', { exact: true }).waitFor();
    assert.deepEqual(await texts.allTextContents(), ['first', 'red plain']);
    assert.equal(await page.getByText('red', { exact: true }).getAttribute('class'), 'ansi-bold ansi-1');
    const told = JSON.parse((await server.get('/x/actors/orders/output')).body) as { time: string }[];
    assert.equal(await page.locator('.output-time').first().getAttribute('datetime'), told[0]?.time);
    assert.match((await page.locator('.output-time').first().textContent()) ?? '', /^\d\d:\d\d:\d\d\.\d{3}$/);

    await page.getByLabel('Search the output').fill('RED PLAIN');
    await page.getByText('first', { exact: true }).waitFor({ state: 'detached' });
    assert.deepEqual(await texts.allTextContents(), ['red plain']);
    await page.getByLabel('Search the output').fill('<nothing>');
    await page.getByText('No line has what is searched.').waitFor();
    await page.getByLabel('Search the output').fill('');

    await page.getByRole('button', { name: 'Pause' }).click();
    await say('while stopped');
    await page.getByRole('button', { name: 'Go on (1 new)' }).waitFor();
    assert.deepEqual(await texts.allTextContents(), ['first', 'red plain']);
    await page.getByRole('button', { name: 'Go on (1 new)' }).click();
    await page.getByText('while stopped').waitFor();

    await page.reload();
    await page.getByText('while stopped').waitFor();
    assert.deepEqual(await texts.allTextContents(), ['first', 'red plain', 'while stopped']);
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByText('Nothing printed so far.').waitFor();
    await say('after the clearing');
    await page.getByText('after the clearing').waitFor();
    await page.reload();
    await page.getByText('after the clearing').waitFor();
    assert.deepEqual(await texts.allTextContents(), ['after the clearing']);

    // Fewer bytes than the server keeps, and more lines than the page draws; a print has 32 KiB at most.
    await say('<img src=x onerror=window.hacked=1>');
    for (let print = 0; print < 13; print++) await say('row\n'.repeat(8_000));
    await say('last row');
    await page.getByText('last row').waitFor();
    await until(async () => (await texts.count()) === 2_000);
    // With the end of each of the thirteen prints, which is an empty line, and the lines in front of them.
    await page.getByText('102,016 older lines are not shown').waitFor();
    await page.getByLabel('Search the output').fill('<img');
    await page.getByText('<img src=x onerror=window.hacked=1>').waitFor();
    assert.equal(await page.evaluate('"hacked" in window'), false);
    await page.getByLabel('Search the output').fill('');
    for (let print = 0; print < 40; print++) await say('y'.repeat(32_000));
    await page.reload();
    await page.getByText(/missing here: the server no longer has/).waitFor();
    await page.getByText('… and 22000 more characters').first().waitFor();
  },
);

test('what a call has printed stands beside its result, and nothing else', { timeout: 180_000 }, async (t) => {
  const server = await startServer(t, { manifest: JSON.stringify({ actors: { orders: { main: ORDERS } } }) });
  await server.post('/call-json/orders/say', '["of another call"]');
  const { page } = await openPage(t, browser, `${server.origin}/#/orders/call/say`, { isReused: true });
  await page.getByLabel('line text').fill('<b>mine</b>');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  const printed = page.getByLabel('Printed');
  await printed.waitFor();
  assert.equal(await printed.textContent(), '<b>mine</b>');
  await page.getByRole('button', { name: /^list/ }).click();
  await page.getByRole('button', { name: 'Query', exact: true }).click();
  await page.getByLabel('Effects').waitFor();
  assert.equal(await printed.count(), 0);
});

test('a call is executed once, also when the browser sends it again by itself', { timeout: 180_000 }, async (t) => {
  const server = await startServer(t, { manifest: JSON.stringify({ actors: { orders: { main: ORDERS } } }) });
  const { origin, cutNextCall } = await startProxy(t, Number(new URL(server.origin).port));
  const { page } = await openPage(t, browser, `${origin}/#/orders/call/say`, { isReused: true });
  const call = async (line: string): Promise<void> => {
    await page.getByLabel('line text').fill(line);
    const request = page.waitForRequest(/\/call-json\//);
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await (await request).response();
  };
  let line = '';
  // A call fails for good if its connection is new, and the page says so: the call before leaves one that is not.
  await attempts(3, async () => {
    line += 'once';
    await call('before');
    cutNextCall();
    await call(line);
    assert.match((await server.get('/metrics')).body, /^svc_idempotency_repeats_total 1$/m);
  });
  const printed = (await server.get('/logs/orders')).body.split('\n');
  assert.equal(printed.filter((printedLine) => printedLine === line).length, 1);
});

test('what a page shows fills no log: a stream is one job', { timeout: 180_000 }, async (t) => {
  const manifest = JSON.stringify({ actors: { orders: { main: ORDERS } } });
  const server = await startServer(t, { manifest, args: ['--log-json'] });
  const { page } = await openPage(t, browser, `${server.origin}/#/orders/overview`, { isReused: true });
  for (let call = 1; call <= 3; call++) {
    await server.post('/call-json/orders/fail');
    await page.locator('dt:text-is("Traps") + dd', { hasText: String(call) }).waitFor();
  }
  await page.getByRole('tab', { name: 'History' }).click();
  await page.getByRole('row').filter({ hasText: 'fail update' }).nth(2).waitFor();
  const jobsOf = (kind: string): number => server.output.stderr.split(`"event":"job","kind":"${kind}"`).length - 1;
  assert.deepEqual([jobsOf('host'), jobsOf('history'), jobsOf('call')], [0, 0, 3]);
  await page.close();
  await attempts(50, async () => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.deepEqual([jobsOf('host'), jobsOf('history')], [1, 0]);
  });
});
