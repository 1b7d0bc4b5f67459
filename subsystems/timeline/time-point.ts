/**
 * Points of an actor's timeline: `seq:1234`, `unit:99123`, `time:2026-11-21T20:00:00.000Z`, `ago:15m`,
 * `label:before-import`, `start`, `now`. Units and times are written as for `--until`.
 */
import { ServerError } from '../../kernel/index.ts';

export type TimePoint =
  | { readonly kind: 'start' | 'now' }
  | { readonly kind: 'seq'; readonly seq: number }
  | { readonly kind: 'unit'; readonly unit: number }
  /** Milliseconds since 1970. */
  | { readonly kind: 'time'; readonly timeMs: number }
  | { readonly kind: 'ago'; readonly ms: number }
  | { readonly kind: 'label'; readonly label: string }
  /** A place that a timeline has told; no text names one. */
  | { readonly kind: 'place'; readonly seq: number; readonly unit: number };

const MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const AGO = /^(\d{1,12})(ms|s|m|h|d)$/;
const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d([.]\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/;
const LABEL = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
/** Characters that an error repeats of a text. */
const SHOWN_CHARACTERS_MAX = 60;

/** Returns the point. Throws ServerError `point-bad`, which names `place` (`?at=`) and what is wrong. */
export function parseTimePoint(text: string, place: string): TimePoint {
  const point = pointIn(text);
  if (typeof point !== 'string') return point;
  throw new ServerError('invalid', 'point-bad', `${place}: ${point}`);
}

function pointIn(text: string): TimePoint | string {
  if (text === 'start' || text === 'now') return { kind: text };
  const [, kind, value = ''] = /^(seq|ago|label|unit|time):(.*)$/s.exec(text) ?? [];
  switch (kind) {
    case 'seq': {
      const seq = Number(value);
      if (/^\d{1,15}$/.test(value) && seq >= 1) return { kind, seq };
      return `${shown(text)} names no message: messages are numbered from 1 on, as in seq:1234`;
    }
    case 'ago': {
      const [, count, unit] = AGO.exec(value) ?? [];
      if (count !== undefined && isUnit(unit)) return { kind, ms: Number(count) * MS[unit] };
      return `${shown(text)} is no time span: write a whole number with ms, s, m, h or d, as in ago:15m`;
    }
    case 'label':
      return LABEL.test(value) ? { kind, label: value } : `${shown(text)} is no label: ${LABEL_RULE}`;
    case 'unit': {
      const unit = Number(value);
      if (/^\d{1,15}$/.test(value) && unit >= 1) return { kind, unit };
      return `${shown(text)} names no unit: units are whole numbers from 1 on`;
    }
    case 'time': {
      const timeMs = ISO_TIME.test(value) ? Date.parse(value) : Number.NaN;
      // A day that does not exist, such as 30 February, would be taken for another one.
      const day = value.slice(0, 10);
      if (!Number.isNaN(timeMs) && new Date(Date.parse(day)).toJSON()?.startsWith(day)) return { kind, timeMs };
      return `${shown(text)} is no time: write it with its zone, as in time:2026-11-21T20:00:00.000Z`;
    }
    default:
      return `${shown(text)} is no point: write seq:1234, unit:99123, time:2026-11-21T20:00:00.000Z, ago:15m, label:NAME, start or now`;
  }
}

const LABEL_RULE = 'a label is a letter or digit, then up to 63 letters, digits, ., _ or -';

/** Throws ServerError `label-bad` unless the text can be a label. */
export function checkLabel(label: string): void {
  if (!LABEL.test(label)) throw new ServerError('invalid', 'label-bad', `${shown(label)} cannot be one: ${LABEL_RULE}`);
}

function isUnit(unit: string | undefined): unit is keyof typeof MS {
  return unit !== undefined && unit in MS;
}

function shown(text: string): string {
  return JSON.stringify(text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text);
}
