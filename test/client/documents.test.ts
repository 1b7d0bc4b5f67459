/** The listings of docs/client.md, run against a real server. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { buildClient } from '../../.ci/build-client.ts';
import { listingsOf } from '../support/doc-listings.ts';
import { startInProcess } from '../support/in-process-server.ts';
import { compileCounter } from '../support/motoko.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '../..');
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');

/** Mistakes that the types find, each in place of the call that the document has. */
const WRONG = [
  `counter.call('ad', [5])`,
  `counter.call('add')`,
  `counter.call('add', ['5', 1])`,
  `counter.call('add', [true])`,
  `counter.query('add', [5])`,
];

test('the example for Node compiles with the types of the server, and runs', async (t) => {
  const server = await startInProcess(t);
  assert.equal((await server.post('/install/counter', await compileCounter())).status, 200);
  const folder = await temporaryDirectory();
  const [listing] = (await listingsOf('client')).get('Node') ?? [];
  const text = listing?.text ?? '';
  const config = {
    compilerOptions: {
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      noEmit: true,
      target: 'es2024',
      module: 'nodenext',
      lib: ['es2024', 'dom', 'dom.iterable', 'dom.asynciterable'],
      types: [],
      allowImportingTsExtensions: true,
      paths: { 'svc/client': [join(ROOT, 'client/index.ts')] },
    },
  };
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  await writeFile(join(folder, 'counter.d.mts'), await (await server.fetch('/x/actors/counter/types')).text());
  await writeFile(join(folder, 'globals.d.ts'), 'declare const process: { env: Record<string, string | undefined> };');
  const compile = async (file: string, source: string): Promise<void> => {
    await writeFile(join(folder, file), source);
    const files = ['globals.d.ts', file];
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ ...config, files }));
    await run(process.execPath, [TSC, '-p', folder], { cwd: folder });
  };
  await compile('app.ts', text);
  const wrong = WRONG.map((call) => text.replace("counter.call('add', [5])", call).replaceAll(/^import.*$/gm, ''));
  const imports = text.match(/^import.*$/gm)?.join('\n') ?? '';
  const blocks = wrong.map((each) => `export async function wrong${wrong.indexOf(each)}() {\n${each}}\n`);
  await assert.rejects(compile('wrong.ts', `${imports}\n${blocks.join('')}`), ({ stdout }: { stdout: string }) => {
    const lines = [...stdout.matchAll(/wrong\.ts\((\d+),/g)].map(([, line]) => Number(line));
    const each = text.split('\n').length;
    assert.deepEqual(
      [...new Set(lines.map((line) => Math.floor((line - 3) / (each + 1))))],
      WRONG.map((_, at) => at),
      stdout,
    );
    return true;
  });

  await writeFile(join(folder, 'svc-client.mjs'), await buildClient());
  await build({
    entryPoints: [join(folder, 'app.ts')],
    alias: { 'svc/client': join(folder, 'svc-client.mjs') },
    bundle: true,
    format: 'esm',
    platform: 'node',
    outfile: join(folder, 'app.mjs'),
    logLevel: 'error',
  });
  const { stdout } = await run(process.execPath, [join(folder, 'app.mjs')], { env: { SVC_URL: server.origin } });
  const lines = stdout.trim().split('\n');
  assert.ok(
    lines.includes('added: 5') && lines.some((line) => line.includes('boom: this change will be undone')),
    stdout,
  );
});

test('the size that the document states is the size', async () => {
  const file = await buildClient();
  const page = await readFile(join(ROOT, 'docs/client.md'), 'utf8');
  const [, plain = '', compressed = ''] = /dependencies, (\d+) KB \((\d+) KB\s+compressed\)/.exec(page) ?? [];
  assert.equal(Math.round(Buffer.byteLength(file) / 1000), Number(plain), `${Buffer.byteLength(file)} bytes`);
  const { length } = gzipSync(file);
  assert.equal(Math.round(length / 1000), Number(compressed), `${length} bytes`);
});
