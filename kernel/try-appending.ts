import { constants } from 'node:fs';
import { lstat, open, readlink, rm, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

const FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK;

/**
 * Opens a file as one who appends to it, and leaves everything as it was: a file that was not there is removed again.
 * Rejects with what the system says. A named pipe is not opened, because its reader would see the end of it.
 */
export async function tryAppending(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isFIFO() === true) return;
  if (found !== undefined) return (await open(path, FLAGS)).close();
  const link = await lstat(path).catch(() => undefined);
  if (link?.isSymbolicLink() === true) return tryAppending(resolve(dirname(path), await readlink(path)));
  // Exclusively: a file that another process makes meanwhile is not removed.
  await (await open(path, FLAGS | constants.O_CREAT | constants.O_EXCL, 0o600)).close();
  return rm(path);
}
