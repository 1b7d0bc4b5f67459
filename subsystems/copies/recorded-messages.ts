import type { Timeline, TimelineEntry } from '../timeline/index.ts';

const PAGE = 50;

/** Yields messages in order, from one number to another, both within. */
export async function* entriesFrom(
  timeline: Pick<Timeline, 'entries'>,
  id: Uint8Array,
  from: number,
  to: number,
): AsyncGenerator<TimelineEntry> {
  for (let seq: number | undefined = from; seq !== undefined && seq <= to;) {
    const page = await timeline.entries(id, { from: { kind: 'seq', seq }, to: undefined, limit: PAGE });
    for (const entry of page.entries) if (entry.seq <= to) yield entry;
    seq = page.next;
  }
}
