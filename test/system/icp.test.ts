/** `icp` as it comes from npm: connected to a server that runs, and as the one who starts it (`docs/clients.md`). */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { before, suite, test } from 'node:test';
import { promisify } from 'node:util';
import { listingsOf } from '../support/doc-listings.ts';
import { freePort } from '../support/free-port.ts';
import { type Icp, installIcp } from '../support/icp.ts';
import { compileMotoko } from '../support/motoko.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { launchBrowser } from './browser.ts';

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '../..');
const MINUTES = 60_000;

function counterSource(more = ''): string {
  return `
    import Debug "mo:core/Debug";
    import Runtime "mo:core/Runtime";
    persistent actor Counter {
      var count = 0;
      public func inc() : async Nat { count += 1; Debug.print("count is " # debug_show count); count };
      public query func get() : async Nat { count };
      public shared query ({ caller }) func whoami() : async Principal { caller };
      public func colour() : async ?Text { Runtime.envVar<system>("COLOUR") };
      ${more}
    };`;
}

let directory: string;
let project: string;
let icp: Icp;

before(async () => {
  directory = await temporaryDirectory();
  project = join(directory, 'project');
  await mkdir(join(project, 'node_modules/.bin'), { recursive: true });
  await symlink(join(ROOT, 'config/svc-network-launcher'), join(project, 'node_modules/.bin/svc-network-launcher'));
  icp = await installIcp(directory, project);
  await icp('identity', 'new', 'alice', '--storage', 'plaintext');
  await icp('identity', 'default', 'alice');
});

async function listing(language: string, at = 0): Promise<string> {
  const found = ((await listingsOf('clients')).get('icp') ?? []).filter((each) => each.language === language);
  return found[at]?.text ?? assert.fail(`docs/clients.md has no ${language} for icp`);
}

/** Writes the project of the document, with the ports that are free. */
async function writeProject(ports: { readonly local?: string; readonly svc?: string }): Promise<void> {
  const yaml = (await listing('yaml')).replace('8000', ports.local ?? '8000').replace('7000', ports.svc ?? '7000');
  await writeFile(join(project, 'icp.yaml'), yaml);
  await writeFile(join(project, 'counter.wasm'), (await compileMotoko(counterSource())).wasm);
}

