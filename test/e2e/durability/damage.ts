/** Bytes of a state directory changed behind the server's back. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';

interface Damage {
  readonly file: string;
  /** SHA-256 of the damaged file. */
  readonly hash: string;
  /** Restores the byte. */
  mend(): Promise<void>;
}

/** Flips a bit of the first occurrence of `marker` in these files. */
export async function flipByteOf(directory: string, files: RegExp, marker: string | Uint8Array): Promise<Damage> {
  for (const name of (await readdir(directory, { recursive: true })).toSorted()) {
    if (!files.test(name)) continue;
    const file = join(directory, name);
    const bytes = await readFile(file);
    const at = bytes.indexOf(marker);
    if (at < 0) continue;
    const flipped = Buffer.from(bytes);
    flipped.writeUInt8(bytes.readUInt8(at) ^ 1, at);
    await writeFile(file, flipped);
    // The file may have another name by then, or be gone, so its content is what counts.
    return { file: relative(directory, file), hash: hashOf(flipped), mend: () => writeFile(file, bytes) };
  }
  return assert.fail(`no file like ${files} holds ${String(marker)}`);
}

/** Returns the SHA-256 of every file, by its path. */
export async function hashesOf(directory: string): Promise<ReadonlyMap<string, string>> {
  const hashes = new Map<string, string>();
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    hashes.set(relative(directory, file), hashOf(await readFile(file)));
  }
  return hashes;
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
