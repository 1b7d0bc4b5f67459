/**
 * Run by `npm ci` in a clone: makes the bundle that the first start would make (config/bundle.js), which takes a second
 * of that start.
 *
 * Plain JavaScript, and only a shortcut: if no bundle can be made, the first start says why under `--verbose`, and runs
 * from the sources.
 */
import { fileURLToPath } from 'node:url';
import { findProgram } from '../config/bundle.js';

await findProgram(fileURLToPath(new URL('..', import.meta.url)));
