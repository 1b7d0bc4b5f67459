/**
 * Whom the server waits for when it stops: what has begun ends, whatever it takes, and whoever has stopped it is told
 * what that is; after a second, and then after twice as long each time.
 *
 * Main thread; reads what executors were given, and touches nothing.
 */
import type { Clock, Logger } from '../../kernel/index.ts';
import type { Executing, ModuleInfo } from '../execution/index.ts';
import type { Listener } from './canister-port.ts';

const FIRST_MS = 1000;
const GAP_MS_MAX = 60_000;
/** Named one by one; of the rest, how many they are. */
const NAMED_MAX = 10;

interface DrainReportNeeds {
  readonly clock: Clock;
  readonly execution: { executing(): readonly Executing[] };
  readonly canisters: { ifAny(handle: number): { readonly module: ModuleInfo | undefined } | undefined };
  readonly port: { readonly listener: Pick<Listener, 'nameOf'> };
  readonly log: Pick<Logger, 'info'> | undefined;
}

export class DrainReport {
  readonly #needs: DrainReportNeeds;
  #timer: Disposable | undefined;

  constructor(needs: DrainReportNeeds) {
    this.#needs = needs;
  }

  begin(): void {
    if (this.#timer === undefined) this.#after(FIRST_MS);
  }

  end(): void {
    this.#timer?.[Symbol.dispose]();
  }

  #after(gapMs: number): void {
    this.#timer = this.#needs.clock.after(gapMs, () => {
      this.#tell();
      this.#after(Math.min(2 * gapMs, GAP_MS_MAX));
    });
  }

  #tell(): void {
    const executing = this.#needs.execution.executing().toSorted((a, b) => a.sinceMs - b.sinceMs);
    if (executing.length === 0) return;
    const nowMs = this.#needs.clock.nowMs();
    const named = executing
      .slice(0, NAMED_MAX)
      .map((each) => `${this.#nameOf(each)} (${Math.round((nowMs - each.sinceMs) / 1000)} s)`);
    const rest = executing.length - named.length;
    if (rest > 0) named.push(`${rest} more`);
    this.#needs.log?.info(`waiting for ${executing.length} message(s): ${named.join(', ')}`);
  }

  /** `update spin of busy` */
  #nameOf({ handle, what }: Executing): string {
    const name = this.#needs.port.listener.nameOf(handle);
    if (typeof what === 'string') return `${what} of ${name}`;
    switch (what.kind) {
      case 'update':
      case 'query':
      case 'transform':
        return `${what.kind} ${this.#methodOf(handle, what.entry)} of ${name}`;
      case 'system':
        return `${this.#methodOf(handle, what.entry)} of ${name}`;
      case 'inspect':
        return `inspection of ${what.method} of ${name}`;
      case 'callback':
        return `callback of ${name}`;
      case 'dropFrame':
        return `end of a query of ${name}`;
    }
  }

  /** As it is exported, without what kind of method it is. */
  #methodOf(handle: number, entry: number): string {
    for (const [exported, number] of this.#needs.canisters.ifAny(handle)?.module?.entries ?? []) {
      if (number === entry) return exported.replace(/^canister_(?:\w+ )?/, '');
    }
    return `entry ${entry}`;
  }
}
