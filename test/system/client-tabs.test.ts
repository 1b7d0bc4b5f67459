/**
 * Tabs of a real Chromium that share one stream by `svc/client`: with its SharedWorker, with a lock, and
 * alone. Tabs are closed, crash, go and come back; the others miss nothing and are told nothing twice.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { servePages } from '../support/client-pages.ts';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { compileMotoko } from '../support/motoko.ts';
import { freePort } from '../support/free-port.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { launchBrowser } from './browser.ts';

const CELLS = `
import VarArray "mo:core/VarArray";
persistent actor {
  let cells = VarArray.repeat<Nat>(0, 20);
  public func set(at : Nat, value : Nat) : async () { cells[at] := value };
  public query func get(at : Nat) : async Nat { cells[at] };
};`;
const TOKEN = 'a-token-of-a-test';
const AUTHORIZATION = { authorization: `Bearer ${TOKEN}` };
/** The module's file is its own worker; in a bundle it is not, and tabs share by the lock. */
const MODES = { worker: '/svc-client.mjs', lock: '/bundle.mjs' } as const;

let browser: Browser;
let wasm: Uint8Array;
before(async () => {
  browser = await launchBrowser(['--host-resolver-rules=MAP app.test 127.0.0.1']);
  ({ wasm } = await compileMotoko(CELLS));
});
after(() => browser.close());

interface PageWindow {
  readonly isReady?: boolean;
  readonly told: Readonly<Record<string, readonly unknown[]>>;
  open(options: object): void;
  watch(name: string, actor: string, method: string, args: readonly unknown[]): { close(): void };
}

class Host {
  readonly server: Pick<InProcessServer, 'get' | 'post'> & { readonly origin: string };
  readonly pages: string;
  readonly context: BrowserContext;

  constructor(server: Host['server'], pages: string, context: BrowserContext) {
    this.server = server;
    this.pages = pages;
    this.context = context;
  }

  async set(at: number, value: number): Promise<void> {
    const { status, body } = await this.server.post('/call-json/cells/set', `[${at},${value}]`, AUTHORIZATION);
    assert.equal(status, 200, body);
  }

  async streams(): Promise<number> {
    const { body } = await this.server.get('/metrics', AUTHORIZATION);
    return Number(/^svc_http_event_streams (\d+)$/m.exec(body)?.[1]);
  }

  /** Waits until the server has so many streams, also a moment later: tabs open theirs one after the other. */
  async hasStreams(count: number): Promise<void> {
    const streams = async (): Promise<boolean> => (await this.streams()) === count;
    await until(
      async () => (await streams()) && (await sleep(300), await streams()),
      () => `not ${count} streams`,
    );
  }

  /** Returns how many messages a call of `set` causes, together with the queries that are asked again after it. */
  async messagesOfSet(at: number, value: number): Promise<number> {
    const first = await this.#messages();
    await this.set(at, value);
    for (let last = first, now = await this.#messages(); ; last = now, now = await this.#messages()) {
      if (now === last && now > first) return now - first;
      await sleep(300);
    }
  }

  async #messages(): Promise<number> {
    const { body } = await this.server.get('/metrics', AUTHORIZATION);
    return Number(/^svc_actor_messages_total\{actor="cells"\} (\d+)$/m.exec(body)?.[1] ?? 0);
  }

  /** Opens a tab that watches some cells, each under its number. */
  async tab(client: string, cells: readonly number[], options: object = {}): Promise<Page> {
    const page = await this.context.newPage();
    page.on('pageerror', (error) => assert.fail(error));
    await page.goto(`${this.pages}/?client=${client}`);
    await this.watch(page, cells, options);
    return page;
  }

  async watch(page: Page, cells: readonly number[], options: object = {}): Promise<void> {
    await page.waitForFunction('window.isReady === true');
    const asked = { cells, options: { url: this.server.origin, token: TOKEN, ...options } };
    await page.evaluate(({ cells: each, options: own }) => {
      const tab = globalThis as unknown as PageWindow;
      tab.open(own);
      for (const cell of each) tab.watch(String(cell), 'cells', 'get', [cell]);
    }, asked);
  }
}

