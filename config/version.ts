/** Version and commit of the server. */
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import packageJson from '../package.json' with { type: 'json' };

export const VERSION: string = packageJson.version;

/**
 * Returns the commit that a checkout is on, read from its `.git`; `dev` for anything that is not a checkout with a
 * commit.
 */
export async function readBuild(root: string = fileURLToPath(new URL('..', import.meta.url))): Promise<string> {
  try {
    const directory = await gitDirectory(join(root, '.git'));
    const head = (await readFile(join(directory, 'HEAD'), 'utf8')).trim();
    const commit = head.startsWith('ref: ') ? await commitOf(directory, head.slice('ref: '.length)) : head;
    return commit !== undefined && /^[0-9a-f]{40,64}$/.test(commit) ? commit.slice(0, 12) : 'dev';
  } catch {
    // A package, or a repository of an unknown form: neither may keep a server from starting.
    return 'dev';
  }
}

/** Returns the git directory. In a work tree of another repository, `.git` is a file that names it. */
async function gitDirectory(path: string): Promise<string> {
  const pointer = await readFile(path, 'utf8').catch(() => undefined);
  if (pointer === undefined) return path;
  return resolve(path, '..', pointer.replace(/^gitdir: /, '').trim());
}

async function commitOf(directory: string, ref: string): Promise<string | undefined> {
  const shared = await readFile(join(directory, 'commondir'), 'utf8').catch(() => '.');
  const common = resolve(directory, shared.trim());
  const loose = await readFile(join(common, ref), 'utf8').catch(() => undefined);
  if (loose !== undefined) return loose.trim();
  const packed = await readFile(join(common, 'packed-refs'), 'utf8');
  return packed
    .split('\n')
    .find((line) => line.endsWith(` ${ref}`))
    ?.split(' ')[0];
}
