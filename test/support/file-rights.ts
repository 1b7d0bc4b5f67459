import { lstat, readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';

/** Returns the rights of a directory and of everything below it, in octal, by the path within it. */
export async function rightsIn(directory: string): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const paths = [directory, ...entries.map(({ parentPath, name }) => join(parentPath, name))];
  const rights = new Map<string, string>();
  for (const path of paths) {
    const { mode } = await lstat(path);
    rights.set(relative(directory, path), (mode & 0o7777).toString(8));
  }
  return rights;
}

/** Returns the paths whose rights are not those of a state: 700 for directories, 600 for files. */
export async function exposedIn(directory: string): Promise<readonly string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const directories = new Set([
    '',
    ...entries
      .filter((entry) => entry.isDirectory())
      .map(({ parentPath, name }) => relative(directory, join(parentPath, name))),
  ]);
  return [...(await rightsIn(directory))]
    .filter(([path, rights]) => rights !== (directories.has(path) ? '700' : '600'))
    .map(([path, rights]) => `${path || '.'} ${rights}`);
}
