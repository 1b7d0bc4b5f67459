import type { RefObject } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';
import { COLUMNS_MIN, evenColumns } from './even-columns.ts';

/** Least width of a tile with the gap beside it, in CSS pixels. */
const TILE_PX = 160;

/** Returns the columns for this number of tiles in the element, also when its width changes. */
export function useEvenColumns(element: RefObject<HTMLElement | null>, count: number): number {
  const [most, setMost] = useState(COLUMNS_MIN);
  useLayoutEffect(() => {
    const { current } = element;
    if (current === null) return () => undefined;
    const measure = (): void => setMost(Math.floor(current.clientWidth / TILE_PX));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(current);
    return () => observer.disconnect();
  }, []);
  return evenColumns(count, most);
}
