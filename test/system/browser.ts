/** A real Chromium, and pages in it that fail the test if they have unexpected errors. */
import assert from 'node:assert/strict';
import { accessSync } from 'node:fs';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import type { TestOwner } from '../support/server.ts';

const EXECUTABLE = '/usr/bin/chromium';

/**
 * Launches the system's own Chromium, because it gets security updates, without its background traffic.
 *
 * @param more Further switches.
 */
export async function launchBrowser(more: readonly string[] = []): Promise<Browser> {
  accessSync(EXECUTABLE); // Debian's package chromium, which .ci/run installs.
  return chromium.launch({
    executablePath: EXECUTABLE,
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      ...more,
    ],
  });
}

export interface WatchedPage {
  readonly page: Page;
  /** Paths that the page has asked for so far, with their method: `GET /x/host?limit=50`. */
  readonly requests: string[];
  /** Messages of the console so far. */
  readonly console: string[];
}

export interface PageOptions extends BrowserContextOptions {
  /** True if a violation of the policy is allowed, which the test itself causes. */
  readonly isAttacked?: boolean;
  /**
   * True for a tab that cases of a file use one after the other: loading the inspector page in a new one takes a second
   * of processor time, most of it for the process of the tab and for code that an old one has compiled. Storage,
   * cookies, routes, listeners and the size are as in a new tab. What the page's clock or scripts before its own were
   * set to cannot be taken back: such a case takes a tab of its own.
   */
  readonly isReused?: boolean;
}

/** Tabs of a browser that no case uses now, by the options of their contexts. */
const idleTabs = new WeakMap<Browser, Map<string, Page[]>>();
const VIEWPORT = { width: 1280, height: 800 };
const EVENTS = ['request', 'requestfailed', 'response', 'console', 'pageerror', 'dialog', 'download'] as const;

function idleTabsOf(browser: Browser, options: BrowserContextOptions): Page[] {
  const key = JSON.stringify(options);
  const byOptions = idleTabs.get(browser) ?? new Map<string, Page[]>();
  idleTabs.set(browser, byOptions);
  const tabs = byOptions.get(key) ?? [];
  byOptions.set(key, tabs);
  return tabs;
}

/** Leaves the page of a case, and takes away what it has kept. */
async function clean(page: Page, origin: string, viewport: PageOptions['viewport'] = VIEWPORT): Promise<void> {
  const context = page.context();
  for (const other of context.pages()) if (other !== page) await other.close();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  // A page may keep something in the moment in which it is left, so an empty one of its origin clears its storage.
  await page.route(`${origin}/**`, (route) => route.fulfill({ contentType: 'text/html', body: '' }));
  await page.goto(`${origin}/empty`);
  await page.evaluate('sessionStorage.clear(), localStorage.clear()');
  await page.unrouteAll();
  await page.goto('about:blank');
  await context.clearCookies();
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  if (viewport !== null) await page.setViewportSize(viewport);
}

/**
 * Opens a tab. It may send requests only to its own origin, and when the test ends nothing must have been thrown or
 * refused by its policy.
 */
export async function openPage(
  t: TestOwner,
  browser: Browser,
  url: string,
  { isAttacked = false, isReused = false, ...rest }: PageOptions = {},
): Promise<WatchedPage> {
  const options = { viewport: VIEWPORT, ...rest };
  const idle = idleTabsOf(browser, options);
  const page = (isReused ? idle.pop() : undefined) ?? (await (await browser.newContext(options)).newPage());
  const { origin } = new URL(url);
  const watched: WatchedPage = { page, requests: [], console: [] };
  const wrong: string[] = [];
  page.on('request', (request) => {
    if (request.url().startsWith('data:')) return;
    if (!request.url().startsWith(`${origin}/`)) wrong.push(`asked ${request.url()}`);
    watched.requests.push(`${request.method()} ${request.url().slice(origin.length)}`);
  });
  page.on('console', (message) => {
    watched.console.push(message.text());
    // Some tests are about refused requests.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) wrong.push(message.text());
  });
  page.on('pageerror', (error) => wrong.push(String(error)));
  page.on('dialog', (dialog) => {
    wrong.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  t.after(async () => {
    for (const event of EVENTS) page.removeAllListeners(event);
    try {
      if (isReused && !page.isClosed()) {
        await clean(page, origin, options.viewport);
        idle.push(page);
      } else {
        await page.context().close();
      }
    } finally {
      if (!isAttacked) assert.deepEqual(wrong, []);
    }
  });
  await page.goto(url);
  return watched;
}
