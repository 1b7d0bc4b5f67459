/**
 * The Candid UI of the Internet Computer, unmodified, in a real Chromium: it is a canister of this host, and at a host
 * name of its own shows a counter and calls it. Its module is in the program of icp-cli, as npm has that.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { compileMotoko } from '../support/motoko.ts';
import { plainEnvironment } from '../support/packages.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { launchBrowser } from './browser.ts';

const run = promisify(execFile);
const PACKAGE = '@icp-sdk/icp-cli-linux-x64@1.5.0';
const MODULE_START = Buffer.from('0061736d01000000', 'hex');
/** A method that the Candid UI has, and no other module in the program. */
const METHOD = 'canister_query did_to_js';
const LAST_SECTION = 13;
/** Time limit of a step in the page, for machines that are busy elsewhere. */
const STEP_MS = 120_000;
const COUNTER = `persistent actor {
  var count = 0;
  public func inc() : async Nat { count += 1; count };
  public query func get() : async Nat { count };
}`;

/** Returns the program of icp-cli. */
async function icpProgram(): Promise<Buffer> {
  const folder = await temporaryDirectory();
  const options = { cwd: folder, env: plainEnvironment() };
  const { stdout } = await run('npm', ['pack', '--silent', '--prefer-offline', PACKAGE], options);
  await run('tar', ['-xzf', stdout.trim(), 'package/bin/icp'], options);
  return await readFile(join(folder, 'package/bin/icp'));
}

/** Returns an unsigned LEB128 number and the place behind it. */
function numberAt(bytes: Buffer, at: number): { readonly value: number; readonly end: number } {
  let [value, shift, end] = [0, 0, at];
  for (let byte = 0x80; byte >= 0x80; shift += 7) {
    byte = bytes[end++] ?? 0;
    value += (byte & 0x7f) * 2 ** shift;
  }
  return { value, end };
}

/** Returns the module in the program that exports the method: sections follow each other, a custom one has a name. */
function moduleIn(program: Buffer): Buffer {
  for (let start = program.indexOf(MODULE_START); start >= 0; start = program.indexOf(MODULE_START, start + 1)) {
    let at = start + MODULE_START.length;
    for (;;) {
      const kind = program[at] ?? LAST_SECTION;
      const { value: length, end } = numberAt(program, at + 1);
      const isNamed = kind !== 0 || numberAt(program, end).value < length;
      if (kind >= LAST_SECTION || !isNamed || end + length > program.length) break;
      at = end + length;
    }
    const module = program.subarray(start, at);
    if (module.includes(METHOD)) return module;
  }
  throw new Error(`no module in ${PACKAGE} has ${METHOD}`);
}

test('Candid UI shows the counter at a host name, queries it and calls it', async (t) => {
  const server = await startServer(t, { manifest: '{"actors":{}}', args: ['--site-hosts'] });
  assert.equal((await server.post('/install/counter', (await compileMotoko(COUNTER)).wasm)).status, 200);
  // Without a certificate its `http_request` traps; a service worker alone would look at it.
  const ui = await server.post('/install/ui?certificate=placeholder', moduleIn(await icpProgram()));
  assert.equal(ui.status, 200, ui.body);
  const actors = JSON.parse((await server.get('/inspect')).body) as readonly { readonly principal: string }[];
  const [counter = '', page = ''] = actors.map(({ principal }) => principal);
  const browser = await launchBrowser();
  t.after(() => browser.close());
  const tab = await browser.newPage();
  tab.setDefaultTimeout(STEP_MS);
  const { port } = new URL(server.origin);
  await tab.goto(`http://${page}.localhost:${port}/?id=${counter}`);
  await tab.getByText('inc: () → ').waitFor();
  const shows = (text: string): Promise<unknown> =>
    tab.waitForFunction(`document.body.innerText.replaceAll(/\\s+/g, ' ').includes(${JSON.stringify(text)})`);
  const press = (name: string): Promise<void> => tab.getByRole('button', { name, exact: true }).first().click();
  await press('Call');
  await shows('inc() (1)');
  assert.equal((await server.post('/query-json/counter/get')).body, '[1]');
  await server.post('/call-json/counter/inc');
  await press('Query');
  await shows('get() (2)');
});
