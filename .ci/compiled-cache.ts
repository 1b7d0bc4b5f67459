/** Makes a folder of the compiler's cache anew, as a whole or not at all. */
import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';

/** Replaces the folder by what `build` puts into another one, and says how many modules that are. */
export async function replaceCache(folder: string, build: (draft: string) => Promise<void>): Promise<void> {
  const draft = `${folder}-${process.pid}`;
  mkdirSync(draft);
  try {
    await build(draft);
    rmSync(folder, { recursive: true, force: true });
    renameSync(draft, folder);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  process.stdout.write(`${readdirSync(folder).length} compiled in ${folder}\n`);
}
