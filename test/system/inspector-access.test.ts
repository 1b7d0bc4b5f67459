/** The inspector page in the hands of those who may do a part of everything: tokens with scopes, users of an issuer. */
import assert from 'node:assert/strict';
import { after, before, suite, test, type TestContext } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { jwtPrincipal } from '../../subsystems/auth/jwt/jwt-grants.ts';
import { principalToText } from '../../subsystems/ic/index.ts';
import { compileMotoko } from '../support/motoko.ts';
import { signed, signingKey, startIssuer } from '../support/oidc-issuer.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { type ChosenToken, writeTokens } from '../support/token-file.ts';
import { launchBrowser, openPage, type WatchedPage } from './browser.ts';
import { assertLook } from './page-look.ts';

const ROOT = 'correct-horse';
const CALLER = 'rrkah-fqaaa-aaaaa-aaaaq-cai';
const WHO = `persistent actor {
  var count = 0;
  public shared ({ caller }) func who() : async Principal { count += 1; caller };
  public query func total() : async Nat { count };
};`;
const TABS = ['Overview', 'Call', 'History', 'Output', 'State', 'Manage', 'Code'] as const;
const TOKENS: Readonly<Record<string, ChosenToken>> = {
  viewer: { may: ['inspect'] },
  clerk: { may: ['call:shop', 'query:shop', 'describe:shop', 'install:other'], caller: CALLER },
  machine: { may: ['call:shop', 'topup:shop', 'cycles:shop'] },
  reader: { may: ['history:shop', 'logs:shop', 'variables:*'] },
  operator: { may: ['inspect', 'stop:shop', 'settings:shop', 'snapshots:shop', 'upgrade:shop', 'backup', 'metrics'] },
  nobody: { may: [] },
};

const ends: (() => Promise<void>)[] = [];
const KEY = signingKey('EdDSA', 'k');
let browser: Browser;
let server: RunningServer;
let tokensFile: string;
let issuer: string;

before(async () => {
  const scope = { after: (end: () => unknown) => void ends.push(async () => void (await end())) };
  tokensFile = await writeTokens(TOKENS);
  issuer = (await startIssuer(scope as unknown as TestContext, [KEY])).url;
  const jwt = ['--jwt-issuer', issuer, '--jwt-audience', 'svc', '--jwt-may', 'call:shop', '--jwt-may', 'describe:shop'];
  const args = ['--auth-token', ROOT, '--tokens', tokensFile, '--state', await temporaryDirectory(), ...jwt];
  server = await startServer(scope, { manifest: '{"actors":{}}', args });
  const { wasm } = await compileMotoko(WHO);
  const installed = await server.post('/install/shop', wasm, { authorization: `Bearer ${ROOT}` });
  assert.equal(installed.status, 200, installed.body);
  browser = await launchBrowser();
});
after(async () => {
  await browser.close();
  for (const end of ends) await end();
});

interface LoggedIn extends WatchedPage {
  /** Answers other than 200 so far: `403 GET /x/host`. */
  readonly refused: string[];
}

async function enter(page: Page, token: string): Promise<void> {
  await page.getByLabel('bearer token').fill(token);
  await page.getByRole('button', { name: 'Log in' }).click();
}

async function logIn(t: TestContext, token: string, hash = ''): Promise<LoggedIn> {
  const watched = await openPage(t, browser, `${server.origin}/inspector${hash}`, { isReused: true });
  await watched.page.getByLabel('bearer token').waitFor();
  const refused: string[] = [];
  watched.page.on('response', (answer) => {
    if (answer.status() >= 400)
      refused.push(`${answer.status()} ${answer.request().method()} ${new URL(answer.url()).pathname}`);
  });
  await enter(watched.page, token);
  await watched.page.getByRole('button', { name: 'Log out' }).waitFor();
  return { ...watched, refused };
}

const secretOf = (name: string): string => `secret-of-${name}`;
const panelOf = (page: Page, tab: (typeof TABS)[number]) => page.locator(`#panel-${tab.toLowerCase()}`);
const lack = (page: Page, scope: string) => page.locator('.notice', { hasText: `It lacks the scope ${scope}:` });

