#!/usr/bin/env node
/**
 * The command `svc`: checks the version of Node, and runs the server's code in its quickest form (`bundle.js`).
 *
 * Plain JavaScript: for the first `.ts` file that a process imports, Node loads what strips types, which takes 45 ms and
 * 18 MB. What an older Node could not parse is imported only after the check of its version.
 */
import { fileURLToPath } from 'node:url';

/** @typedef {typeof import('./main.ts')} Program */

const NODE_MAJOR_MIN = 24;

const major = Number(process.versions.node.split('.')[0]);
if (major < NODE_MAJOR_MIN) {
  process.stderr.write(
    `svc: this is Node ${process.versions.node}, and svc needs Node ${NODE_MAJOR_MIN} or later: ` +
      'run it with "npm start" or "npm run svc" (in a project that has installed it: "npx svc"), which use the Node that npm installed\n',
  );
  process.exit(1);
}
// Whoever read our output may be gone before us.
process.stdout.on('error', () => undefined);
const { findProgram } = await import('./bundle.js');
const { program, reason } = await findProgram(fileURLToPath(new URL('..', import.meta.url)));
const { run } = /** @type {Program} */ (await import(program.href));
process.exit(await run({ notBundled: reason }));
