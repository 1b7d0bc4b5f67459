import { useRef, useState } from 'preact/hooks';

/** Actors on one page of the list: as many as fit on a screen, and as may be shown anew every 2 s. */
export const PAGE_ACTORS = 50;
/** Pages that the server can turn to (`offset` of `/x/host`). */
export const PAGES_MAX = 201;

/** Orders of the list, as the server names them, with those in which the largest comes first. */
export const SORT_TITLES = {
  id: 'Id',
  name: 'Name',
  principal: 'Principal',
  state: 'State',
  memory: 'Memory',
  messages: 'Messages',
  traps: 'Traps',
  queued: 'Queue',
  cycles: 'Cycles',
  idle: 'Idle time',
} as const;
export type Sort = keyof typeof SORT_TITLES;
const LARGEST_FIRST: readonly Sort[] = ['memory', 'messages', 'traps', 'queued', 'cycles', 'idle'];

/** Search, state and order that somebody has chosen. */
interface Choice {
  readonly filter: string;
  /** Empty: actors of all states. */
  readonly state: string;
  readonly sort: Sort;
  readonly isDescending: boolean;
}

const EVERYTHING: Choice = { filter: '', state: '', sort: 'id', isDescending: false };

/** Place in the list of actors: the search, the page, and the row that the arrow keys have reached. */
export interface ListPlace extends Choice {
  /** From 1 on. */
  readonly pageNumber: number;
  /** Different for each choice and page. */
  readonly key: string;
  readonly cursor: number;
  readonly setCursor: (cursor: number) => void;
  /** True if Enter was pressed in the search before its list arrived. */
  readonly opensFirst: { current: boolean };
  /** Changes some of the choice; the first page is shown. */
  readonly choose: (change: Partial<Choice>) => void;
  /** Shows all actors, in this order if it is given, and in its usual direction. */
  readonly showAll: (sort?: Sort, state?: string) => void;
  readonly turnPage: (by: 1 | -1) => void;
}

/** Returns true if the largest come first, unless somebody turns the order around. */
export function isLargestFirst(sort: Sort): boolean {
  return LARGEST_FIRST.includes(sort);
}

export function useListPlace(): ListPlace {
  const [choice, setChoice] = useState(EVERYTHING);
  const [pageNumber, setPageNumber] = useState(1);
  const [cursor, setCursor] = useState(0);
  const opensFirst = useRef(false);
  const show = (next: Choice, page: number): void => {
    opensFirst.current = false;
    setChoice(next);
    setPageNumber(page);
    setCursor(0);
  };
  return {
    ...choice,
    pageNumber,
    key: JSON.stringify([choice, pageNumber]),
    cursor,
    setCursor,
    opensFirst,
    choose: (change) => show({ ...choice, ...change }, 1),
    showAll: (sort = 'id', state = '') => show({ ...EVERYTHING, state, sort, isDescending: isLargestFirst(sort) }, 1),
    turnPage: (by) => show(choice, pageNumber + by),
  };
}
