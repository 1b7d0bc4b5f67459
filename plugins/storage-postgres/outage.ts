/** Messages of one who waits for a namespace about the database: one when it is away, and one when it is back. */
import type { Logger } from '../api/plugin.ts';

export const NO_ANSWER = 'does not answer';
/** The database answers, and refuses a write: a replica that is not promoted yet, a full disk. */
export const NO_WRITES = 'takes no writes';
type Kind = typeof NO_ANSWER | typeof NO_WRITES;

export class Outage {
  readonly #log: Pick<Logger, 'info' | 'warn'>;
  readonly #place: string;
  #kind: Kind | undefined;

  /** `place`: what the database is called. */
  constructor(log: Pick<Logger, 'info' | 'warn'>, place: string) {
    this.#log = log;
    this.#place = place;
  }

  failed(kind: Kind, words: string): void {
    if (this.#kind !== kind) this.#log.warn(`${this.#place} ${kind}: ${words}`);
    this.#kind = kind;
  }

  /** Something was read. Returns what is still the matter: that it is read says nothing of writes. */
  answered(takesWrites: boolean): string | undefined {
    if (this.#kind === undefined) return undefined;
    if (this.#kind === NO_WRITES && !takesWrites) return `the database ${NO_WRITES}`;
    this.#log.info(`${this.#place} ${this.#kind === NO_WRITES ? 'takes writes' : 'answers'} again`);
    this.#kind = undefined;
    return undefined;
  }
}
