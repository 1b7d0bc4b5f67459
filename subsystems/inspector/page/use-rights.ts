import { createContext } from 'preact';
import { useCallback, useContext, useEffect, useRef, useState } from 'preact/hooks';
import type { Actor, Api } from './api.ts';
import { ApiError } from './api-errors.ts';
import { type ActorScope, Rights } from './rights.ts';

/** Pause before rights are asked for again where no stream tells that they have changed. */
const AGAIN_MS = 5_000;
/** Pause after a failure. */
const RETRY_MS = 2_000;
const ANSWER_MAX_MS = 15_000;

/** Rights of whoever looks at the page. */
export const RightsContext = createContext(new Rights());

export function useRights(): Rights {
  return useContext(RightsContext);
}

/** Returns a function that returns the scope that is lacking for something with this actor. */
export function useLacking(actor: Actor): (scope: ActorScope) => string | undefined {
  const rights = useRights();
  return (scope) => rights.lackingFor(scope, actor);
}

interface Told {
  /** Undefined while they are not known. */
  readonly rights: Rights | undefined;
  /** The rights as text, to know them again. */
  readonly text: string;
  readonly error: unknown;
}

/**
 * Asks what the token may do, again while it does not show the host, and whenever `again` is called. `refused` gets the
 * server's reason where the token is none.
 */
export function useToldRights(api: Api, refused: (reason: string) => void): Told & { readonly again: () => void } {
  const [told, setTold] = useState<Told>({ rights: undefined, text: '', error: undefined });
  const [round, setRound] = useState(0);
  const again = useCallback(() => setRound((before) => before + 1), []);
  const latest = useRef(refused);
  latest.current = refused;
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async (): Promise<void> => {
      let pauseMs = AGAIN_MS;
      try {
        const answer = await api.rights(AbortSignal.any([stop.signal, AbortSignal.timeout(ANSWER_MAX_MS)]));
        if (stop.signal.aborted) return;
        const text = JSON.stringify(answer);
        const rights = new Rights(answer);
        setTold((before) => ({ rights: before.text === text ? before.rights : rights, text, error: undefined }));
        if (rights.lacking('inspect') === undefined) return;
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof ApiError && error.status === 401) return latest.current(error.message);
        setTold((before) => ({ ...before, error }));
        pauseMs = RETRY_MS;
      }
      timer = setTimeout(() => void ask(), pauseMs);
    };
    void ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [api, round]);
  return { ...told, again };
}
