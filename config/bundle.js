/**
 * Chooses the code that a process runs: the server's hundreds of files and the packages that they use, bundled into one
 * file for each thread and a few for the main thread, or those files themselves. With a bundle, a start takes half of
 * the time and of the memory.
 *
 * A package contains its bundle (`npm run build`). A clone makes one whenever its sources have changed since the last
 * time: half a second, less than the first start from sources takes. The bundle is kept below `node_modules/.cache`, in
 * a folder named by a hash of its inputs, so that it never differs from the sources, and a process that runs from one
 * keeps it while the next is made. Without the bundler (`npm ci --omit=dev`), or if nothing can be written, the sources
 * themselves run.
 *
 * Plain JavaScript, for the reason in svc.js. For packages only `node_modules/.package-lock.json` is checked: after a
 * change by hand below `node_modules`, remove `node_modules/.cache/svc-bundle`.
 */
import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** File of a bundle that exports `run`. */
export const PROGRAM = 'main.mjs';
/** File beside the bundles that names the one of the sources at the last check. */
export const CURRENT = 'current.json';
const BUILDER = join('.ci', 'build-bundle.ts');
/** Inputs of a bundle besides the files that it contains. */
export const INGREDIENTS = ['config/bundle.js', BUILDER, 'node_modules/.package-lock.json'];
/**
 * Bundles that are kept, of some 6 MB each. The one that was started longest ago is removed first, because a server
 * that still ran from it could start no more threads.
 */
const BUNDLES_MAX = 12;
/** Esbuild needs half a second; a machine may be very busy. */
const BUILD_DEADLINE_MS = 60_000;

/**
 * Coarser than the times of any file system: a file changed longer ago than this gets a different time at a later
 * change.
 */
const TIME_STEP_MS = 2_000;

/**
 * Content of `CURRENT`. `stamp`: times and sizes that the inputs had when they were last read and made `key`, which
 * saves reading them. The stamp is there once the inputs are old enough for it to show every change.
 * @typedef {{ readonly key: string, readonly inputs: readonly string[], readonly stamp?: string | undefined }} Current
 */

/**
 * Returns the folder of a clone's bundles.
 * @param {string} root of the clone
 */
export function bundlesOf(root) {
  return join(root, 'node_modules/.cache/svc-bundle');
}

/**
 * Returns the name of the bundle of a thread, or of a module that plugins import: its whole path, all in one folder.
 * @param {string} file its path from the root
 */
export function bundleNameOf(file) {
  return file.replace(/\.ts$/, '').replaceAll('/', '-');
}

/**
 * Returns a hash of the content of files; rejects if one of them is missing.
 * @param {string} root
 * @param {readonly string[]} inputs paths from the root
 */
export async function keyOf(root, inputs) {
  const { createHash } = await import('node:crypto');
  const hash = createHash('sha256');
  for (const input of inputs) {
    const content = readFileSync(join(root, input));
    hash.update(`${input} ${content.length}\n`).update(content);
  }
  return hash.digest('hex').slice(0, 32);
}

/**
 * @param {string} root
 * @param {readonly string[]} inputs
 */
function stampOf(root, inputs) {
  let newestMs = 0;
  const stamp = inputs
    .map((input) => {
      const { size, mtimeMs, ctimeMs, ino } = statSync(join(root, input));
      newestMs = Math.max(newestMs, mtimeMs, ctimeMs);
      return `${size} ${mtimeMs} ${ctimeMs} ${ino}`;
    })
    .join('\n');
  return { stamp, newestMs };
}

/**
 * Finds the module to import, which exports `run` of main.ts. `reason`: the reason why it is the sources; undefined for
 * a bundle.
 * @param {string} root of the clone or of the built package
 * @returns {Promise<{ readonly program: URL, readonly reason: string | undefined }>}
 */
export async function findProgram(root) {
  const source = join(root, 'config/main.ts');
  if (!existsSync(source)) return { program: pathToFileURL(join(root, 'bundle', PROGRAM)), reason: undefined };
  const bundles = bundlesOf(root);
  const current = (await readCurrent(root, bundles)) ?? (await build(root, bundles));
  if ('reason' in current) return { program: pathToFileURL(source), ...current };
  const folder = join(bundles, current.key);
  touch(folder);
  return { program: pathToFileURL(join(folder, PROGRAM)), reason: undefined };
}

/**
 * Returns the bundle of the present sources; undefined if there is none.
 * @param {string} root
 * @param {string} bundles
 * @returns {Promise<Current | undefined>}
 */
async function readCurrent(root, bundles) {
  try {
    const current = /** @type {Current} */ (JSON.parse(readFileSync(join(bundles, CURRENT), 'utf8')));
    if (!existsSync(join(bundles, current.key, PROGRAM))) return undefined;
    const { stamp, newestMs } = stampOf(root, current.inputs);
    if (stamp === current.stamp) return current;
    const readMs = Date.now();
    if ((await keyOf(root, current.inputs)) !== current.key) return undefined;
    if (readMs - newestMs > TIME_STEP_MS) writeCurrent(bundles, { ...current, stamp });
    return current;
  } catch {
    // The bundle is missing or damaged, or a source has been deleted: another one is made.
    return undefined;
  }
}

/**
 * @param {string} bundles
 * @param {Current} current
 */
export function writeCurrent(bundles, current) {
  const draft = join(bundles, `.${CURRENT}-${process.pid}`);
  try {
    writeFileSync(draft, JSON.stringify(current));
    renameSync(draft, join(bundles, CURRENT));
  } catch {
    // The file is only a shortcut.
    rmSync(draft, { force: true });
  }
}

/**
 * Builds in a process of its own, so that the server loads nothing of the bundler.
 * @param {string} root
 * @param {string} bundles
 * @returns {Promise<Current | { readonly reason: string }>}
 */
async function build(root, bundles) {
  if (!existsSync(join(root, 'node_modules/esbuild')))
    return { reason: 'there is no esbuild, which npm ci without --omit=dev installs' };
  const { spawnSync } = await import('node:child_process');
  const { status, signal, stderr, error } = spawnSync(process.execPath, [join(root, BUILDER)], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: BUILD_DEADLINE_MS,
    killSignal: 'SIGKILL',
  });
  if (status !== 0)
    return { reason: `bundling failed: ${error?.message ?? (stderr.trim() || String(signal ?? status))}` };
  dropOldest(bundles);
  return (await readCurrent(root, bundles)) ?? { reason: 'the sources have changed while they were bundled' };
}

/**
 * Marks the folder as used now.
 * @param {string} folder
 */
function touch(folder) {
  try {
    const now = new Date();
    utimesSync(folder, now, now);
  } catch {
    // The folder belongs to another user: a process that cannot write there removes no bundle, either.
  }
}

/** @param {string} bundles */
function dropOldest(bundles) {
  try {
    const folders = readdirSync(bundles, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => join(bundles, name));
    const ages = new Map(folders.map((folder) => [folder, statSync(folder).mtimeMs]));
    const newestFirst = folders.toSorted((a, b) => (ages.get(b) ?? 0) - (ages.get(a) ?? 0));
    for (const folder of newestFirst.slice(BUNDLES_MAX)) rmSync(folder, { recursive: true, force: true });
  } catch {
    // Another process does the same: the next start removes the rest.
  }
}
