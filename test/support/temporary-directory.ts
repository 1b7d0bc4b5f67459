import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const made: string[] = [];
process.once('exit', () => made.forEach((path) => rmSync(path, { recursive: true, force: true })));

/**
 * Makes a fresh directory. It is removed with this process, after everything that a test opened in it has been closed.
 */
export async function temporaryDirectory(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'svc-test-'));
  made.push(path);
  return path;
}
