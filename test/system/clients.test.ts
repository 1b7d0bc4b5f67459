/** The ways of docs/clients.md: its commands and code as they stand there, with a real provider and a real Chromium. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { after, before, suite, test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import type { Browser, Page } from 'playwright-core';
import { buildClient } from '../../.ci/build-client.ts';
import { jwtPrincipal } from '../../subsystems/auth/jwt/jwt-grants.ts';
import { principalToText } from '../../subsystems/ic/index.ts';
import { listingsOf } from '../support/doc-listings.ts';
import { startLoginIssuer } from '../support/login-issuer.ts';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { launchBrowser } from './browser.ts';

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '../..');
const COUNTER = `persistent actor {
  var count = 0;
  public func inc() : async Nat { count += 1; count };
  public query ({ caller }) func whoami() : async Principal { caller };
}`;

let browser: Browser;
before(async () => {
  browser = await launchBrowser();
});
after(() => browser.close());

async function listing(section: string, language: string, at = 0): Promise<string> {
  const found = ((await listingsOf('clients')).get(section) ?? []).filter((each) => each.language === language);
  return found[at]?.text ?? assert.fail(`docs/clients.md has no ${language} in ${section}`);
}

/** Opens a tab with a profile of its own, which may go to other origins; nothing may be thrown in it. */
async function openTab(t: TestContext, url: string): Promise<Page> {
  const context = await browser.newContext();
  const page = await context.newPage();
  const thrown: string[] = [];
  page.on('pageerror', (error) => thrown.push(String(error)));
  t.after(async () => {
    await context.close();
    assert.deepEqual(thrown, []);
  });
  await page.goto(url);
  return page;
}

async function shows(page: Page, selector: string, text: string): Promise<void> {
  const [where, what] = [selector, text].map((each) => JSON.stringify(each));
  try {
    await page.waitForFunction(`document.querySelector(${where})?.textContent.includes(${what})`, undefined, {
      timeout: 30_000,
    });
  } catch {
    assert.fail(`no ${text} in ${selector}: ${await page.evaluate<string>('document.body.innerText')}`);
  }
}

async function logIn(page: Page, user: string): Promise<void> {
  await page.click('#log-in');
  await page.fill('input[name=user]', user);
  await page.click('button');
}

suite('the page whose users log in', () => {
  /** Copies the example as the document says, with the provider's address. */
  async function startExample(t: TestContext, issuer: string): Promise<RunningServer> {
    const folder = await temporaryDirectory();
    await mkdir(join(folder, 'node_modules/svc/config'), { recursive: true });
    await cp(join(ROOT, 'config/examples'), join(folder, 'node_modules/svc/config/examples'), { recursive: true });
    await mkdir(join(folder, 'node_modules/svc/dist/client'), { recursive: true });
    await writeFile(join(folder, 'node_modules/svc/dist/client/svc-client.mjs'), await buildClient());
    await run('sh', ['-ec', await listing('A page whose users log in', 'sh')], { cwd: folder });
    const config = join(folder, 'journal/page/config.json');
    await writeFile(config, (await readFile(config, 'utf8')).replace('https://issuer.example', issuer));
    const command = await listing('A page whose users log in', 'sh', 1);
    const flags = command.replaceAll('\\\n', ' ').replace('https://issuer.example', issuer).trim().split(/\s+/);
    assert.deepEqual(flags.slice(0, 4), ['npx', 'svc', '--manifest', 'actors.json']);
    const args = flags.slice(4).map((flag) => (flag === 'state' ? join(folder, 'state') : flag));
    return startServer(t, { manifestFile: join(folder, 'journal/actors.json'), args });
  }

  test('logs in, writes, sees it in each tab of the same user and of nobody else', { timeout: 180_000 }, async (t) => {
    const issuer = await startLoginIssuer(t);
    const server = await startExample(t, issuer.url);
    const url = `http://app.localhost:${new URL(server.origin).port}/`;
    const [ann, again, bob] = [await openTab(t, url), await openTab(t, url), await openTab(t, url)];
    for (const [page, user] of [
      [ann, 'ann'],
      [again, 'ann'],
      [bob, 'bob'],
    ] as const) {
      await logIn(page, user);
      await shows(page, '#who', principalToText(jwtPrincipal(issuer.url, user)));
      // A code counts once, and is no address to keep.
      assert.equal(page.url(), url);
    }
    await bob.fill('#text', 'a day of Bob');
    await bob.press('#text', 'Enter');
    await shows(bob, 'ol', 'a day of Bob');
    await ann.fill('#text', '<b>a day of Ann</b>');
    await ann.press('#text', 'Enter');
    for (const page of [ann, again]) {
      await shows(page, 'ol', '<b>a day of Ann</b>');
      assert.equal(await page.locator('li').count(), 1);
    }
    assert.doesNotMatch((await bob.textContent('ol')) ?? '', /Ann/);
    await ann.click('#log-out');
    await ann.waitForSelector('#log-in:visible');
    assert.equal(await ann.locator('section:visible').count(), 0);
    // A page that is not logged in is refused, like programs without credentials.
    assert.equal((await server.post('/query-json/journal/entries', '[]')).status, 401);
  });

  test('says why a login failed, and offers another one', { timeout: 180_000 }, async (t) => {
    const issuer = await startLoginIssuer(t);
    const server = await startExample(t, issuer.url);
    const url = `http://app.localhost:${new URL(server.origin).port}/`;
    const page = await openTab(t, url);
    await logIn(page, 'nobody');
    await shows(page, '#note', 'access_denied');
    // An answer to somebody else's login.
    await page.goto(`${url}?code=1&state=2`);
    await shows(page, '#note', 'This login did not begin here.');
    issuer.tokenSecs = -3600;
    await logIn(page, 'ann');
    await shows(page, '#note', 'token');
    await page.waitForSelector('#log-in:visible');
    issuer.tokenSecs = 3600;
    await logIn(page, 'ann');
    await shows(page, '#who', principalToText(jwtPrincipal(issuer.url, 'ann')));
  });
});

