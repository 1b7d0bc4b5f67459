#!/usr/bin/env node
/**
 * `npm create svc my-app`: writes a project for svc into a new folder. Nothing is asked and nothing is installed; the
 * last lines say which two commands run the project and its test.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const HOME = fileURLToPath(new URL('.', import.meta.url));
const TEMPLATES = readdirSync(join(HOME, 'templates')).sort();
const USAGE = `usage: npm create svc FOLDER [-- --template ${TEMPLATES.join('|')}] [--server PACKAGE]`;
/** Files that npm would leave out of this package under their own names. */
const RENAMED = { gitignore: '.gitignore', dockerignore: '.dockerignore' };

/** Name in a project of a server that came as a file; its Dockerfile copies it, too. */
const TARBALL = 'svc.tgz';

/** A mistake in the command line. */
class Mistake extends Error {}

/** @typedef {{ readonly config: { readonly server: string } }} Manifest */

function read() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        template: { type: 'string', default: 'counter' },
        server: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    throw new Mistake(error instanceof Error ? error.message : String(error));
  }
}

/**
 * Returns a name that npm takes for a package.
 * @param {string} folder
 */
function packageNameOf(folder) {
  const name = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '');
  return name === '' ? 'svc-app' : name;
}

/**
 * Returns what the project's package.json asks for. A tarball goes into the project, so that its image has it, too.
 * @param {string} folder
 * @param {string} server a package as npm names it, or the path of a tarball or of a folder
 */
function serverFor(folder, server) {
  if (!existsSync(server)) return server;
  if (statSync(server).isDirectory()) return resolve(server);
  cpSync(server, join(folder, TARBALL));
  return `file:${TARBALL}`;
}

/**
 * @param {string} folder
 * @param {string} template
 * @param {string | undefined} server
 */
function write(folder, template, server) {
  mkdirSync(folder, { recursive: true });
  for (const part of ['common', `templates/${template}`]) cpSync(join(HOME, part), folder, { recursive: true });
  for (const [from, to] of Object.entries(RENAMED)) renameSync(join(folder, from), join(folder, to));
  const { config } = /** @type {Manifest} */ (JSON.parse(readFileSync(join(HOME, 'package.json'), 'utf8')));
  const name = packageNameOf(folder);
  const wanted = server === undefined ? config.server : serverFor(folder, server);
  for (const file of ['package.json', 'README.md', 'compose.yaml']) {
    const path = join(folder, file);
    const text = readFileSync(path, 'utf8').replaceAll('__NAME__', name);
    writeFileSync(
      path,
      text.replaceAll('"__SERVER__"', () => JSON.stringify(wanted)),
    );
  }
}

function main() {
  const { values, positionals } = read();
  if (values.help) return `${USAGE}\n`;
  const [target, ...more] = positionals;
  if (target === undefined || more.length > 0) throw new Mistake('name one folder, such as my-app');
  const { template, server } = values;
  if (!TEMPLATES.includes(template)) throw new Mistake(`there is no template ${JSON.stringify(template)}`);
  const folder = resolve(target);
  if (existsSync(folder) && readdirSync(folder).length > 0)
    throw new Mistake(`${folder} is there already, and is not empty`);
  write(folder, template, server);
  return `made ${folder}\n\n  cd ${target}\n  npm install && npm start     # serves it\n  npm test                     # tests it\n`;
}

try {
  process.stdout.write(main());
} catch (error) {
  if (!(error instanceof Mistake)) throw error;
  process.stderr.write(`create-svc: ${error.message}\n${USAGE}\n`);
  process.exitCode = 2;
}
