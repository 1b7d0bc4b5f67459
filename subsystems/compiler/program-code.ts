/**
 * The compiler's program, 2.8 MB of JavaScript, as a script, and the code that V8 made of it, kept between processes:
 * parsing the program and compiling what a compilation runs takes half a second of CPU, reading the kept code 50 ms.
 *
 * The code lies in the folder where Node keeps what it made of sources (config/code-cache.ts), which is one for each
 * version of Node and set of V8's flags; where Node keeps nothing, nothing is kept. V8 trusts such bytes, so they are
 * taken only if their checksum, which covers the program as well, holds. The layout: checksum (SHA-256, 32 bytes),
 * then V8's code.
 *
 * The kept code is a shortcut only: no failure to read or write it is an error.
 */
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import vm from 'node:vm';
import { adaptedProgram } from './adapted-program.ts';

const NAME = 'moc.code';
const DIGEST_BYTES = 32;
/** A draft that is older belongs to a process that was killed. */
const DRAFT_MS_MAX = 60_000;

export interface Program {
  /**
   * Evaluates to a function of the CommonJS `module` that the program exports itself into, and what is known to
   * change in it (moc-state.ts).
   */
  readonly script: vm.Script;
  /** False if the program was parsed anew. */
  readonly isFromKept: boolean;
  /** Keeps what V8 has compiled of it so far, unless that is where it is from. To be called after a compilation. */
  keep(): void;
}

/** `directory`: where Node keeps compiled code. Throws what reading the program's file throws. */
export function loadProgram(file: string, directory: string | undefined): Program {
  const source = `(function (module) {${adaptedProgram(readFileSync(file, 'utf8'))}\n})`;
  const cachedData = directory === undefined ? undefined : readKept(join(directory, NAME), source);
  const script = new vm.Script(source, { filename: 'moc.js', ...(cachedData && { cachedData }) });
  const isFromKept = cachedData !== undefined && script.cachedDataRejected === false;
  let isKept = isFromKept || directory === undefined;
  return {
    script,
    isFromKept,
    keep() {
      if (isKept || directory === undefined) return;
      isKept = true;
      writeKept(join(directory, NAME), source, script.createCachedData());
    },
  };
}

function readKept(path: string, source: string): Buffer | undefined {
  try {
    const kept = readFileSync(path);
    const data = kept.subarray(DIGEST_BYTES);
    return checksum(source, data).equals(kept.subarray(0, DIGEST_BYTES)) ? data : undefined;
  } catch {
    return undefined;
  }
}

function writeKept(path: string, source: string, data: Buffer): void {
  const draft = `${path}.draft`;
  try {
    // One writes at a time, and readers see all of it or nothing.
    if ((statSync(draft, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) < Date.now() - DRAFT_MS_MAX) rmSync(draft);
    writeFileSync(draft, Buffer.concat([checksum(source, data), data]), { flag: 'wx' });
    renameSync(draft, path);
  } catch {
    // The next process parses it again.
  }
}

function checksum(source: string, data: Buffer): Buffer {
  return createHash('sha256').update(source).update('\0').update(data).digest();
}
