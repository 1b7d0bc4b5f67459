/**
 * Modules of the tests' Motoko, which a clone brings in one file (`test/fixtures/motoko-modules.zst`): compiling one
 * takes seconds of processor time, and there are some 190 of them. The file holds entries of the compiler's own cache,
 * which are keyed by sources, compiler and flags: a source that has changed is compiled, as every source was before,
 * and an entry that nothing asks for any more does no harm.
 *
 * `npm run build:test-modules`, behind a whole `npm test`, makes the file anew from the modules that were used within a
 * day. That is worth its 1.5 MB in the history for another release of the compiler, not for every new test.
 */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { access, mkdir, rename, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { MOTOKO_CACHE } from './caches.ts';

const FILE = fileURLToPath(new URL('../fixtures/motoko-modules.zst', import.meta.url));
const EXTENSION = '.motoko';
const USED_WITHIN_MS = 24 * 3_600_000;
/** The modules are alike (each has the runtime system), so the window spans all of them: 50 MB become 1.5. */
const COMPRESSION = {
  [constants.ZSTD_c_compressionLevel]: 19,
  [constants.ZSTD_c_enableLongDistanceMatching]: 1,
  [constants.ZSTD_c_windowLog]: 27,
};

/** Puts the modules that a cache lacks into it; returns the number of modules in the file. */
export async function unpackModules(cache: string): Promise<number> {
  const packed = zstdDecompressSync(readFileSync(FILE));
  const headerBytes = packed.readUInt32BE(0);
  const entries = JSON.parse(packed.toString('utf8', 4, 4 + headerBytes)) as readonly (readonly [string, number])[];
  await mkdir(cache, { recursive: true });
  let at = 4 + headerBytes;
  for (const [name, bytes] of entries) {
    const content = packed.subarray(at, (at += bytes));
    const file = join(cache, basename(name));
    const isThere = await access(file).then(
      () => true,
      () => false,
    );
    if (isThere) continue;
    const draft = join(cache, `.${basename(name, EXTENSION)}.${process.pid}`);
    await writeFile(draft, content);
    await rename(draft, file);
  }
  return entries.length;
}

/** Makes the file of the modules in a cache that were used lately; returns their number. */
function packModules(cache: string): number {
  const names = readdirSync(cache)
    .filter((name) => name.endsWith(EXTENSION) && statSync(join(cache, name)).mtimeMs > Date.now() - USED_WITHIN_MS)
    .toSorted();
  const contents = names.map((name) => readFileSync(join(cache, name)));
  const header = Buffer.from(JSON.stringify(names.map((name, index) => [name, contents[index]?.length])));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(header.length);
  writeFileSync(FILE, zstdCompressSync(Buffer.concat([length, header, ...contents]), { params: COMPRESSION }));
  return names.length;
}

if (import.meta.main) process.stdout.write(`${packModules(MOTOKO_CACHE)} modules in ${FILE}\n`);
