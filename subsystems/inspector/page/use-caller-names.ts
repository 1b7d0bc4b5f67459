import { useEffect, useRef } from 'preact/hooks';
import type { Api, HistoryEntry } from './api.ts';
import { useRedraw } from './hooks.ts';
import { useRights } from './use-rights.ts';

/** Returns the name of a local actor by its principal; undefined: it is none, or not known yet. */
export type NameOf = (principal: string) => string | undefined;

/** Asks for the names of actors that have called, each once while the history is open. */
export function useCallerNames(history: readonly HistoryEntry[], api: Api): NameOf {
  const redraw = useRedraw();
  const known = useRef(new Map<string, string | undefined>());
  const mayInspect = useRights().lacking('inspect') === undefined;
  useEffect(() => {
    if (!mayInspect) return () => undefined;
    const stop = new AbortController();
    const asked = new Set(history.filter(({ kind }) => kind === 'call').map(({ caller }) => caller));
    const ask = async (principal: string): Promise<void> => {
      known.current.set(principal, undefined);
      try {
        known.current.set(principal, await api.nameOf(principal, stop.signal));
        redraw();
      } catch {
        // Asked for again with the next message; until then the principal stands there.
        known.current.delete(principal);
      }
    };
    for (const principal of asked) if (!known.current.has(principal)) void ask(principal);
    return () => stop.abort();
  }, [history[0]?.id, mayInspect, api]);
  return (principal) => known.current.get(principal);
}
