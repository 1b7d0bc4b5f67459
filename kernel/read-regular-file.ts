import { constants, open } from 'node:fs/promises';

/**
 * Reads a whole file. Rejects where the path names a folder, a pipe or a device, or a file of more than `bytesMax`
 * bytes: nothing is waited for, and no more is held.
 */
export async function readRegularFile(path: string, bytesMax: number): Promise<Buffer> {
  // Without O_NONBLOCK, opening a named pipe waits for a writer that may never come.
  await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const status = await file.stat();
  if (!status.isFile()) throw new Error(`it is ${status.isDirectory() ? 'a folder' : 'not a regular file'}`);
  if (status.size > bytesMax) throw new Error(`it has ${status.size} bytes, more than ${bytesMax}`);
  return await file.readFile();
}
