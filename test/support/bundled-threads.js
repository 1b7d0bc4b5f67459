/**
 * Loaded before each test file: the server's threads run from its bundle, as they do in a server that is started, while
 * the file itself runs from the sources. Such a thread begins in 25 ms of processor time in place of 70, and some
 * hundreds begin. `global-setup.ts` tells where the bundle of the present sources is.
 *
 * Plain JavaScript, because threads that run no TypeScript load it, too.
 */
import { existsSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import threads from 'node:worker_threads';
import { bundleNameOf } from '../../config/bundle.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const bundle = process.env['SVC_TEST_BUNDLE'];

/**
 * @param {string} folder
 * @param {string | URL} script
 */
function inBundle(folder, script) {
  if (!(script instanceof URL) || script.protocol !== 'file:') return script;
  const file = join(folder, `${bundleNameOf(relative(ROOT, fileURLToPath(script)))}.mjs`);
  return existsSync(file) ? pathToFileURL(file) : script;
}

if (threads.isMainThread && bundle !== undefined) {
  const { Worker } = threads;
  class BundledWorker extends Worker {
    /**
     * @param {string | URL} script
     * @param {import('node:worker_threads').WorkerOptions} [options]
     */
    constructor(script, options) {
      super(inBundle(bundle ?? '', script), options);
    }
  }
  Object.assign(threads, { Worker: BundledWorker });
  syncBuiltinESMExports();
}
