/**
 * An asset canister, filled by the unmodified `@dfinity/assets`, and deployed by `icp`; and what it serves, in a real
 * Chromium. The canister is one of this tree with the interface of the Internet Computer's: that one is no package.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { Ed25519KeyIdentity } from 'icp-core-6/identity';
import type { Browser } from 'playwright-core';
import { type AssetTools, installAssetTools } from '../support/asset-manager.ts';
import { listingsOf } from '../support/doc-listings.ts';
import { installIcp } from '../support/icp.ts';
import { ANY_ACTOR, compileMotoko, compileMotokoFile } from '../support/motoko.ts';
import { plainEnvironment } from '../support/packages.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { launchBrowser } from './browser.ts';

const run = promisify(execFile);
const SOURCE = fileURLToPath(new URL('../fixtures/certifying/Assets.mo', import.meta.url));
const MINUTES = 60_000;
const FIRST = 'bkyz2-fmaaa-aaaaa-qaaaq-cai';
const INDEX =
  '<!doctype html><title>wait</title><img src="/dot.svg"><p id="count"></p><script src="/js/app.js"></script>';
const DOT = '<svg xmlns="http://www.w3.org/2000/svg" width="3" height="2"/>';
const SCRIPT = `fetch('/call-json/counter/inc', { method: 'POST', body: '[]' })
  .then((answer) => answer.json())
  .then(([count]) => { document.querySelector('#count').textContent = count; document.title = 'ready'; });`;

const text = (content: string): Uint8Array => new TextEncoder().encode(content);
const { wasm } = await compileMotokoFile(SOURCE);

let browser: Browser;
before(async () => {
  browser = await launchBrowser();
});
after(() => browser.close());

let tools: Promise<AssetTools> | undefined;
/** Installs once. */
const toolsOf = (): Promise<AssetTools> => (tools ??= temporaryDirectory().then(installAssetTools));

/** Looks at the site in Chromium, by its principal. */
async function look(
  t: { after(end: () => Promise<void>): void },
  server: RunningServer,
  principal: string,
): Promise<void> {
  const tab = await browser.newPage();
  t.after(() => tab.close());
  await tab.goto(`http://${principal}.localhost:${new URL(server.origin).port}/`);
  await tab.waitForFunction("document.title === 'ready'");
  assert.equal(await tab.textContent('#count'), '1', 'the back end has counted');
  assert.equal(await tab.evaluate("document.querySelector('img').naturalWidth"), 3);
}

