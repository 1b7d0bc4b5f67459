/**
 * Formats of a state directory, and the steps from each to the next. A newer svc takes an older directory over by all
 * steps that it lacks, in their order; `format` is written after each, so a start that is killed goes on where it was.
 *
 * A step changes what is on disk so that the code of the next format reads it, and makes it durable. It may be killed
 * anywhere and begins again then: running it twice must be the same as once. What an older svc could still harm in a
 * directory is a reason for a format, too (ADR 48): that one refuses the directory by its number.
 *
 * A backup has the format of the state of which it was made. What it is restored into is a directory of that format,
 * which the first start takes over: so there are steps for directories only.
 *
 *     1   records of logs as V8 serializes objects; not read any more
 *     2   records of logs in a layout of our own
 *     3   units of the step log carry their time
 */

export interface FormatStep {
  /** Sentence about what is new. */
  readonly what: string;
  readonly run: (root: string) => Promise<void>;
}

export const OLDEST_FORMAT = 2;

/** The first leads from OLDEST_FORMAT to the one after it, and so on: no step is ever removed without its format. */
export const FORMAT_STEPS: readonly FormatStep[] = [
  // Units that are in the log already have no time, and are read as they are.
  { what: 'units of the step log carry their time', run: () => Promise.resolve() },
];

/** The format to which steps lead. */
export function formatAfter(steps: readonly FormatStep[]): number {
  return OLDEST_FORMAT + steps.length;
}

/** The format that this svc writes. */
export const FORMAT: number = formatAfter(FORMAT_STEPS);
