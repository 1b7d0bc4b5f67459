/** A benchmark's directory for state directories and manifests, which is removed at its end. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

interface Scratch extends AsyncDisposable {
  /** Absolute path. */
  readonly path: string;
}

/** Makes a fresh folder in `parent`, which decides the measured disk, or where the system keeps temporary files. */
export async function scratchFolder(parent: string = tmpdir()): Promise<Scratch> {
  const path = await mkdtemp(join(parent, 'svc-bench-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 3 }) };
}