suite('icp', () => {
  test('manages canisters of a server that runs', { timeout: 5 * MINUTES }, async (t) => {
    const server = await startServer(t, { manifest: '{ "actors": {} }' });
    await writeProject({ svc: new URL(server.origin).port });
    const there = ['-e', 'dev'] as const;
    const canister = (...args: readonly string[]): Promise<string> => icp('canister', ...args, ...there);
    assert.match(await icp('network', 'ping', 'svc'), /"replica_health_status": "healthy"/);
    assert.match(await icp('deploy', ...there), /Created canister counter with ID bkyz2-fmaaa-aaaaa-qaaaq-cai/);
    assert.match(await canister('call', 'counter', 'inc', '()'), /\(1 : nat\)/);
    assert.match(await canister('call', 'counter', 'get', '()', '--query'), /\(1 : nat\)/);
    assert.match(await canister('logs', 'counter'), /count is 1/);
    assert.match(await canister('metadata', 'counter', 'candid:service'), /inc: \(\) -> \(nat\);/);

    await writeFile(
      join(project, 'counter.wasm'),
      (await compileMotoko(counterSource('public func add(n : Nat) : async Nat { count += n; count };'))).wasm,
    );
    await icp('deploy', ...there);
    assert.match(await canister('call', 'counter', 'add', '(4)'), /\(5 : nat\)/);

    await canister('settings', 'update', 'counter', '--add-environment-variable', 'COLOUR=blue');
    assert.match(await canister('call', 'counter', 'colour', '()'), /opt "blue"/);
    assert.match(await canister('status', 'counter'), /Name: COLOUR, Value: blue/);
    await canister('top-up', 'counter', '--amount', '1t');
    assert.match(await canister('status', 'counter'), /Cycles: 2_999_/);

    await canister('stop', 'counter');
    assert.match(await canister('status', 'counter'), /Status: Stopped/);
    const taken =
      /snapshot (?<id>[0-9a-f]+)/.exec(await canister('snapshot', 'create', 'counter'))?.groups?.['id'] ?? '';
    await canister('start', 'counter');
    const kept = join(directory, 'snapshot');
    await canister('snapshot', 'download', 'counter', taken, '-o', kept);
    await canister('snapshot', 'delete', 'counter', taken);
    assert.match(await canister('call', 'counter', 'inc', '()'), /\(6 : nat\)/);
    await canister('stop', 'counter');
    const uploaded = /restore counter (?<id>[0-9a-f]+)/.exec(
      await canister('snapshot', 'upload', 'counter', '-i', kept),
    );
    await canister('snapshot', 'restore', 'counter', uploaded?.groups?.['id'] ?? '');
    await canister('start', 'counter');
    assert.match(await canister('call', 'counter', 'get', '()', '--query'), /\(5 : nat\)/);

    // A delegation is the identity that has signed it.
    await writeFile(
      join(directory, 'bob.pem'),
      await stdoutOf('identity', 'delegation', 'request', 'bob', '--storage', 'plaintext'),
    );
    const chain = await stdoutOf(
      'identity',
      'delegation',
      'sign',
      '--key-pem',
      join(directory, 'bob.pem'),
      '--duration',
      '1h',
    );
    await writeFile(join(directory, 'chain.json'), chain);
    await icp('identity', 'delegation', 'use', 'bob', '--from-json', join(directory, 'chain.json'));
    const alice = (await stdoutOf('identity', 'principal')).trim();
    assert.ok((await canister('call', 'counter', 'whoami', '()', '--query', '--identity', 'bob')).includes(alice));
    await canister('stop', 'counter', '--identity', 'bob');
    await assert.rejects(canister('start', 'counter', '--identity', 'anonymous'), /not one of its controllers/);
    await canister('start', 'counter');

    assert.match(await icp('cycles', 'mint', '--icp', '2', ...there), /Minted 1_99|Minted 2_000/);
    assert.match(await icp('token', 'balance', ...there), /10000000000\.0+ ICP/);
    assert.match(await canister('delete', 'counter'), /Recovered 2\d{12} cycles/);
    const inspected = await fetch(`${server.origin}/inspect`);
    assert.deepEqual(await inspected.json(), []);
  });

  test('has the token of a server in its address', { timeout: 5 * MINUTES }, async (t) => {
    const args = ['--auth-token', 'sesame', '--agent-path-token'];
    const server = await startServer(t, { manifest: '{ "actors": {} }', args });
    const port = new URL(server.origin).port;
    await writeProject({ svc: port });
    await assert.rejects(icp('network', 'ping', 'svc'), /401/);
    const yaml = await readFile(join(project, 'icp.yaml'), 'utf8');
    await writeFile(join(project, 'icp.yaml'), yaml.replace(`:${port}`, `:${port}/t/sesame/`));
    assert.match(await icp('network', 'ping', 'svc'), /"replica_health_status": "healthy"/);
    await icp('deploy', '-e', 'dev');
    assert.match(await icp('canister', 'call', 'counter', 'inc', '()', '-e', 'dev'), /\(1 : nat\)/);
    assert.doesNotMatch(server.output.stderr + server.output.stdout, /sesame/);
  });

  test(
    'starts the server as its network, with Candid UI, and finds the data again',
    { timeout: 5 * MINUTES },
    async (t) => {
      const port = String(await freePort());
      await writeProject({ local: port });
      t.after(async () => void (await icp('network', 'stop').catch(() => undefined)));
      const [start = '', ...rest] = (await listing('sh')).split(/(?<=network start -d\n)/);
      const [work = '', stop = ''] = rest.join('').split(/(?=icp network stop)/);
      const shell = async (script: string): Promise<string> => {
        const { stdout, stderr } = await run('sh', ['-ec', script], { cwd: project, env: icp.environment });
        return stdout + stderr;
      };
      const started = await shell(start + work);
      assert.match(started, /Created canister counter with ID/);
      assert.match(started, /\(1 : nat\)/);
      const [, url = '', id = ''] =
        /counter: (http:\/\/[a-z0-9-]+[.]localhost:\d+\/[?]id=([a-z0-9-]+))/.exec(started) ?? [];

      // Candid UI, which icp has brought, reads the interface and calls the actor.
      const browser = await launchBrowser();
      t.after(() => browser.close());
      const page = await browser.newPage();
      await page.goto(url);
      const method = page.locator('#methods li#inc');
      await method.locator('button.btn').first().click();
      await page.waitForFunction('document.querySelector("#methods li#inc .result")?.textContent.includes("2")');

      await shell(stop);
      await assert.rejects(fetch(`http://127.0.0.1:${port}/health`));
      await shell(start);
      const status = JSON.parse(await stdoutOf('network', 'status', '--json')) as { readonly gateway_url?: string };
      assert.match(JSON.stringify(status), new RegExp(port));
      const called = await icp('canister', 'call', id, 'get', '()', '--query', '-e', 'local');
      assert.match(called, /\(2 : nat\)/);
      assert.match(await readFile(join(project, 'state/format'), 'utf8'), /./);
    },
  );
});

/** Resolves with standard output alone: warnings go to the other stream. */
async function stdoutOf(...args: readonly string[]): Promise<string> {
  const { stdout } = await run('icp', args, { cwd: project, env: icp.environment });
  return stdout;
}
