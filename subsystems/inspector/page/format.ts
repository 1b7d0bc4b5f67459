/** Formats numbers for people. */
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;
const LARGE_UNITS = ['', 'k', 'M', 'G', 'T', 'P', 'E'] as const;

export function bytesText(bytes: number): string {
  return scaledText(bytes, 1024, BYTE_UNITS, short);
}

/** Returns text like `99.99 T`: cycles and counts, in steps of a thousand. */
export function largeText(value: number): string {
  return scaledText(value, 1000, LARGE_UNITS, (scaled, unit) => (unit === 0 ? short(scaled) : precise(scaled)));
}

/**
 * Returns the value in the largest unit that makes it at least one; a value rounded up to a whole step uses the next
 * unit.
 */
function scaledText(
  value: number,
  step: number,
  units: readonly string[],
  textOf: (scaled: number, unit: number) => string,
): string {
  let scaled = value;
  let unit = 0;
  while (scaled >= step && unit < units.length - 1) {
    scaled /= step;
    unit++;
  }
  let text = textOf(scaled, unit);
  if (Number(text) >= step && unit < units.length - 1) {
    text = '1';
    unit++;
  }
  return units[unit] === '' ? text : `${text} ${units[unit]}`;
}

/** Returns four digits, without zeros after the point. */
function precise(value: number): string {
  if (value >= 1000) return String(Math.round(value));
  return withoutZeros(value.toPrecision(4));
}

/** Removes zeros after the point only: 100 keeps its own. */
function withoutZeros(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

export function rateText(perSecond: number): string {
  return `${perSecond > 0 && perSecond < 0.095 ? '<0.1' : largeText(perSecond)}/s`;
}

/** Returns the digits in groups of three. */
export function groupedText(digits: string): string {
  return digits.replaceAll(/\B(?=(?:\d{3})+$)/g, '\u202f');
}

export function durationText(ms: number): string {
  if (ms < 1) return '<1 ms';
  if (ms < 999.5) return `${short(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${short(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/**
 * Returns the time of day to the millisecond, with the date if it differs from that of `nowMs`; undefined if it is no
 * time.
 */
export function timeText(iso: string, nowMs: number): string | undefined {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return undefined;
  const two = (part: number): string => String(part).padStart(2, '0');
  const ofDay = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, '0')}`;
  if (time.toDateString() === new Date(nowMs).toDateString()) return ofDay;
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${ofDay}`;
}

function short(value: number): string {
  if (value >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return withoutZeros(value.toFixed(value >= 10 ? 1 : 2));
}