async function principalOf(server: RunningServer, headers: Record<string, string>): Promise<string> {
  const { body } = await server.get('/inspect', headers);
  const actors = JSON.parse(body) as readonly { readonly name: string; readonly principal: string }[];
  return actors.find(({ name }) => name === 'counter')?.principal ?? assert.fail(body);
}

suite('agents', () => {
  test('in Node: the key is kept, and its principal calls', { timeout: 180_000 }, async (t) => {
    const folder = await temporaryDirectory();
    await mkdir(join(folder, 'node_modules/@icp-sdk'), { recursive: true });
    await symlink(join(ROOT, 'node_modules/icp-core-6'), join(folder, 'node_modules/@icp-sdk/core'));
    await writeFile(join(folder, 'count.mts'), await listing('An agent in Node', 'ts'));
    const server = await startServer(t, { manifest: '{"actors":{}}', args: ['--auth-token', 'root'] });
    const headers = { authorization: 'Bearer root' };
    await server.post('/install/counter', (await compileMotoko(COUNTER)).wasm, headers);
    const principal = await principalOf(server, headers);
    const env = { ...process.env, AGENT_HOST: server.origin, COUNTER: principal, TOKEN: 'root' };
    const count = async (): Promise<string> =>
      (await run(process.execPath, ['count.mts'], { cwd: folder, env })).stdout.trim();
    const [first, second] = [await count(), await count()];
    assert.match(first, /^[a-z0-9-]{63} counts 1$/);
    assert.equal(second, first.replace('counts 1', 'counts 2'));
    assert.equal((await stat(join(folder, 'key.json'))).mode & 0o777, 0o600);
    await assert.rejects(run(process.execPath, ['count.mts'], { cwd: folder, env: { ...env, TOKEN: 'wrong' } }), /401/);
  });

  test('in a page: the browser makes the key, and its principal calls', { timeout: 180_000 }, async (t) => {
    const folder = await temporaryDirectory();
    await mkdir(join(folder, 'dist'));
    await writeFile(join(folder, 'app.js'), await listing('An agent in a page', 'js'));
    const html =
      '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><p id="who"></p><p id="count"></p>';
    await writeFile(join(folder, 'dist/index.html'), `${html}<script type="module" src="app.js"></script>`);
    await build({
      absWorkingDir: folder,
      entryPoints: ['app.js'],
      alias: { '@icp-sdk/core': 'icp-core-6' },
      nodePaths: [join(ROOT, 'node_modules')],
      bundle: true,
      format: 'esm',
      outfile: 'dist/app.js',
      logLevel: 'error',
    });
    await writeFile(join(folder, 'counter.wasm'), (await compileMotoko(COUNTER)).wasm);
    const actors = { app: { assets: 'dist' }, counter: { wasm: 'counter.wasm' } };
    await writeFile(join(folder, 'actors.json'), JSON.stringify({ actors }));
    const args = ['--site-hosts', '--auth-token', 'root', '--agents', 'open', '--browser-guard'];
    const server = await startServer(t, { manifestFile: join(folder, 'actors.json'), args });
    const headers = { authorization: 'Bearer root' };
    const principal = await principalOf(server, headers);
    const url = `http://app.localhost:${new URL(server.origin).port}/?counter=${principal}`;
    const page = await openTab(t, url);
    await shows(page, '#count', '1');
    const who = await page.textContent('#who');
    assert.match(who ?? '', /^[a-z0-9-]{63}$/);
    const other = await openTab(t, url);
    await shows(other, '#count', '2');
    assert.notEqual(await other.textContent('#who'), who);
  });
});
