import { Histogram, SECONDS_BOUNDS } from '../figures/index.ts';
import type { CommitNumbers } from './index.ts';
import { bytesOf, type Unit } from './unit.ts';

const UNITS_BOUNDS: readonly number[] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096];

/** Figures of the commits since the state was opened. */
export class CommitFigures {
  readonly #seconds = new Histogram(SECONDS_BOUNDS);
  readonly #units = new Histogram(UNITS_BOUNDS);
  #bytes = 0;
  #unitsCommitted = 0;

  committed(units: readonly Unit[]): void {
    for (const unit of units) this.#bytes += bytesOf(unit);
    this.#unitsCommitted += units.length;
    this.#units.observe(units.length);
  }

  took(ms: number): void {
    this.#seconds.observe(ms / 1000);
  }

  get figures(): CommitNumbers {
    return {
      unitsCommitted: this.#unitsCommitted,
      commitBytes: this.#bytes,
      commitSeconds: this.#seconds.figures,
      commitUnits: this.#units.figures,
    };
  }
}