async function startHost(t: TestContext, host = '127.0.0.1'): Promise<Host> {
  const server = await startInProcess(t, { args: ['--auth-token', TOKEN] });
  assert.equal((await server.post('/install/cells', wasm, AUTHORIZATION)).status, 200);
  const port = await servePages(t);
  const context = await browser.newContext();
  t.after(() => context.close());
  return new Host(server, `http://${host}:${port}`, context);
}

async function until(holds: () => Promise<boolean>, told: () => unknown, ms = 30_000): Promise<void> {
  const deadline = performance.now() + ms;
  while (!(await holds())) {
    assert.ok(performance.now() < deadline, JSON.stringify(told()));
    await sleep(30);
  }
}

const toldIn = (page: Page): Promise<PageWindow['told']> =>
  page.evaluate(() => (globalThis as unknown as PageWindow).told);

/** Waits until a tab was told this, and nothing else. */
async function tells(page: Page, expected: Readonly<Record<string, readonly unknown[]>>): Promise<void> {
  let told: PageWindow['told'] = {};
  const last = (all: PageWindow['told']): string => JSON.stringify(Object.values(all).map((each) => each.at(-1)));
  await until(
    async () => last((told = await toldIn(page))) === last(expected),
    () => [told, expected],
  );
  assert.deepEqual(told, expected);
}

/** Ends a tab's process, as when memory runs out. */
async function crash(page: Page): Promise<void> {
  const crashed = new Promise((resolve) => void page.once('crash', resolve));
  page.goto('chrome://crash').catch(() => undefined);
  await crashed;
}

for (const [mode, client] of Object.entries(MODES)) {
  suite(`tabs that share by the ${mode}`, () => {
    test('six tabs use one connection; each is told its own, once, while others go, the first one too', async (t) => {
      const host = await startHost(t);
      const tabs = await Promise.all(Array.from({ length: 6 }, (_, at) => host.tab(client, [0, at + 1])));
      for (const [at, tab] of tabs.entries()) await tells(tab, { 0: [0], [at + 1]: [0] });
      await host.hasStreams(1);
      await host.set(0, 1);
      await host.set(3, 7);
      for (const [at, tab] of tabs.entries()) await tells(tab, { 0: [0, 1], [at + 1]: at === 2 ? [0, 7] : [0] });
      const values = [0, 1];
      for (let gone = 0; gone < 5; gone++) {
        // The first tab is the one that came first, and leads where there is no worker.
        await (gone % 2 === 0 ? tabs[gone]?.close() : crash(tabs[gone] as Page));
        values.push(gone + 10);
        await host.set(0, gone + 10);
        for (const [at, tab] of tabs.entries())
          if (at > gone) await tells(tab, { 0: values, [at + 1]: at === 2 ? [0, 7] : [0] });
        await host.hasStreams(1);
      }
      await tabs[5]?.close();
      await host.hasStreams(0);
    });

    test('what only a tab asks for that is killed is asked no more', async (t) => {
      const host = await startHost(t);
      const stays = await host.tab(client, [0]);
      await tells(stays, { 0: [0] });
      const killed = await host.tab(client, [0, 1, 2]);
      await tells(killed, { 0: [0], 1: [0], 2: [0] });
      let value = 0;
      let messages = 0;
      const takes = (expected: number): Promise<void> =>
        until(
          async () => (messages = await host.messagesOfSet(0, ++value)) === expected,
          () => `a change of the actor takes ${messages} messages, not ${expected}`,
        );
      await takes(1 + 3);
      await crash(killed);
      await takes(1 + 1);
      await tells(stays, { 0: Array.from({ length: value + 1 }, (_, each) => each) });
      await host.hasStreams(1);
    });

    test('tabs with other tokens, servers or callers share nothing with these', async (t) => {
      const host = await startHost(t);
      const own = await host.tab(client, [0]);
      const same = await host.tab(client, [0]);
      const wrong = await host.tab(client, [0], { token: 'wrong' });
      const caller = await host.tab(client, [0], { caller: 'aaaaa-aa' });
      const alone = await host.tab(client, [0], { share: false });
      await tells(wrong, { 0: ['end 401'] });
      for (const tab of [own, same, caller, alone]) await tells(tab, { 0: [0] });
      await host.hasStreams(3);
    });

    test('a page that is left and come back to, and one that is loaded again, has the newest answer', async (t) => {
      const host = await startHost(t);
      const tab = await host.tab(client, [0]);
      const other = await host.tab(client, [0]);
      for (const each of [tab, other]) await tells(each, { 0: [0] });
      await tab.goto(`${host.pages}/other`);
      await host.set(0, 1);
      await tells(other, { 0: [0, 1] });
      await tab.goBack();
      if ((await tab.evaluate('window.client')) === undefined) await host.watch(tab, [0]);
      await until(
        async () => (await toldIn(tab))['0']?.at(-1) === 1,
        () => 'the page that came back has an old answer',
      );
      await tab.reload();
      await host.watch(tab, [0]);
      await tells(tab, { 0: [1] });
      await host.hasStreams(1);
    });

    test('a server that is killed and comes back is found again by all tabs, and tells nothing twice', async (t) => {
      const port = await freePort();
      const state = await temporaryDirectory();
      const args = ['--state', state, '--auth-token', TOKEN];
      const start = () => startServer(t, { manifest: '{"actors":{}}', port, args });
      const server = await start();
      assert.equal((await server.post('/install/cells', new Uint8Array(wasm), AUTHORIZATION)).status, 200);
      const context = await browser.newContext();
      t.after(() => context.close());
      const host = new Host(server, `http://127.0.0.1:${await servePages(t)}`, context);
      const tabs = [await host.tab(client, [0]), await host.tab(client, [1])] as const;
      for (const [at, tab] of tabs.entries()) await tells(tab, { [at]: [0] });
      await server.kill();
      await sleep(1000);
      await start();
      await host.set(1, 4);
      await tells(tabs[1], { 1: [0, 4] });
      await tells(tabs[0], { 0: [0] });
      await host.hasStreams(1);
    });
  });
}

