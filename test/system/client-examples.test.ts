/** The pages of docs/client.md in a real Chromium, served by the server as folders, as the document says. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { after, before, suite, test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import type { Browser, Page } from 'playwright-core';
import { buildClient } from '../../.ci/build-client.ts';
import { listingsOf } from '../support/doc-listings.ts';
import { freePort } from '../support/free-port.ts';
import { compileCounter } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { launchBrowser, openPage } from './browser.ts';

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '../..');

let browser: Browser;
before(async () => {
  browser = await launchBrowser();
});
after(() => browser.close());

/** Returns the text of the one listing of a section. */
async function listing(section: string): Promise<string> {
  const [found] = (await listingsOf('client')).get(section) ?? [];
  return found?.text ?? assert.fail(`docs/client.md has no listing in ${section}`);
}

/** A project as its developer has it: the folder `dist`, a manifest and a counter. */
class Project {
  readonly folder: string;
  readonly #state: string;
  readonly #port: number;
  readonly #t: TestContext;

  constructor(t: TestContext, folder: string, state: string, port: number) {
    this.#t = t;
    this.folder = folder;
    this.#state = state;
    this.#port = port;
  }

  static async make(t: TestContext): Promise<Project> {
    const folder = await temporaryDirectory();
    await mkdir(join(folder, 'dist'));
    await writeFile(join(folder, 'svc-client.mjs'), await buildClient());
    await writeFile(join(folder, 'counter.wasm'), await compileCounter());
    const actors = { app: { assets: 'dist' }, counter: { wasm: 'counter.wasm' } };
    await writeFile(join(folder, 'actors.json'), JSON.stringify({ actors }));
    return new Project(t, folder, await temporaryDirectory(), await freePort());
  }

  start(): Promise<RunningServer> {
    const args = ['--state', this.#state, '--browser-guard'];
    return startServer(this.#t, { manifestFile: join(this.folder, 'actors.json'), port: this.#port, args });
  }
}

async function shows(page: Page, output: string, note: string): Promise<void> {
  const expected = `document.querySelector('output').textContent === ${JSON.stringify(output)} &&
    document.querySelector('[role=status]').textContent === ${JSON.stringify(note)}`;
  try {
    await page.waitForFunction(expected, undefined, { timeout: 30_000 });
  } catch {
    assert.fail(await page.evaluate<string>('document.body.innerText'));
  }
}

/** Walks through the page: it counts, tells that the server is away, and goes on when it is back. */
async function walk(t: TestContext, project: Project): Promise<void> {
  const server = await project.start();
  const url = `${server.origin}/site/app/`;
  // The requests that fail while the server is away.
  const { page } = await openPage(t, browser, url, { isAttacked: true, isReused: true });
  const { page: other } = await openPage(t, browser, url, { isAttacked: true, isReused: true });
  await shows(page, '0', '');
  await page.click('button');
  await shows(page, '1', '');
  await shows(other, '1', '');
  await server.kill();
  await shows(page, '1', 'The server is away; this is the last count.');
  const again = await project.start();
  await shows(page, '1', '');
  await other.click('button');
  await shows(page, '2', '');
  assert.equal((await again.post('/stop/counter')).body, 'stopped');
  await page.click('button');
  await page.waitForFunction(`/stopped/.test(document.querySelector('[role=status]').textContent)`);
}

suite('the pages of docs/client.md', () => {
  test('the plain page', { timeout: 180_000 }, async (t) => {
    const project = await Project.make(t);
    await writeFile(join(project.folder, 'dist/index.html'), await listing('A plain page'));
    await writeFile(join(project.folder, 'dist/svc-client.mjs'), await buildClient());
    await walk(t, project);
  });

  test('the page with React, made by a bundler', { timeout: 180_000 }, async (t) => {
    const project = await Project.make(t);
    await writeFile(join(project.folder, 'app.jsx'), await listing('React'));
    const page = '<!doctype html><meta charset="utf-8"><title>app</title><div id="app"></div>';
    await writeFile(join(project.folder, 'dist/index.html'), `${page}<script type="module" src="app.js"></script>`);
    await build({
      absWorkingDir: project.folder,
      entryPoints: ['app.jsx'],
      alias: { 'svc/client': join(project.folder, 'svc-client.mjs') },
      nodePaths: [join(ROOT, 'node_modules')],
      bundle: true,
      format: 'esm',
      jsx: 'automatic',
      outfile: 'dist/app.js',
      logLevel: 'error',
    });
    await walk(t, project);
  });
});

suite('the path of docs/websites.md from a bundler to a site', () => {
  test('made, served, upgraded, on a server with a token, with live data', { timeout: 180_000 }, async (t) => {
    const listings = (await listingsOf('websites')).get('From a bundler to a site with live data') ?? [];
    const folder = await temporaryDirectory();
    for (const { file, text } of listings) if (file !== undefined) await writeFile(join(folder, file), text);
    const [made = '', changed = ''] = listings.filter(({ language }) => language === 'sh').map(({ text }) => text);
    // The packages as npm puts them there.
    await mkdir(join(folder, 'node_modules/svc'), { recursive: true });
    await mkdir(join(folder, 'node_modules/.bin'));
    await writeFile(join(folder, 'node_modules/svc/client.mjs'), await buildClient());
    const packageJson = { name: 'svc', version: '0.0.0', exports: { './client': './client.mjs' } };
    await writeFile(join(folder, 'node_modules/svc/package.json'), JSON.stringify(packageJson));
    await symlink(join(ROOT, 'node_modules/esbuild/bin/esbuild'), join(folder, 'node_modules/.bin/esbuild'));
    const shell = async (script: string): Promise<string> => (await run('sh', ['-ec', script], { cwd: folder })).stdout;

    const served = made.trim().split('\n').at(-1) ?? '';
    await shell(made.replace(served, ''));
    const [npx, svc, ...args] = served.split(' ');
    assert.deepEqual([npx, svc], ['npx', 'svc']);
    const server = await startServer(t, {
      command: [process.execPath, join(ROOT, 'config/svc.js')],
      directory: folder,
      args,
    });
    const { port } = new URL(server.origin);
    const url = `http://app.localhost:${port}/`;
    const { page } = await openPage(t, browser, url, { isReused: true });
    const { page: other } = await openPage(t, browser, url, { isReused: true });
    await shows(page, '0', '');
    await page.click('button');
    await shows(page, '1', '');
    await shows(other, '1', '');
    const open = ['/call-json/counter/inc', '/upgrade/app', '/install/more'];
    const statuses = await Promise.all(open.map(async (path) => (await server.post(path, '')).status));
    assert.deepEqual(statuses, [200, 401, 401]);
    await shows(other, '2', '');

    await writeFile(join(folder, 'index.html'), listingFile(listings, 'index.html').replace('so far', 'by now'));
    assert.equal(await shell(changed.replace('127.0.0.1:7000', `127.0.0.1:${port}`)), 'upgraded');
    await page.reload();
    await shows(page, '2', '');
    assert.equal(await page.textContent('h1'), 'Counted by now');
    await other.click('button');
    await shows(page, '3', '');
    const token = (await shell('cat token')).trim();
    const streams = await server.get('/metrics', { authorization: `Bearer ${token}` });
    // Two contexts are two browsers: each has a stream.
    assert.match(streams.body, /^svc_http_event_streams 2$/m);
    assert.equal(await server.stop(), 0);
  });
});

function listingFile(
  listings: readonly { readonly file: string | undefined; readonly text: string }[],
  name: string,
): string {
  return listings.find(({ file }) => file === name)?.text ?? assert.fail(name);
}
