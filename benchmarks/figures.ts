/** What a benchmark measured, handed to the runner (benchmarks/run.ts), which can draw it. */

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

const NAME_WIDTH = 46;

/** Prints a figure as a line of the benchmark's table and tells the runner, if there is one. */
export function report(figure: Figure): void {
  const { name, value, unit, reach, aim, note } = figure;
  const aimed = aim === undefined ? '' : `, aim ${aim} ${unit}`.trimEnd();
  const goal = reach === undefined ? '' : `${`reach ${reach} ${unit}`.trimEnd()}${aimed}`;
  const line = `${name.padEnd(NAME_WIDTH)} ${`${written(value)} ${unit}`.trimEnd().padStart(10)}   ${goal.padEnd(13)} ${note ?? ''}`;
  console.log(line.trimEnd());
  process.send?.(figure);
}

/** Three digits that say something. */
export function written(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