suite('where something is missing', () => {
  test('a tab that the leader lets in more than once is told nothing twice', async (t) => {
    const host = await startHost(t);
    await host.context.addInitScript(() => {
      const Channel = globalThis.BroadcastChannel;
      globalThis.BroadcastChannel = class extends Channel {
        override postMessage(message: { readonly kind?: string }): void {
          const times = message.kind === 'hello' ? 3 : 1;
          for (let time = 0; time < times; time++) super.postMessage(message);
        }
      };
    });
    const leads = await host.tab(MODES.lock, [0]);
    await tells(leads, { 0: [0] });
    const follows = await host.tab(MODES.lock, [0]);
    await tells(follows, { 0: [0] });
    await host.set(0, 1);
    for (const tab of [leads, follows]) await tells(tab, { 0: [0, 1] });
    await host.hasStreams(1);
  });

  test('the worker’s file is none: tabs share by the lock', async (t) => {
    const host = await startHost(t);
    const tabs = await Promise.all([0, 1].map((cell) => host.tab(MODES.worker, [cell], { worker: '/none.mjs' })));
    for (const [at, tab] of tabs.entries()) await tells(tab, { [at]: [0] });
    await host.hasStreams(1);
  });

  test('a page that came by plain HTTP has no locks: its tabs share the worker, or have streams of their own', async (t) => {
    const host = await startHost(t, 'app.test');
    const tabs = await Promise.all([0, 1].map((cell) => host.tab(MODES.worker, [cell])));
    assert.equal(await tabs[0]?.evaluate('isSecureContext'), false);
    for (const [at, tab] of tabs.entries()) await tells(tab, { [at]: [0] });
    await host.hasStreams(1);
    const alone = await host.tab(MODES.lock, [2]);
    await tells(alone, { 2: [0] });
    await host.hasStreams(2);
    // The worker goes with its last tab.
    for (const tab of tabs) await tab.close();
    await host.hasStreams(1);
  });

  test('the worker dies: another one is started', async (t) => {
    const host = await startHost(t);
    const tabs = [await host.tab(MODES.worker, [0]), await host.tab(MODES.worker, [1])];
    for (const [at, tab] of tabs.entries()) await tells(tab, { [at]: [0] });
    const session = await browser.newBrowserCDPSession();
    const { targetInfos } = await session.send('Target.getTargets');
    const workers = targetInfos.filter(({ type }) => type === 'shared_worker');
    assert.equal(workers.length, 1);
    for (const { targetId } of workers) await session.send('Target.closeTarget', { targetId });
    await host.set(1, 5);
    await tells(tabs[1] as Page, { 1: [0, 5] });
    await tells(tabs[0] as Page, { 0: [0] });
    await host.hasStreams(1);
  });
});
