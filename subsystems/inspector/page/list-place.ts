import { useRef, useState } from 'preact/hooks';
import type { Actor } from './api.ts';

/** Place in the list of actors: the search, the page, and the row that the arrow keys have reached. */
export interface ListPlace {
  readonly filter: string;
  /** Id after which the page begins; undefined: the first page. */
  readonly after: string | undefined;
  readonly pageNumber: number;
  /** Different for each search and page. */
  readonly key: string;
  readonly cursor: number;
  readonly setCursor: (cursor: number) => void;
  /** True if Enter was pressed in the search before its list arrived. */
  readonly opensFirst: { current: boolean };
  readonly search: (filter: string) => void;
  /** Goes to the page before, or to that after `last`, the last actor of the shown page. */
  readonly turnPage: (by: 1 | -1, last: Actor | undefined) => void;
}

export function useListPlace(): ListPlace {
  const [filter, setFilter] = useState('');
  /** Ids after which the pages begin; the last one is that of the shown page. */
  const [starts, setStarts] = useState<readonly (string | undefined)[]>([undefined]);
  const [cursor, setCursor] = useState(0);
  const opensFirst = useRef(false);
  const after = starts.at(-1);
  return {
    filter,
    after,
    pageNumber: starts.length,
    key: `${after ?? ''} ${filter}`,
    cursor,
    setCursor,
    opensFirst,
    search(next) {
      opensFirst.current = false;
      setFilter(next);
      setStarts([undefined]);
      setCursor(0);
    },
    turnPage(by, last) {
      opensFirst.current = false;
      if (by === -1) setStarts(starts.slice(0, -1));
      else if (last !== undefined) setStarts([...starts, last.id]);
      setCursor(0);
    },
  };
}
