import type { RefObject } from 'preact';
import { useEffect } from 'preact/hooks';

interface Shortcuts {
  readonly searchRef: RefObject<HTMLInputElement | null>;
  readonly listRef: RefObject<HTMLElement | null>;
  readonly close: () => void;
}

/** Lets `/` search, and Escape go back; the functions are those of the first drawing. */
export function useShortcuts({ searchRef, listRef, close }: Shortcuts): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const target = event.target instanceof HTMLElement ? event.target : document.body;
      const isTyping = target.matches('input:not([type=checkbox]), textarea, select');
      if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        searchRef.current?.focus();
        searchRef.current?.select();
      } else if (event.key === 'Escape') {
        // Leaves a field first, and then the actor.
        if (isTyping && target !== searchRef.current) target.blur();
        else if (isTyping) listRef.current?.focus();
        else close();
      }
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
}
