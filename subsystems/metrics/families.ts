/** Families in prom-client's registry whose numbers are kept elsewhere and read when a page is made. */
import Counter from 'prom-client/lib/counter.js';
import Gauge from 'prom-client/lib/gauge.js';
import Registry from 'prom-client/lib/registry.js';

type Labels = Readonly<Record<string, string>>;
/** Values by their labels. */
export type Samples = Iterable<readonly [Labels, number]>;
type Read = () => number | undefined;

export class Families {
  readonly #registry = new Registry();

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Returns the text of all families, reading their numbers within this call. */
  text(): Promise<string> {
    return this.#registry.metrics();
  }

  gauge(name: string, help: string, read: Read): void {
    const gauge: Gauge = new Gauge({ name, help, registers: [], collect: () => gauge.set(read() ?? 0) });
    this.#registry.registerMetric(gauge);
  }

  gauges(name: string, help: string, labelNames: readonly string[], read: () => Samples): void {
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames: [...labelNames],
      registers: [],
      collect: () => {
        gauge.reset();
        for (const [labels, value] of read()) gauge.set(labels, value);
      },
    });
    this.#registry.registerMetric(gauge);
  }

  /** Adds a counter; `read` returns the total, not the increase. */
  counter(name: string, help: string, read: Read): void {
    const counter: Counter = new Counter({
      name,
      help,
      registers: [],
      collect: () => {
        counter.reset();
        counter.inc(read() ?? 0);
      },
    });
    this.#registry.registerMetric(counter);
  }

  counters(name: string, help: string, labelNames: readonly string[], read: () => Samples): void {
    const counter: Counter = new Counter({
      name,
      help,
      labelNames: [...labelNames],
      registers: [],
      collect: () => {
        counter.reset();
        for (const [labels, value] of read()) counter.inc(labels, value);
      },
    });
    this.#registry.registerMetric(counter);
  }
}
