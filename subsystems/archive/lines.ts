/**
 * Finds what an archive has, from the names of its files alone, and chooses the line and the base for a point. The
 * directory of `--restore-archive` is an archive, which has lines, or one line.
 */
import { readdir, readFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { messageOf, ServerError } from '../../kernel/index.ts';
import { type Moment, momentText } from './moment.ts';
import { type BaseName, isLineName, MARKER, parseBaseFile, parseSegmentFile, type SegmentName } from './names.ts';
import { type Point, pointText } from './point.ts';

export interface BaseEntry extends BaseName {
  /** Absolute path. */
  readonly path: string;
}

export interface SegmentEntry extends SegmentName {
  readonly path: string;
}

/** Contents of the marker of a base, besides its name. */
export interface BaseMarker {
  readonly bytes: number;
  readonly sha256: string;
  readonly stateFormat: number;
}

const LINES_SHOWN = 5;

/** One history of one state, as it was listed. */
export class ArchiveLine {
  readonly name: string;
  readonly path: string;
  /** Bases that have their marker, by unit. */
  readonly bases: readonly BaseEntry[];
  /** In the order of epochs and units. */
  readonly segments: readonly SegmentEntry[];
  /** Names of all files. */
  readonly files: readonly string[];

  private constructor(path: string, files: readonly string[]) {
    this.name = basename(path);
    this.path = path;
    this.files = files;
    const present = new Set(files);
    const entries = files.toSorted();
    this.segments = entries.flatMap((file) => {
      const segment = parseSegmentFile(file);
      return segment === undefined ? [] : [{ ...segment, path: join(path, file) }];
    });
    this.bases = entries
      .flatMap((file) => {
        const base = present.has(file + MARKER) ? parseBaseFile(file) : undefined;
        return base === undefined ? [] : [{ ...base, path: join(path, file) }];
      })
      .sort((a, b) => a.unit - b.unit);
  }

  /** Lists a line. Rejects with ServerError `archive-unreadable`. */
  static async read(path: string): Promise<ArchiveLine> {
    return new ArchiveLine(path, await listed(path));
  }

  get first(): Moment | undefined {
    return this.bases[0];
  }

  /** The newest moment that is named. */
  get last(): Moment | undefined {
    const { bases, segments } = this;
    const ends = [...bases.slice(-1), ...segments.map(({ last, timeMs }) => ({ unit: last, timeMs }))];
    return ends.reduce<Moment | undefined>(
      (newest, end) => (newest === undefined || end.unit > newest.unit ? end : newest),
      undefined,
    );
  }

  /** Returns the last base that is not after the point. */
  baseFor(point: Point): BaseEntry | undefined {
    return this.bases.findLast(({ unit, timeMs }) => {
      if (point.kind === 'latest') return true;
      return point.kind === 'unit' ? unit <= point.unit : timeMs <= point.timeMs;
    });
  }

  /** Returns true if the line goes as far as the point, by what it names. */
  has(point: Point): boolean {
    if (this.baseFor(point) === undefined) return false;
    return point.kind !== 'unit' || point.unit <= (this.last?.unit ?? 0);
  }
}

/**
 * Lists the lines of an archive, the oldest first. Rejects with ServerError `archive-unreadable` or
 * `archive-foreign`.
 */
export async function readLines(directory: string): Promise<readonly ArchiveLine[]> {
  const root = resolve(directory);
  if (isLineName(basename(root))) return [await ArchiveLine.read(root)];
  const names = (await listed(root)).filter(isLineName).toSorted();
  if (names.length === 0)
    throw new ServerError(
      'invalid',
      'archive-foreign',
      `${root} is no archive: it has no line of one (a directory such as 20261121T200000-5f3a09c1); name what --archive named`,
    );
  const lines: ArchiveLine[] = [];
  for (const name of names) lines.push(await ArchiveLine.read(join(root, name)));
  return lines;
}

async function listed(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    throw new ServerError(
      'invalid',
      'archive-unreadable',
      `the archive ${directory} cannot be read: ${messageOf(error)}`,
      { cause: error },
    );
  }
}

/**
 * Returns the newest line that has the point. Throws ServerError `archive-point` where none has it, and
 * `archive-ambiguous` where two have it that were written at the same time.
 */
export function findLine(lines: readonly ArchiveLine[], point: Point): ArchiveLine {
  const having = lines.filter((line) => line.has(point));
  const newest = having.reduce<ArchiveLine | undefined>(
    (found, line) => (found === undefined || (line.last?.timeMs ?? 0) >= (found.last?.timeMs ?? 0) ? line : found),
    undefined,
  );
  if (newest === undefined)
    throw new ServerError(
      'invalid',
      'archive-point',
      `${pointText(point)} is not in the archive; it has ${lines.map(rangeText).slice(-LINES_SHOWN).join('; ')}`,
    );
  const begunMs = newest.first?.timeMs ?? 0;
  const rivals = having.filter((line) => line !== newest && (line.last?.timeMs ?? 0) > begunMs);
  if (rivals.length > 0)
    throw new ServerError(
      'invalid',
      'archive-ambiguous',
      `${pointText(point)} is in several lines that were written at the same time: ` +
        `${[...rivals, newest].map(rangeText).slice(-LINES_SHOWN).join('; ')}; name one of them: --restore-archive ${newest.path}`,
    );
  return newest;
}

function rangeText({ name, first, last }: ArchiveLine): string {
  if (first === undefined || last === undefined) return `line ${name}, which has no whole base`;
  return `line ${name} from ${momentText(first)} to ${momentText(last)}`;
}

/** Reads the marker of a base. Rejects with ServerError `archive-damaged`, `archive-unreadable`. */
export async function readMarker({ path, unit }: BaseEntry): Promise<BaseMarker> {
  const file = path + MARKER;
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw new ServerError('invalid', 'archive-unreadable', `${file} cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
  const marker = parsed(text);
  const { bytes, sha256, stateFormat } = marker;
  if (
    marker['unit'] === unit &&
    typeof bytes === 'number' &&
    typeof sha256 === 'string' &&
    typeof stateFormat === 'number'
  )
    return { bytes, sha256, stateFormat };
  throw new ServerError(
    'invalid',
    'archive-damaged',
    `${file} is damaged: it is not the marker of this base; take it away to restore from the base before`,
  );
}

function parsed(text: string): Partial<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}
