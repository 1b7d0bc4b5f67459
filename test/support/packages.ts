/** Packages as users get them: tarballs of `npm run package`, and a registry on loopback that has them. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { copyFile, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { sharedWork } from './shared-work.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
/** npm install as a user would call it, from npm's cache where that has the package. */
export const INSTALL = ['install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', '--no-save'];

/** Environment without the variables of the npm that runs the tests, and without what a run of tests sets. */
export function plainEnvironment(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const entries = Object.entries(process.env).filter(
    ([name]) => !/^npm_|^NODE_TEST_CONTEXT$|^NODE_COMPILE_CACHE$|^SVC_TEST_/i.test(name),
  );
  return { ...Object.fromEntries(entries), ...more };
}

/** Runs `npm run package` under a name; returns the tarball's path. A run of tests packs once under the usual name. */
export async function packServer(into: string, name = 'svc'): Promise<string> {
  const shared = name === 'svc' ? await sharedWork('packServer', null) : undefined;
  if (shared === undefined) return pack(into, ['--name', name]);
  const own = join(into, basename(shared));
  await copyFile(shared, own);
  return own;
}

/** Does the same for create-svc, whose projects ask for a server of this name. */
export async function packCreate(into: string, name: string): Promise<string> {
  return pack(into, ['--create', '--name', name]);
}

/** Runs `npm run package`; returns the tarball's path. */
export async function pack(into: string, flags: readonly string[] = []): Promise<string> {
  const args = ['run', '--silent', 'package', '--', ...flags, '--to', into];
  const { stdout } = await run('npm', args, { cwd: ROOT, env: plainEnvironment() });
  return join(into, stdout.trim().split('\n').at(-1) ?? '');
}

interface PackedManifest {
  readonly name: string;
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

/** Returns the package.json of a tarball. */
export async function manifestOf(tarball: string): Promise<PackedManifest> {
  const { stdout } = await run('tar', ['-xzOf', tarball, 'package/package.json']);
  return JSON.parse(stdout) as PackedManifest;
}

/** Returns the paths of the files in a tarball. */
export async function filesOf(tarball: string): Promise<readonly string[]> {
  const { stdout } = await run('tar', ['-tzf', tarball], { maxBuffer: 2 ** 24 });
  return stdout
    .trim()
    .split('\n')
    .map((path) => path.replace(/^package\//, ''));
}

interface TestOwner {
  after(end: () => Promise<void>): void;
}

/** Serves tarballs as an npm registry does; returns its address. */
export async function startRegistry(t: TestOwner, tarballs: readonly string[]): Promise<string> {
  const packages = new Map<string, { readonly manifest: PackedManifest; readonly bytes: Buffer }>();
  for (const tarball of tarballs) {
    const manifest = await manifestOf(tarball);
    packages.set(manifest.name, { manifest, bytes: await readFile(tarball) });
  }
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '').slice(1);
    const found = packages.get(path.replace(/\/-\.tgz$/, ''));
    if (found === undefined) return void response.writeHead(404).end('{}');
    const { manifest, bytes } = found;
    if (path.endsWith('.tgz')) return void response.end(bytes);
    const { name, version } = manifest;
    const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
    const dist = { integrity, tarball: `http://${request.headers.host}/${name}/-.tgz` };
    const versions = { [version]: { ...manifest, dist } };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ name, 'dist-tags': { latest: version }, versions }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}
