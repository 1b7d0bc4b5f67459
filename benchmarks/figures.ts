/** What a benchmark measured, handed to the runner (benchmarks/run.ts), which can draw it; and how goals are printed. */

/** The two kinds of scale that a chart has room for. */
export type Panel = 'ratio' | 'time';

export interface Figure {
  /** `ratio`: to the same work without the engine. `time`: how long something took. */
  readonly panel: Panel;
  readonly name: string;
  /** Of a `time` in the figure's own unit. */
  readonly value: number;
  /** Empty for ratios. */
  readonly unit: '' | 'ms' | 'µs';
  /** Where it should be at most, if that has been said. */
  readonly reach?: number;
  /** Where it is hoped to be at most. */
  readonly aim?: number;
  /** Printed beside the figure. */
  readonly note?: string;
}

/** A target of ratios and times: `reach` has to be met, `aim` is hoped for. */
export interface Goal {
  readonly is: 'at least' | 'at most';
  readonly reach: number;
  readonly aim?: number;
}

const NAME_WIDTH = 46;

/** Prints a figure as a line of the benchmark's table and tells the runner, if there is one. */
export function report(figure: Figure): void {
  const { name, value, unit, reach, aim, note } = figure;
  const verdict =
    reach === undefined ? '' : verdictOf(value, { is: 'at most', reach, ...(aim !== undefined && { aim }) });
  const line = `${name.padEnd(NAME_WIDTH)} ${`${written(value)} ${unit}`.trimEnd().padStart(10)}   ${verdict} ${note ?? ''}`;
  console.log(line.trimEnd());
  process.send?.(figure);
}

/** `[reach ≤ 1.1 met, aim ≤ 1.06 missed]`. */
export function verdictOf(value: number, { is, reach, aim }: Goal): string {
  const verdict = (limit: number): string => {
    const isMet = is === 'at least' ? value >= limit : value <= limit;
    return `${is === 'at least' ? '≥' : '≤'} ${limit} ${isMet ? 'met' : 'missed'}`;
  };
  return `[reach ${verdict(reach)}${aim === undefined ? '' : `, aim ${verdict(aim)}`}]`;
}

/** Three digits that say something. */
export function written(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
