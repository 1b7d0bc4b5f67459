/**
 * `npm run build`: the part of a package that is made, in `dist/`: the bundle of the server, the two files that start
 * it, and the declarations of what plugins import. `package.ts` packs it. Node strips no types below node_modules, so a
 * package cannot run from source; a clone does.
 *
 * tsc writes declarations and misses their imports of each other, which are rewritten here. Any name of a `.ts` file
 * that is left afterwards fails the build, and so does an import of a declaration that is not there.
 */
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import packageJson from '../package.json' with { type: 'json' };
import { keyOf } from '../config/bundle.js';
import { buildBundle } from './build-bundle.ts';
import { buildClient, CLIENT_FILE } from './build-client.ts';

const ROOT = resolve(import.meta.dirname, '..');
/**
 * Built beside the final place and moved there when complete, so that whoever packs it meanwhile gets a whole build,
 * the old or the new one.
 */
const DIST = join(ROOT, 'dist');
const FRESH = join(ROOT, `.dist-${process.pid}`);
/** Declarations as tsc has written them. */
const DECLARED = join(ROOT, `.dist-types-${process.pid}`);
/**
 * File that names the sources of the build; not packed. Of the same sources nothing is built anew, which takes 25 s of
 * processor time.
 */
const BUILT_FROM = '.built-from';
/** Files that are shipped as they are: the two that start the server, and what it reads. */
const ASSETS = [
  'config/svc.js',
  'config/bundle.js',
  'subsystems/inspector/page.html',
  ...globSync('subsystems/assets/site/**/*.{mo,toml,motoko}', { cwd: ROOT }),
];
const ROOMS = '{kernel,subsystems,plugins}';

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
}

const inputs = globSync('{kernel,subsystems,plugins,config,client,.ci}/**', { cwd: ROOT, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
const configurations = ['package.json', 'tsconfig.json', 'tsconfig.build.json', 'node_modules/.package-lock.json'];
const key = await keyOf(ROOT, [...inputs, ...configurations].toSorted());
if (!existsSync(join(DIST, BUILT_FROM)) || readFileSync(join(DIST, BUILT_FROM), 'utf8') !== key) await build();

/** Builds everything, and moves it to its place. */
async function build(): Promise<void> {
  for (const folder of [FRESH, DECLARED]) mkdirSync(folder);
  try {
    declare();
    for (const file of published()) put(join(DECLARED, file), file);
    for (const file of ASSETS) put(join(ROOT, file), file);
    await bundle();
    writeFileSync(join(FRESH, CLIENT_FILE), await buildClient());
    writeFileSync(join(FRESH, BUILT_FROM), key);
    rmSync(DIST, { recursive: true, force: true });
    renameSync(FRESH, DIST);
  } finally {
    for (const folder of [FRESH, DECLARED]) rmSync(folder, { recursive: true, force: true });
  }
}

function put(from: string, file: string): void {
  const to = join(FRESH, file);
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
}

/** Writes the declarations of all rooms. */
function declare(): void {
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const args = [tsc, '-p', join(ROOT, 'tsconfig.build.json'), '--outDir', DECLARED];
  const { status } = spawnSync(process.execPath, args, { stdio: 'inherit' });
  if (status !== 0) throw new Error(`tsc ended with code ${status}`);
  for (const file of globSync(`${ROOMS}/**/*.d.ts`, { cwd: ROOT }))
    copyFileSync(join(ROOT, file), join(DECLARED, file));
  for (const file of globSync('**/*.d.ts', { cwd: DECLARED })) mend(file);
}

/** Makes imports of `.ts` files name the declarations beside them. */
function mend(file: string): void {
  const path = join(DECLARED, file);
  const before = readFileSync(path, 'utf8');
  const after = before.replaceAll(/((?:from|import\()\s*(['"])\.[^'"]*(?<!\.d))\.ts\2/g, '$1.js$2');
  if (after !== before) writeFileSync(path, after);
  const left = after
    .split('\n')
    .find((line) => !/^\s*(?:\*|\/[/*])/.test(line) && /['"`]\.[^'"`\s]*(?<!\.d)\.ts['"`]/.test(line));
  if (left !== undefined) throw new Error(`${file} still names source: ${left.trim()}`);
}

/** Returns the declarations that the package's exports name, and all that they import. */
function published(): ReadonlySet<string> {
  const wanted = Object.values(packageJson.exports).flatMap((target) =>
    typeof target === 'string' ? [] : [relative('dist', target.types)],
  );
  const found = new Set(wanted);
  for (const file of found) {
    const path = join(DECLARED, file);
    if (!existsSync(path)) throw new Error(`the package exports ${file}, which tsc did not write`);
    const imports = readFileSync(path, 'utf8').matchAll(/(?:from|import\(|import)\s*(['"])(\.[^'"]+)\.js\1/g);
    for (const [, , name = ''] of imports) found.add(`${join(dirname(file), name)}.d.ts`);
  }
  return found;
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