suite('an asset canister', () => {
  test(
    'is filled, read and emptied by AssetManager, and certifies what it serves',
    { timeout: 5 * MINUTES },
    async (t) => {
      const server = await startServer(t, { manifest: '{"actors":{}}', args: ['--site-hosts'] });
      const { agentOf, managerOf } = await toolsOf();
      const identity = Ed25519KeyIdentity.generate();
      const headers = { 'x-caller': identity.getPrincipal().toText() };
      const installed = await server.post('/install/assets?certificate=signed', wasm, headers);
      assert.equal(installed.status, 200, installed.body);
      await server.post('/install/counter', (await compileMotoko(ANY_ACTOR)).wasm);
      const agent = await agentOf(server.origin, identity);
      const manager = managerOf({ agent, canisterId: FIRST, maxSingleFileSize: 100_000, maxChunkSize: 40_000 });
      const keys = async (): Promise<readonly string[]> => (await manager.list()).map(({ key }) => key).toSorted();

      // One request for small files, a batch with chunks for a large one.
      assert.equal(await manager.store(text(INDEX), { fileName: 'index.html' }), '/index.html');
      assert.equal(await manager.store(text(DOT), { fileName: 'dot.svg' }), '/dot.svg');
      const large = new Uint8Array(randomBytes(250_001));
      assert.equal(await manager.store(large, { fileName: 'large.bin', path: '/files' }), '/files/large.bin');
      const folder = await temporaryDirectory();
      await writeFile(join(folder, 'app.js'), SCRIPT);
      assert.equal(await manager.store(join(folder, 'app.js'), { path: '/js' }), '/js/app.js');
      assert.deepEqual(await keys(), ['/dot.svg', '/files/large.bin', '/index.html', '/js/app.js']);
      const asset = await manager.get('/files/large.bin');
      assert.deepEqual([asset.length, asset.contentType], [250_001, 'application/octet-stream']);
      assert.ok(Buffer.from(await asset.toUint8Array()).equals(large));
      assert.equal(await asset.verifySha256(), true);
      for (const key of await keys()) assert.equal(await (await manager.get(key)).isCertified(), true, key);
      await look(t, server, FIRST);

      const batch = manager.batch();
      const packed = gzipSync(SCRIPT);
      batch.delete('/files/large.bin');
      await batch.store(text('of a batch'), { fileName: 'note.txt', headers: [['x-note', 'yes']] });
      await batch.store(new Uint8Array(packed), { fileName: 'app.js', path: '/js', contentEncoding: 'gzip' });
      assert.ok((await keys()).includes('/files/large.bin'), 'nothing has happened yet');
      await batch.commit();
      assert.deepEqual(await keys(), ['/dot.svg', '/index.html', '/js/app.js', '/note.txt']);
      assert.ok(Buffer.from(await (await manager.get('/js/app.js', ['gzip'])).toUint8Array()).equals(packed));
      const note = await server.fetch('/site/assets/note.txt');
      assert.deepEqual([await note.text(), note.headers.get('x-note')], ['of a batch', 'yes']);

      // Nothing of a batch is done if a part of it fails.
      const wrong = manager.batch();
      await wrong.store(text('lost'), { fileName: 'lost.txt' });
      wrong.delete('/nothing');
      await assert.rejects(wrong.commit(), /there is no \/nothing/);
      assert.ok(!(await keys()).includes('/lost.txt'));
      await manager.delete('/note.txt');
      assert.ok(!(await keys()).includes('/note.txt'));
      const stranger = managerOf({
        agent: await agentOf(server.origin, Ed25519KeyIdentity.generate()),
        canisterId: FIRST,
      });
      await assert.rejects(stranger.clear(), /the caller is no controller/);
      await manager.clear();
      assert.deepEqual(await keys(), []);
    },
  );

  test('takes a folder by the program of the documents', { timeout: 5 * MINUTES }, async (t) => {
    const server = await startServer(t, { manifest: '{"actors":{}}', args: ['--site-hosts'] });
    const { directory, agentOf, managerOf } = await toolsOf();
    const folder = join(directory, 'program');
    await mkdir(join(folder, 'dist/js'), { recursive: true });
    const program = (await listingsOf('clients')).get('A front end in an asset canister') ?? [];
    const listing =
      program.find(({ language }) => language === 'js')?.text ?? assert.fail('the document has no program');
    const identity = Ed25519KeyIdentity.generate();
    const core = import.meta.resolve('icp-core-6/identity');
    await Promise.all([
      writeFile(join(folder, 'upload.mjs'), listing.replace('@icp-sdk/core/identity', core)),
      writeFile(join(folder, 'key.json'), JSON.stringify(identity)),
      writeFile(join(folder, 'dist/index.html'), INDEX),
      writeFile(join(folder, 'dist/dot.svg'), DOT),
      writeFile(join(folder, 'dist/js/app.js'), SCRIPT),
    ]);
    const headers = { 'x-caller': identity.getPrincipal().toText() };
    await server.post('/install/app?certificate=signed', wasm, headers);
    await server.post('/install/counter', (await compileMotoko(ANY_ACTOR)).wasm);
    const env = plainEnvironment({ AGENT_HOST: server.origin, ASSETS: FIRST });
    await run(process.execPath, ['upload.mjs', 'index.html', 'dot.svg', 'js/app.js'], { cwd: folder, env });
    const manager = managerOf({ agent: await agentOf(server.origin), canisterId: FIRST });
    const keys = (await manager.list()).map(({ key }) => key).toSorted();
    assert.deepEqual(keys, ['/dot.svg', '/index.html', '/js/app.js']);
    await look(t, server, FIRST);
  });

  test('whose server has another root key is not certified', { timeout: 5 * MINUTES }, async (t) => {
    const { agentOf, managerOf } = await toolsOf();
    const servers = [];
    for (let n = 0; n < 2; n++) servers.push(await startServer(t, { manifest: '{"actors":{}}' }));
    const [server, other] = servers;
    assert.ok(server !== undefined && other !== undefined);
    const identity = Ed25519KeyIdentity.generate();
    const headers = { 'x-caller': identity.getPrincipal().toText() };
    await server.post('/install/assets?certificate=signed', wasm, headers);
    await other.post('/install/assets?certificate=placeholder', wasm, headers);
    const agent = await agentOf(server.origin, identity);
    const manager = managerOf({ agent, canisterId: FIRST });
    await manager.store(text(INDEX), { fileName: 'index.html' });
    const asset = await manager.get('/index.html');
    assert.equal(await asset.isCertified(), true);
    agent.rootKey = (await agentOf(other.origin)).rootKey;
    assert.equal(await asset.isCertified(), false);
    const unsigned = managerOf({ agent: await agentOf(other.origin, identity), canisterId: FIRST });
    await unsigned.store(text(INDEX), { fileName: 'index.html' });
    assert.equal(await (await unsigned.get('/index.html')).isCertified(), false);
  });

  test(
    'is a front end that icp deploys, with files that its sync step uploads',
    { timeout: 5 * MINUTES },
    async (t) => {
      const server = await startServer(t, {
        manifest: '{"actors":{}}',
        args: ['--site-hosts', '--agent-certificates'],
      });
      const { directory } = await toolsOf();
      const project = join(directory, 'project');
      await mkdir(join(project, 'dist/js'), { recursive: true });
      const icp = await installIcp(await temporaryDirectory(), project);
      await server.post('/install/counter', (await compileMotoko(ANY_ACTOR)).wasm);
      await Promise.all([
        writeFile(join(project, 'assets.wasm'), wasm),
        writeFile(join(project, 'dist/index.html'), INDEX),
        writeFile(join(project, 'dist/dot.svg'), DOT),
        writeFile(join(project, 'dist/js/app.js'), SCRIPT),
        writeFile(
          join(project, 'icp.yaml'),
          `
canisters:
  - name: app
    build:
      steps:
        - type: pre-built
          path: assets.wasm
          sha256: ${createHash('sha256').update(wasm).digest('hex')}
    sync:
      steps:
        - type: script
          command: node sync.mjs
networks:
  - name: svc
    mode: connected
    url: ${server.origin}
    root-key: fetch
environments:
  - name: dev
    network: svc
`,
        ),
        writeFile(
          join(project, 'sync.mjs'),
          `
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
const types = { '.html': 'text/html', '.svg': 'image/svg+xml', '.js': 'text/javascript' };
for (const file of globSync('**/*.*', { cwd: 'dist' })) {
  const content = readFileSync('dist/' + file).toString('hex').replaceAll(/../g, '\\\\$&');
  const type = types[file.slice(file.lastIndexOf('.'))];
  const argument = '(record { key = "/' + file + '"; content = blob "' + content + '"; content_type = "' + type +
    '"; content_encoding = "identity"; sha256 = null })';
  execFileSync('icp', ['canister', 'call', 'app', 'store', argument, '-e', 'dev']);
}
`,
        ),
      ]);
      await icp('identity', 'new', 'alice', '--storage', 'plaintext');
      await icp('identity', 'default', 'alice');
      const deployed = await icp('deploy', '-e', 'dev');
      const principal = /Created canister app with ID (?<id>[a-z0-9-]+)/.exec(deployed)?.groups?.['id'];
      assert.ok(principal !== undefined, deployed);
      await look(t, server, principal);
      await writeFile(join(project, 'dist/more.html'), 'more');
      await icp('deploy', '-e', 'dev');
      const more = await server.fetch(`/site/${principal}/more.html`);
      assert.equal(await more.text(), 'more');
    },
  );
});
