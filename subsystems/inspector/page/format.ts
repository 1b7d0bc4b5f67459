/** Numbers for people. */
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;
const LARGE_UNITS = ['', 'k', 'M', 'G', 'T', 'P', 'E'] as const;

export function bytesText(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < BYTE_UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${short(value)} ${BYTE_UNITS[unit]}`;
}

/** `99.99 T`: cycles and counts, in steps of a thousand. */
export function largeText(value: number): string {
  let scaled = value;
  let unit = 0;
  while (Math.abs(scaled) >= 1000 && unit < LARGE_UNITS.length - 1) {
    scaled /= 1000;
    unit++;
  }
  return unit === 0 ? short(scaled) : `${scaled.toPrecision(4).replace(/\.?0+$/, '')} ${LARGE_UNITS[unit]}`;
}

export function rateText(perSecond: number): string {
  return `${perSecond > 0 && perSecond < 0.095 ? '<0.1' : largeText(perSecond)}/s`;
}

/** Digits in groups of three. */
export function groupedText(digits: string): string {
  return digits.replaceAll(/\B(?=(?:\d{3})+$)/g, '\u202f');
}

export function durationText(ms: number): string {
  if (ms < 1) return '<1 ms';
  if (ms < 1000) return `${short(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${short(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

function short(value: number): string {
  if (value >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return value >= 10 ? value.toFixed(1).replace(/\.0$/, '') : value.toFixed(2).replace(/\.?0+$/, '');
}
