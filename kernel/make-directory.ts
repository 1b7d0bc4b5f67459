import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Makes a directory and those above it that are missing; resolves with what it has made, the outermost first. Node's own recursive form
 * never ends, at full speed, where the system says of a directory that is there that nothing can be made in it because there is no such
 * entry: /proc does so, and folders that an automounter manages.
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
      // Another process may have been faster.
      if (!(await isDirectory(each))) throw error;
    }
  }
  return missing;
}

/** A link to one counts; what cannot be looked at does not. */
export function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (status) => status.isDirectory(),
    () => false,
  );
}
