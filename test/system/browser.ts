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
}

/**
 * Opens a tab of its own. It may send requests only to its own origin, and when the test ends nothing must have been
 * thrown or refused by its policy.
 */
export async function openPage(
  t: TestOwner,
  browser: Browser,
  url: string,
  options: PageOptions = {},
): Promise<WatchedPage> {
  const { isAttacked = false, ...rest } = options;
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...rest });
  const page = await context.newPage();
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
    await context.close();
    if (!isAttacked) assert.deepEqual(wrong, []);
  });
  await page.goto(url);
  return watched;
}
