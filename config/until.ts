/** Reads the point of `--until`: `latest`, `unit:99123`, `time:2026-11-21T20:00:00.000Z`. */
import type { Point } from '../subsystems/archive/index.ts';
import { FlagProblem } from './flag.ts';

/** Units have 48 bits. */
const UNIT_MAX = 2 ** 48 - 1;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:[.]\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/;

/** Returns the point, or a sentence that says what is wrong with the text. */
export function parsePoint(text: string): Point | string {
  if (text === 'latest') return { kind: 'latest' };
  const [, kind, value = ''] = /^(unit|time):(.*)$/s.exec(text) ?? [];
  if (kind === 'unit') {
    const unit = Number(value);
    if (/^\d{1,15}$/.test(value) && unit >= 1 && unit <= UNIT_MAX) return { kind, unit };
    return `unit:${value} names no unit: units are whole numbers from 1 on`;
  }
  if (kind === 'time') {
    const timeMs = TIME.test(value) ? Date.parse(value) : Number.NaN;
    // A day that does not exist, such as 30 February, would be taken for another one.
    const isDay = Number(value.slice(8, 10)) <= daysIn(Number(value.slice(0, 4)), Number(value.slice(5, 7)));
    if (!Number.isNaN(timeMs) && isDay) return { kind, timeMs };
    return `time:${value} is no time: write it with its zone, such as time:2026-11-21T20:00:00.000Z`;
  }
  return `'${text}' is no point: write latest, unit:99123 or time:2026-11-21T20:00:00.000Z`;
}

function daysIn(year: number, month: number): number {
  return new Date(Date.UTC(year, month, 0)).getUTCDate();
}

/** Returns the text as it is, if it names a point. Throws a FlagProblem that says why not. */
export function checkPoint(text: string): string {
  const point = parsePoint(text);
  if (typeof point === 'string') throw new FlagProblem(point);
  return text;
}
