/** The host of docs/instrument.md, as it stands there, beside the published export. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import * as published from '../../plugins/api/instrument.ts';
import { EXPORT, IMPORT } from '../../subsystems/instrument/abi/index.ts';
import { assertShows, commandsOf, listingsOf } from '../support/doc-listings.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

/** A package `svc` that has this export, from the sources. */
async function packageIn(directory: string): Promise<void> {
  const folder = join(directory, 'node_modules/svc');
  await mkdir(folder, { recursive: true });
  for (const room of ['kernel', 'subsystems', 'plugins']) await symlink(join(ROOT, room), join(folder, room));
  const manifest = { name: 'svc', type: 'module', exports: { './instrument': './plugins/api/instrument.ts' } };
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
}

test('the host of docs/instrument.md counts, undoes and serves on, as the page shows', async () => {
  const directory = await temporaryDirectory();
  await packageIn(directory);
  await writeFile(join(directory, 'package.json'), '{ "type": "module" }');
  const listings = (await listingsOf('instrument')).get('A host of fifty lines') ?? [];
  let ran = 0;
  for (const listing of listings) {
    if (listing.file !== undefined) await writeFile(join(directory, listing.file), listing.text);
    if (listing.language !== 'sh') continue;
    for (const { line, expected } of commandsOf(listing)) {
      const [program, file = ''] = line.split(' ');
      if (program === 'wat2wasm') {
        await writeFile(
          join(directory, file.replace('.wat', '.wasm')),
          wat(await readFile(join(directory, file), 'utf8')),
        );
      } else {
        const { stdout } = await run(process.execPath, [file], { cwd: directory });
        assertShows(stdout, expected);
      }
      ran++;
    }
  }
  assert.equal(ran, 2);
});

test('a module that the server would refuse is refused by name', () => {
  assert.throws(() => published.instrument(wat('(module (import "env" "f" (func)))')), {
    name: 'ServerError',
    code: /^wasm-/,
  });
});

test('the page names every import, export and number of the control memory that a host needs', async () => {
  const page = await readFile(join(ROOT, 'docs/instrument.md'), 'utf8');
  for (const name of Object.values(EXPORT)) assert.match(page, new RegExp(`\`${name}\\(`), name);
  for (const name of Object.values(IMPORT)) assert.match(page, new RegExp(`\`svc\\.${name}[\`(]`), name);
  for (const name of Object.keys(published)) assert.ok(page.includes(name), name);
});
