/**
 * Opens the line that a state goes on with, or begins one: each start takes an epoch of the line, by a file that only
 * one process can make. Where somebody has that epoch already (a copy of the state directory was served), or the line
 * is ahead of the state (an older copy was put back), a new line begins.
 */
import { open } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { isDirectory, makeDirectory, messageOf, type Random, ServerError } from '../../kernel/index.ts';
import { type ArchiveFiles, LocalArchiveFiles } from './archive-files.ts';
import { readIdentity, writeIdentity } from './identity.ts';
import type { UnitSource } from './index.ts';
import { ArchiveLine, readMarker } from './lines.ts';
import { epochFile, epochOf, lineName, parseBaseFile } from './names.ts';
import { HEADER_BYTES_MAX, readSegmentHeader } from './segment-format.ts';

export interface OpenedLine {
  readonly name: string;
  readonly epoch: number;
  readonly files: ArchiveFiles;
  /** The newest unit of segments, and the newest base; 0: there are none. */
  readonly segmentsLast: number;
  readonly base: { readonly unit: number; readonly timeMs: number; readonly stateFormat: number } | undefined;
  /** Sentence for the operator: why a new line was begun. */
  readonly note: string | undefined;
}

export interface OpenLineOptions {
  /** The archive. */
  readonly directory: string;
  readonly source: Pick<UnitSource, 'directory' | 'durable'>;
  readonly nowMs: number;
  readonly random: Random;
  readonly filesOf?: (path: string) => ArchiveFiles;
}

const PRIVATE_DIRECTORY = 0o700;

/** Codes of what an operator has to mend; anything else, such as a full disk, may pass. */
const MISTAKES: ReadonlySet<unknown> = new Set([
  'EACCES',
  'EPERM',
  'EROFS',
  'ENOTDIR',
  'EEXIST',
  'ELOOP',
  'ENAMETOOLONG',
]);

/**
 * Rejects with ServerError `archive-unwritable` where the directory can never be used, and with what the system says
 * where it may be later.
 */
export async function openLine(options: OpenLineOptions): Promise<OpenedLine> {
  const { directory, source } = options;
  const root = resolve(directory);
  try {
    await makeDirectory(root, { mode: PRIVATE_DIRECTORY });
    const identity = await readIdentity(source.directory);
    const path = identity && join(root, identity.line);
    if (identity === undefined || path === undefined || !(await isDirectory(path)))
      return await beginLine(root, options);
    const files = filesOf(path, options);
    const left = await cleaned(files);
    const line = await ArchiveLine.read(path);
    const last = line.last?.unit ?? 0;
    if (last > source.durable) {
      const note =
        `the archive's line ${identity.line} goes on to unit ${last}, and the state ends with unit ` +
        `${source.durable}: an older copy of it was put back`;
      return await beginLine(root, options, note);
    }
    const epoch = Math.max(identity.epoch, ...line.files.map((name) => epochOf(name) ?? 0)) + 1;
    if (epoch > identity.epoch + 1) {
      const note = `somebody else has gone on with the archive's line ${identity.line}, with a copy of this state`;
      return await beginLine(root, options, note);
    }
    // Before the epoch is taken: one that was taken by a start that was killed is not somebody else's.
    await writeIdentity(source.directory, { line: identity.line, epoch });
    try {
      await claim(files, epoch);
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
      const note = `somebody else goes on with the archive's line ${identity.line}, with a copy of this state`;
      return await beginLine(root, options, note);
    }
    return { name: identity.line, epoch, files, ...(await stateOf(line, left)), note: undefined };
  } catch (error) {
    if (error instanceof ServerError || !MISTAKES.has(codeOf(error))) throw error;
    const message = `the archive ${root} cannot be written: ${messageOf(error)}; name a directory that this user may write to (--archive)`;
    throw new ServerError('unavailable', 'archive-unwritable', message, { cause: error });
  }
}

function filesOf(path: string, { filesOf: made }: OpenLineOptions): ArchiveFiles {
  return made === undefined ? new LocalArchiveFiles(path) : made(path);
}

async function beginLine(root: string, options: OpenLineOptions, why?: string): Promise<OpenedLine> {
  const name = lineName(options.nowMs, options.random.bytes(4));
  const files = filesOf(join(root, name), options);
  // First: what fails here would leave a directory at each attempt.
  await writeIdentity(options.source.directory, { line: name, epoch: 1 });
  await files.make();
  await claim(files, 1);
  const note = why === undefined ? undefined : `${why}; a new line begins: ${name}`;
  return { name, epoch: 1, files, segmentsLast: 0, base: undefined, note };
}

/** Makes the file of an epoch, which says who took it. */
export async function claim(files: ArchiveFiles, epoch: number): Promise<void> {
  const owner = { host: hostname(), process: process.pid, since: new Date().toISOString() };
  await files.write(epochFile(epoch), [Buffer.from(`${JSON.stringify(owner)}\n`)]);
}

/** Removes what killed servers have left: bases without a marker, and a last segment that is cut off. */
async function cleaned(files: ArchiveFiles): Promise<{ readonly segmentsLast: number }> {
  const line = await ArchiveLine.read(files.path);
  const whole = new Set(line.bases.map(({ path }) => path));
  for (const name of line.files)
    if (parseBaseFile(name) !== undefined && !whole.has(join(files.path, name))) await files.remove(name);
  let segmentsLast = 0;
  for (const { path, last } of line.segments.toReversed()) {
    if (await isWhole(path)) {
      segmentsLast = last;
      break;
    }
    await files.remove(path.slice(files.path.length + 1));
  }
  return { segmentsLast };
}

async function isWhole(path: string): Promise<boolean> {
  await using file = await open(path, 'r');
  const start = Buffer.alloc(HEADER_BYTES_MAX);
  const { bytesRead } = await file.read(start, 0, start.length, 0);
  const read = readSegmentHeader(start.subarray(0, bytesRead), path);
  // Damage is for a restore to tell.
  if ('problem' in read) return read.problem !== 'cut';
  return (await file.stat()).size >= read.end + read.header.bytes;
}

async function stateOf(
  line: ArchiveLine,
  { segmentsLast }: { readonly segmentsLast: number },
): Promise<Pick<OpenedLine, 'segmentsLast' | 'base'>> {
  const base = line.bases.at(-1);
  if (base === undefined) return { segmentsLast, base: undefined };
  const { unit, timeMs } = base;
  return { segmentsLast, base: { unit, timeMs, stateFormat: (await readMarker(base)).stateFormat } };
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
