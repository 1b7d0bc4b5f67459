/** Live parts of the inspector page: history, queue and debug output. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { attempts } from '../support/attempts.ts';
import { startServer } from '../support/server.ts';
import { launchBrowser, openPage } from './browser.ts';

const ORDERS = join(import.meta.dirname, '../fixtures/inspector/Orders.mo');

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

test('history and output appear as they happen, output only after a click', { timeout: 180_000 }, async (t) => {
  const server = await startServer(t, { manifest: JSON.stringify({ actors: { orders: { main: ORDERS } } }) });
  const { origin, cutAll } = await startProxy(t, Number(new URL(server.origin).port));
  const browser = await launchBrowser();
  t.after(() => browser.close());
  const say = async (line: string): Promise<void> => {
    assert.equal((await server.post('/call-json/orders/say', JSON.stringify([line]))).status, 200);
  };

  const { page, requests } = await openPage(t, browser, `${origin}/#/orders/history`);
  await page.getByText('install').waitFor();
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

  await page.getByRole('tab', { name: 'Output' }).click();
  await say('before the click');
  await page.getByText('Nothing taken yet.').waitFor();
  assert.ok(!requests.some((request) => request.includes('/events/')));
  await page.getByRole('button', { name: 'Start streaming' }).click();
  await page.getByText('before the click').waitFor();
  await say('while\nstreaming\u001b[2J <script>window.hacked=1</script>');
  await page.getByText('streaming⟨ESC⟩[2J <script>window.hacked=1</script>').waitFor();
  assert.equal(await page.evaluate('"hacked" in window'), false);

  // When the connection ends, the stream goes on behind the last line that was seen.
  cutAll();
  await say('afterwards');
  await page.getByText('afterwards').waitFor();
  assert.ok(requests.filter((request) => request.includes('/events/')).length > 1, 'it was connected anew');
  const lines = await page.locator('.output-line').allTextContents();
  assert.equal(lines.filter((line) => line === 'before the click').length, 1);

  await page.getByRole('tab', { name: 'Call' }).click();
  await page.getByRole('tab', { name: 'Output' }).getByRole('img', { name: 'streaming' }).waitFor();

  await page.getByRole('tab', { name: 'Output' }).click();
  await page.getByRole('button', { name: 'Stop streaming' }).click();
  await page.getByRole('button', { name: 'Start streaming' }).waitFor();
  await new Promise((resolve) => setTimeout(resolve, 500));
  await say('for others');
  assert.match((await server.get('/logs/orders')).body, /for others\n$/);

  // The stream goes on where it stopped.
  const asked = page.waitForRequest(/\/events\//);
  await page.getByRole('button', { name: 'Start streaming' }).click();
  assert.match((await (await asked).allHeaders())['last-event-id'] ?? '', /^\d+$/);
});

test('a call is executed once, also when the browser sends it again by itself', { timeout: 180_000 }, async (t) => {
  const server = await startServer(t, { manifest: JSON.stringify({ actors: { orders: { main: ORDERS } } }) });
  const { origin, cutNextCall } = await startProxy(t, Number(new URL(server.origin).port));
  const browser = await launchBrowser();
  t.after(() => browser.close());
  const { page } = await openPage(t, browser, `${origin}/#/orders/call/say`);
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
  const browser = await launchBrowser();
  t.after(() => browser.close());
  const { page } = await openPage(t, browser, `${server.origin}/#/orders/overview`);
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
