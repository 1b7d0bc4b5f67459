/**
 * Text of the exposition format, version 0.0.4, for data that prom-client cannot render: histograms counted elsewhere
 * (its own can only observe), and families with a line for each actor (actor-lines.ts says why).
 */
import type { HistogramFigures } from '../figures/index.ts';

/** Returns the two lines before the samples of a family. `help` has neither a backslash nor a line feed. */
export function familyText(name: string, type: 'counter' | 'gauge' | 'histogram', help: string): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
}

/** Returns a family of one histogram; its buckets are cumulative, as the format requires. */
export function histogramText(name: string, help: string, figures: HistogramFigures): string {
  return familyText(name, 'histogram', help) + samplesText(name, '', figures);
}

/** Returns a family with a histogram for each value of a label; values need no escaping. */
export function histogramsText(
  name: string,
  help: string,
  label: string,
  series: Iterable<readonly [string, HistogramFigures]>,
): string {
  let text = familyText(name, 'histogram', help);
  for (const [value, figures] of series) text += samplesText(name, `${label}="${value}"`, figures);
  return text;
}

function samplesText(name: string, labels: string, { bounds, counts, sum }: HistogramFigures): string {
  const before = labels === '' ? '' : `${labels},`;
  const all = labels === '' ? '' : `{${labels}}`;
  let text = '';
  let total = 0;
  for (const [bucket, count] of counts.entries()) {
    total += count;
    text += `${name}_bucket{${before}le="${bounds[bucket] ?? '+Inf'}"} ${total}\n`;
  }
  return `${text}${name}_sum${all} ${sum}\n${name}_count${all} ${total}\n`;
}
