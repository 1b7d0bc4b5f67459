/** Results of benchmarks, handed to the runner (benchmarks/run.ts), which can draw them; and the printing of goals. */

/** The two kinds of scale that a chart has room for. */
type Panel = 'ratio' | 'time';

export interface Figure {
  /** `ratio`: compared with the same work without the engine. `time`: a duration. */
  readonly panel: Panel;
  readonly name: string;
  /** Value in the figure's unit. */
  readonly value: number;
  /** Empty for ratios. */
  readonly unit: '' | 'ms' | 'µs';
  /** Upper limit that has to be met, if there is one. */
  readonly reach?: number;
  /** Upper limit that is hoped for. */
  readonly aim?: number;
  /** Printed beside the figure. */
  readonly note?: string;
}

/** A goal of ratios and times: `reach` has to be met, `aim` is hoped for. */
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

/** Returns a text such as `[reach ≤ 1.1 met, aim ≤ 1.06 missed]`. */
export function verdictOf(value: number, { is, reach, aim }: Goal): string {
  const verdict = (limit: number): string => {
    const isMet = is === 'at least' ? value >= limit : value <= limit;
    return `${is === 'at least' ? '≥' : '≤'} ${limit} ${isMet ? 'met' : 'missed'}`;
  };
  return `[reach ${verdict(reach)}${aim === undefined ? '' : `, aim ${verdict(aim)}`}]`;
}

/** Formats a value with three significant digits. */
export function written(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
