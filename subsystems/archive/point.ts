/** Points to restore to, the grammar of `--until`: `latest`, `unit:99123`, `time:2026-11-21T20:00:00.000Z`. */

export type Point =
  | { readonly kind: 'latest' }
  | { readonly kind: 'unit'; readonly unit: number }
  /** Milliseconds since 1970. */
  | { readonly kind: 'time'; readonly timeMs: number };

export function pointText(point: Point): string {
  if (point.kind === 'latest') return 'latest';
  return point.kind === 'unit' ? `unit:${point.unit}` : `time:${new Date(point.timeMs).toISOString()}`;
}
