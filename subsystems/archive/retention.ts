/** Chooses what of a line is old enough, or too much, to go: always all that is before a base. */
import { basename } from 'node:path';
import type { ArchiveLine, BaseEntry } from './lines.ts';
import { MARKER } from './names.ts';

export interface RetentionOptions {
  /** Days that a moment can be restored at least; 0: for ever. */
  readonly days: number;
  /** Bytes that the line may take; 0: no bound. */
  readonly bytes: number;
}

const DAY_MS = 86_400_000;

/**
 * Returns names of files in the order in which to remove them. The last base, and what follows it, is never among them,
 * whatever the bounds are. `sizeOf`: bytes of a file.
 */
export function expiredFiles(
  line: Pick<ArchiveLine, 'bases' | 'segments'>,
  { days, bytes }: RetentionOptions,
  nowMs: number,
  sizeOf: (name: string) => number,
): readonly string[] {
  const { bases, segments } = line;
  let [first] = bases;
  if (first === undefined) return [];
  if (days > 0) first = bases.findLast(({ timeMs }) => timeMs <= nowMs - days * DAY_MS) ?? first;
  const bytesFrom = (base: BaseEntry): number =>
    sum(bases.filter(({ unit }) => unit >= base.unit).map(({ path }) => sizeOf(basename(path)))) +
    sum(segments.filter(({ last }) => last > base.unit).map(({ path }) => sizeOf(basename(path))));
  for (const base of bases) if (bytes > 0 && base.unit > first.unit && bytesFrom(first) > bytes) first = base;
  const kept = first.unit;
  // Without its marker a base does not count: what is left of a removal that broke off is no base.
  return [
    ...bases
      .filter(({ unit }) => unit < kept)
      .map(({ path }) => basename(path))
      .flatMap((name) => [name + MARKER, name]),
    ...segments.filter(({ last }) => last <= kept).map(({ path }) => basename(path)),
  ];
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