async function show(page: Page, tab: (typeof TABS)[number]): Promise<void> {
  await page.locator(`#tab-${tab.toLowerCase()}`).click();
  await panelOf(page, tab).waitFor();
}

/** Reads what the head of the page tells of the token. */
async function rightsOf(page: Page): Promise<string> {
  await page.locator('button.who').click();
  const text = await page.locator('.notes .rights').innerText();
  await page.locator('button.who').click();
  return text;
}

suite('a token with scopes', { timeout: 300_000 }, () => {
  for (const name of Object.keys(TOKENS))
    test(`${name}: every part of the page is looked at, and nothing is asked that the server refuses`, async (t) => {
      const { page, refused } = await logIn(t, secretOf(name));
      assert.match(await rightsOf(page), new RegExp(`^${name}\n`));
      if (TOKENS[name]?.may.includes('inspect') === true) {
        await page.getByRole('option', { name: 'shop' }).click();
      } else {
        await lack(page, 'inspect').waitFor();
        await page.getByLabel('Open an actor by its name').fill('shop');
        await page.keyboard.press('Enter');
      }
      for (const tab of TABS) await show(page, tab);
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.getByLabel('bearer token').waitFor();
      assert.deepEqual(refused, []);
    });

  test('of one who may look: the reason stands where something cannot be chosen', async (t) => {
    const { page } = await logIn(t, secretOf('viewer'));
    assert.match(await rightsOf(page), /may see every actor, its messages and the figures of the host/);
    await lack(page, 'install:<name>').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Download a backup' }).isDisabled());
    await page.getByLabel('Backup').getByText('lacks backup').waitFor();
    await page.getByRole('button', { name: /^Up for/, disabled: true }).dispatchEvent('click');
    assert.equal(await page.getByRole('region', { name: '/metrics' }).count(), 0);
    await page.getByRole('option', { name: 'shop' }).click();
    await show(page, 'Call');
    await page.getByRole('button', { name: /^who/ }).click();
    await page.getByText('lacks call:shop').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Call', exact: true }).isDisabled());
    for (const [tab, scope] of [
      ['Output', 'logs:shop'],
      ['State', 'variables:shop'],
      ['Manage', 'settings:shop'],
      ['Manage', 'snapshots:shop'],
      ['Code', 'upgrade:shop'],
      ['Code', 'install:shop'],
    ] as const) {
      await show(page, tab);
      await panelOf(page, tab)
        .locator('.notice', { hasText: `It lacks the scope ${scope}:` })
        .first()
        .waitFor();
    }
    await show(page, 'Manage');
    await page.getByText('This token may not see its open methods.').waitFor();
    for (const label of ['Stop', 'Delete'])
      assert.ok(await page.getByRole('button', { name: label, exact: true }).isDisabled(), label);
    await assertLook(page, 'access-viewer');
  });

  test('of one who may call one actor: it is found without the list, and called as the token’s own caller', async (t) => {
    const { page, refused } = await logIn(t, secretOf('clerk'));
    await assertLook(page, 'access-clerk');
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.getByLabel('Actors of this token').getByRole('button', { name: 'shop' }).click();
    await page.getByRole('button', { name: /^who/ }).click();
    await page.getByText(`Calls as ${CALLER}`).waitFor();
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByLabel('Result', { exact: true }).getByText(CALLER).first().waitFor();
    await page.getByRole('button', { name: /^total/ }).click();
    await page.getByRole('button', { name: 'Query', exact: true }).click();
    await page.getByLabel('Result', { exact: true }).getByText('1').first().waitFor();
    assert.ok(await page.getByRole('button', { name: 'Watch' }).isDisabled());
    await assertLook(page, 'access-clerk-call');
    assert.deepEqual(refused, []);
  });

  test('of one who may not see the interface: a method is called by its name, also a query', async (t) => {
    const { page, refused } = await logIn(t, secretOf('machine'), '#/shop/call');
    await lack(page, 'describe:shop').waitFor();
    await page.getByLabel('Name of a method').fill('who');
    await page.getByRole('button', { name: 'Choose' }).click();
    await page.getByText('Calls as anonymous').waitFor();
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByLabel('Result', { exact: true }).getByText('2vxsx-fae').first().waitFor();
    await show(page, 'Overview');
    await page.getByLabel('Cycles to add').fill('5');
    await page.getByRole('button', { name: 'Top up' }).click();
    await page.getByText(/^Topped up/).waitFor();
    assert.deepEqual(refused, []);
  });

  test('a 403 that comes all the same names the scope that is lacking', async (t) => {
    const { page, refused } = await logIn(t, secretOf('clerk'));
    const form = page.getByRole('region', { name: 'Install an actor' });
    await form.getByLabel('Name').fill('foreign');
    const { wasm } = await compileMotoko(WHO);
    const file = { name: 'who.wasm', mimeType: 'application/wasm', buffer: Buffer.from(wasm) };
    await form.locator('.drop input').setInputFiles(file);
    await form.getByText('who.wasm').waitFor();
    await form.getByRole('button', { name: 'Install' }).click();
    await form.getByRole('alert').getByText('403: this token lacks the scope install:foreign').waitFor();
    assert.deepEqual(refused, ['403 POST /install/foreign']);
  });

  test('rights that change while the page is open change the page; a token that is taken back is asked for', async (t) => {
    const late: Record<string, ChosenToken> = { ...TOKENS, late: { may: ['call:shop', 'describe:shop'] } };
    const reread = async (): Promise<void> => {
      await writeTokens(late, tokensFile);
      server.process.kill('SIGHUP');
    };
    await reread();
    const { page } = await openPage(t, browser, `${server.origin}/inspector`, { isReused: true });
    await page.getByLabel('bearer token').waitFor();
    // SIGHUP has no answer: the first logins may come before the file was read.
    for (;;) {
      await enter(page, secretOf('late'));
      const known = page
        .getByRole('button', { name: 'Log out' })
        .waitFor()
        .then(() => true);
      if (
        await Promise.race([
          known,
          page
            .getByText('This server knows no such token.')
            .waitFor()
            .then(() => false),
        ])
      )
        break;
    }
    await lack(page, 'inspect').waitFor();
    late['late'] = { may: ['call:shop', 'inspect'] };
    await reread();
    await page.getByRole('option', { name: 'shop' }).waitFor();
    late['late'] = { may: ['call:shop'] };
    await reread();
    await lack(page, 'inspect').waitFor();
    delete late['late'];
    await reread();
    await page.getByText('This server knows no such token.').waitFor();
  });
});

