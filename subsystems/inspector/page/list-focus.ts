import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

/**
 * Keeps the row at the cursor visible. Returns a function that gives the list the focus when the open actor is being
 * closed: the list may be hidden beside it.
 */
export function useListFocus(
  listRef: RefObject<HTMLElement | null>,
  open: string | undefined,
  cursor: number,
): () => void {
  const isClosing = useRef(false);
  // The list takes the focus when it is visible again.
  useLayoutEffect(() => {
    if (open === undefined && isClosing.current) listRef.current?.focus();
    isClosing.current = false;
  }, [open]);
  useEffect(() => {
    listRef.current?.querySelector('.at-cursor')?.scrollIntoView({ block: 'nearest' });
  }, [cursor]);
  return () => {
    isClosing.current = true;
    listRef.current?.focus();
  };
}
