/**
 * A directory as one small file, for fixtures: JSON of paths and contents, compressed. Zeros at the end of a file are
 * left out and come back as a hole, so a segment of the step log costs nothing.
 *
 *     node packed-directory.ts <state directory> <file>      makes the fixture of a format, after a kill
 */
import { mkdir, open, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { brotliCompressSync, brotliDecompressSync } from 'node:zlib';

interface PackedFile {
  readonly path: string;
  readonly sizeBytes: number;
  readonly base64: string;
}

/** Files that a start makes again, or that belong to a process. */
const LEFT_OUT = /^(?:lock|modules|motoko)|LOG$|OPTIONS/;

/** Returns the regular files below `root`, without those that a start makes again. */
async function packDirectory(root: string): Promise<Buffer> {
  const files: PackedFile[] = [];
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    const path = relative(root, join(entry.parentPath, entry.name));
    if (!entry.isFile() || LEFT_OUT.test(path)) continue;
    const bytes = await readFile(join(root, path));
    let length = bytes.length;
    while (length > 0 && bytes[length - 1] === 0) length--;
    files.push({ path, sizeBytes: bytes.length, base64: bytes.toString('base64', 0, length) });
  }
  return brotliCompressSync(JSON.stringify(files));
}

/** Makes the directory `root` of a packed one. */
export async function unpackDirectory(packed: Uint8Array, root: string): Promise<void> {
  for (const { path, sizeBytes, base64 } of JSON.parse(String(brotliDecompressSync(packed))) as PackedFile[]) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await using file = await open(join(root, path), 'w', 0o600);
    await file.writeFile(Buffer.from(base64, 'base64'));
    await file.truncate(sizeBytes);
  }
}

if (import.meta.main) {
  const [root = '', file = ''] = process.argv.slice(2);
  await writeFile(file, await packDirectory(root));
}
