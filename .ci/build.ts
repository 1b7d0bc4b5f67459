/**
 * `npm run build`: the whole package as JavaScript with declarations, in `dist/`, which `npm pack` ships. Node strips
 * no types below node_modules, so a package cannot run from source; a clone does.
 *
 * The command runs a bundle of it (config/bundle.js); the files are for plugins and their tests.
 *
 * tsc rewrites imports. The names that it misses are rewritten here: URLs that threads are started from, and imports of
 * declarations. Any name of a `.ts` file that is left afterwards fails the build.
 */
import { spawnSync } from 'node:child_process';
import { copyFileSync, globSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { buildBundle } from './build-bundle.ts';

const ROOT = resolve(import.meta.dirname, '..');
/**
 * Built beside the final place and moved there when complete, so that a concurrent `npm pack` gets a whole build, the
 * old or the new one.
 */
const DIST = join(ROOT, 'dist');
const FRESH = join(ROOT, `.dist-${process.pid}`);
/** Files besides code that the program reads. */
const ASSETS = ['subsystems/inspector/page.html'];
const ROOMS = '{kernel,subsystems,plugins,config,api,loader}';

try {
  compile();
  for (const file of globSync('**/*.js', { cwd: FRESH })) mend(file, /(new URL\(\s*'\.[^']+)\.ts'/g, "$1.js'");
  for (const file of globSync('**/*.d.ts', { cwd: FRESH })) {
    mend(file, /((?:from|import\()\s*(['"])\.[^'"]*(?<!\.d))\.ts\2/g, '$1.js$2');
  }
  const declarations = globSync(`${ROOMS}/**/*.d.ts`, { cwd: ROOT });
  for (const asset of [...ASSETS, ...declarations]) copyFileSync(join(ROOT, asset), join(FRESH, asset));
  const { name, version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Record<string, unknown>;
  writeFileSync(join(FRESH, 'package.json'), `${JSON.stringify({ name, version, type: 'module' }, undefined, 2)}\n`);
  await bundle();
  rmSync(DIST, { recursive: true, force: true });
  renameSync(FRESH, DIST);
} finally {
  rmSync(FRESH, { recursive: true, force: true });
}

function compile(): void {
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const args = [tsc, '-p', join(ROOT, 'tsconfig.build.json'), '--outDir', FRESH];
  const { status } = spawnSync(process.execPath, args, { stdio: 'inherit' });
  if (status !== 0) throw new Error(`tsc ended with code ${status}`);
}

/** Builds the bundle that the command runs (config/bundle.js), with the licences of the packages in it. */
async function bundle(): Promise<void> {
  const folder = join(FRESH, 'bundle');
  const { packages } = await buildBundle(folder, relative(folder, FRESH));
  const texts = packages.map((path) => {
    const { name, version, license } = JSON.parse(readFileSync(join(ROOT, path, 'package.json'), 'utf8')) as Manifest;
    const [file] = globSync('{LICEN[CS]E,licen[cs]e}{,.*,-*}', { cwd: join(ROOT, path) });
    const text = file === undefined ? '' : readFileSync(join(ROOT, path, file), 'utf8').trim();
    return `${name} ${version}, ${license}${file === undefined ? '' : ` (${basename(file)})`}\n\n${text}\n`;
  });
  writeFileSync(join(folder, 'LICENSES.txt'), texts.join(`\n${'-'.repeat(80)}\n\n`));
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
}

function mend(file: string, pattern: RegExp, replacement: string): void {
  const path = join(FRESH, file);
  const before = readFileSync(path, 'utf8');
  const after = before.replaceAll(pattern, replacement);
  if (after !== before) writeFileSync(path, after);
  const left = after
    .split('\n')
    .find((line) => !/^\s*(?:\*|\/[/*])/.test(line) && /['"`]\.[^'"`\s]*(?<!\.d)\.ts['"`]/.test(line));
  if (left !== undefined) throw new Error(`${file} still names source: ${left.trim()}`);
}
