import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Makes a directory and its missing parents; resolves with the directories that were made, the outermost first. Node's
 * own recursive form loops forever, at full speed, if an existing directory answers ENOENT to every attempt to make
 * something in it: /proc does so, and so do folders that an automounter manages.
 */
export async function makeDirectory(
  path: string,
  { mode }: { readonly mode?: number } = {},
): Promise<readonly string[]> {
  const missing: string[] = [];
  for (let above = path; !(await isDirectory(above)); above = dirname(above)) missing.unshift(above);
  for (const each of missing) {
    try {
      await mkdir(each, mode);
    } catch (error) {
      // Another process may have made the directory meanwhile.
      if (!(await isDirectory(each))) throw error;
    }
  }
  return missing;
}

/** Returns true for a directory or a link to one; false for anything that cannot be looked at. */
export function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (status) => status.isDirectory(),
    () => false,
  );
}
