/**
 * Strict reader of the text exposition format of Prometheus, version 0.0.4: throws where a lenient reader would go on.
 */

export interface Family {
  readonly type: string;
  readonly help: string;
  /** Values by name and labels as they were written: `svc_actor_cycles{actor="80…"}`. */
  readonly samples: ReadonlyMap<string, number>;
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const LABEL = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\[\\\\"n])*"';
const NUMBER = '-?(?:\\d+(?:\\.\\d+)?(?:e[+-]?\\d+)?)|NaN|[+-]Inf';
const HELP_LINE = new RegExp(`^# HELP (${NAME}) (.+)$`);
const TYPE_LINE = new RegExp(`^# TYPE (${NAME}) (counter|gauge|histogram)$`);
const SAMPLE_LINE = new RegExp(`^(${NAME})(\\{${LABEL}(?:,${LABEL})*\\})? (${NUMBER})$`);

/** Returns the families by name. Throws an Error that names the line. */
export function parseExposition(text: string): ReadonlyMap<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line does not end');
  const families = new Map<string, Family>();
  let current: { name: string; help: string; type: string; samples: Map<string, number> } | undefined;
  for (const [at, line] of text.slice(0, -1).split('\n').entries()) {
    const fail = (what: string): never => {
      throw new Error(`line ${at + 1}: ${what}: ${line}`);
    };
    if (line === '') continue;
    const [, helpOf, help = ''] = HELP_LINE.exec(line) ?? [];
    const [, typeOf, type = ''] = TYPE_LINE.exec(line) ?? [];
    const [, sampleName = '', labels = '', number = ''] = SAMPLE_LINE.exec(line) ?? [];
    if (helpOf !== undefined) {
      if (families.has(helpOf)) fail('the family has been before');
      current = { name: helpOf, help, type: '', samples: new Map() };
    } else if (typeOf !== undefined) {
      if (current?.name !== typeOf || current.type !== '') fail('a type that does not follow its help');
      else {
        current.type = type;
        families.set(typeOf, current);
      }
    } else if (sampleName !== '') {
      if (current === undefined || !belongs(sampleName, current)) fail('a sample outside its family');
      else if (current.samples.has(sampleName + labels)) fail('the sample has been before');
      else current.samples.set(sampleName + labels, valueOf(number));
    } else fail('neither a comment nor a sample');
  }
  for (const [name, family] of families) check(name, family);
  return families;
}

function belongs(sample: string, { name, type }: { readonly name: string; readonly type: string }): boolean {
  if (type !== 'histogram') return sample === name && type !== '';
  return ['_bucket', '_sum', '_count'].some((end) => sample === name + end);
}

function valueOf(text: string): number {
  return text.endsWith('Inf') ? Number(`${text}inity`) : Number(text);
}

function check(name: string, { type, samples }: Family): void {
  if (type === 'counter') {
    if (!name.endsWith('_total')) throw new Error(`the counter ${name} does not end with _total`);
    for (const [sample, value] of samples) if (!(value >= 0)) throw new Error(`the counter ${sample} is ${value}`);
  }
  if (type === 'histogram') checkHistogram(name, samples);
}

/**
 * Checks each series of a histogram: ascending bounds, cumulative counts, and `+Inf` with all of them. `le` is the last
 * label.
 */
function checkHistogram(name: string, samples: ReadonlyMap<string, number>): void {
  const series = new Map<string, [string, number][]>();
  for (const [sample, count] of samples) {
    const [, labels = '', bound] = /^\w+_bucket\{(?:(.*),)?le="([^"]+)"\}$/.exec(sample) ?? [];
    if (bound !== undefined) series.set(labels, [...(series.get(labels) ?? []), [bound, count]]);
    else if (sample.includes('le="')) throw new Error(`${sample} has another label behind le`);
  }
  for (const [labels, buckets] of series) {
    const shown = labels === '' ? '' : `{${labels}}`;
    let [lastBound, lastCount] = [-Infinity, 0];
    for (const [text, count] of buckets) {
      const bound = valueOf(text);
      if (!(bound > lastBound)) throw new Error(`${name}${shown}: the bound ${text} does not ascend`);
      if (count < lastCount) throw new Error(`${name}${shown}: ${text} counts less than the bucket before it`);
      [lastBound, lastCount] = [bound, count];
    }
    if (lastBound !== Infinity) throw new Error(`${name}${shown} has no bucket +Inf`);
    if (samples.get(`${name}_count${shown}`) !== lastCount)
      throw new Error(`${name}_count${shown} is not what its buckets have`);
    if (!samples.has(`${name}_sum${shown}`)) throw new Error(`${name}${shown} has no sum`);
  }
  const counts = [...samples.keys()].filter((sample) => sample.startsWith(`${name}_count`));
  if (counts.length !== series.size) throw new Error(`${name} has counts without buckets`);
}
