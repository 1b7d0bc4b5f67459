import { readlink } from 'node:fs/promises';
import { isAbsolute, relative, resolve } from 'node:path';
import { cwd } from 'node:process';
import { messageOf, readRegularFile, ServerError } from '../../kernel/index.ts';
import type { Manifest, ManifestActor } from './index.ts';
import { checkManifest } from './manifest-check.ts';
import { SMALLEST_MANIFEST } from './manifest-check.ts';

export interface ManifestOptions {
  /** Path of the manifest, absolute or relative to the current directory. */
  readonly file: string;
}

/** Arguments may hold blobs; larger ones belong in a file of the actor's own. */
const MANIFEST_BYTES_MAX = 16 * 1024 * 1024;

/** Creates a manifest that reads a JSON file anew each time. */
export function createManifest(options: ManifestOptions): Manifest {
  const file = resolve(options.file);
  return {
    async read(): Promise<readonly ManifestActor[]> {
      return checkManifest({ file, displayName: displayPath(file), text: await readText(file) });
    },
  };
}

async function readText(file: string): Promise<string> {
  try {
    return decode(file, await readRegularFile(file, MANIFEST_BYTES_MAX));
  } catch (error) {
    if (error instanceof ServerError) throw error;
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    const name = displayPath(file);
    const target = code === 'ENOENT' ? await readlink(file).catch(() => undefined) : undefined;
    if (target !== undefined) throw unreadable(name, `it is a link to ${target}, which is not there`, error);
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      const message = `there is no manifest ${name}; name one with --manifest FILE, or make it:\n\n${SMALLEST_MANIFEST}`;
      throw new ServerError('invalid', 'manifest-missing', message, { cause: error });
    }
    throw unreadable(name, messageOf(error), error);
  }
}

function decode(file: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw unreadable(displayPath(file), 'it is not UTF-8 text; save it as UTF-8', cause);
  }
}

function unreadable(name: string, reason: string, cause?: unknown): ServerError {
  return new ServerError('invalid', 'manifest-unreadable', `cannot read the manifest ${name}: ${reason}`, { cause });
}

function displayPath(file: string): string {
  const short = relative(cwd(), file);
  return short.startsWith('..') || isAbsolute(short) ? file : short;
}
