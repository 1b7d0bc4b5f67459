/** A place in the sequence of units, with the time of that unit. */
export interface Moment {
  readonly unit: number;
  /** Milliseconds since 1970; 0: not known. */
  readonly timeMs: number;
}

/** Returns the moment in words: `unit 123 (2026-11-21T20:00:00.000Z)`. */
export function momentText({ unit, timeMs }: Moment): string {
  return timeMs > 0 ? `unit ${unit} (${new Date(timeMs).toISOString()})` : `unit ${unit}`;
}
