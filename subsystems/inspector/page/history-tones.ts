import type { Tone } from './pieces.tsx';

/** Tones of outcomes. */
export const TONES: Readonly<Record<string, Tone>> = {
  reply: 'good',
  reject: 'warn',
  trap: 'bad',
  limit: 'bad',
  out_of_cycles: 'bad',
};
