import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const made: string[] = [];
process.once('exit', () => made.forEach((path) => rmSync(path, { recursive: true, force: true })));

/** A fresh directory. It goes with this process, when whatever a test opened in it is closed. */
export async function temporaryDirectory(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'svc-test-'));
  made.push(path);
  return path;
}