suite('other tokens', { timeout: 120_000 }, () => {
  test('the server’s own token may do everything; logging out forgets it, and what was typed', async (t) => {
    const { page } = await logIn(t, ROOT, '#/shop/call/who');
    const rights = await rightsOf(page);
    assert.match(rights, /may do everything/);
    assert.match(rights, /in the name of any principal/);
    await page.getByLabel('Caller').fill(CALLER);
    await page.reload();
    assert.equal(await page.getByLabel('Caller').inputValue(), CALLER);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('bearer token').waitFor();
    assert.ok(!JSON.stringify(await page.evaluate('({ ...sessionStorage, ...localStorage })')).includes(ROOT));
    await page.reload();
    await enter(page, ROOT);
    assert.equal(await page.getByLabel('Caller').inputValue(), '');
  });

  test('a user of an issuer logs in with a JWT, and one that has expired is refused with the reason', async (t) => {
    const claims = { iss: issuer, aud: 'svc', sub: 'ann' };
    const { page } = await openPage(t, browser, `${server.origin}/inspector#/shop/call/who`, { isReused: true });
    await enter(page, signed(KEY, { ...claims, exp: 1_000 }));
    await page.getByText('The server refuses this token: it has expired').waitFor();
    await enter(page, signed(KEY, { ...claims, exp: Math.floor(Date.now() / 1000) + 3600 }));
    const who = principalToText(jwtPrincipal(issuer, 'ann'));
    await page.getByText(`Calls as ${who}`).waitFor();
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByLabel('Result', { exact: true }).getByText(who).first().waitFor();
    assert.match(await rightsOf(page), new RegExp(`may call methods of shop`));
  });
});
