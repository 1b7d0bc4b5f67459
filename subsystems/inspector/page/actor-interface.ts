import { useEffect, useState } from 'preact/hooks';
import type { Actor, Api } from './api.ts';
import { ApiError } from './api-errors.ts';
import type { DidInterface } from './candid/did-types.ts';
import { messageOf } from './messages.ts';
import { useLacking } from './use-rights.ts';

/** Pause before an interface is asked for again that could not be had. */
const RETRY_MS = 2_000;

/** The types of an actor's methods, as far as the page has them. */
export interface ActorInterface {
  /** Undefined: the actor has none that is understood, or it is still being asked for. */
  readonly types: DidInterface | undefined;
  /** Reason why there are no types. */
  readonly problem: string | undefined;
  readonly isLoading: boolean;
}

const LOADING: ActorInterface = { types: undefined, problem: undefined, isLoading: true };

/** Asks for the types of an actor's interface, again when the interface is another; until then the old ones stay. */
export function useInterface(actor: Actor, api: Api): ActorInterface {
  const { id, name, candid, candidProblem } = actor;
  const [known, setKnown] = useState(LOADING);
  const lacks = useLacking(actor)('describe');
  useEffect(() => {
    if (candid === null || lacks !== undefined) {
      setKnown({ types: undefined, problem: candidProblem ?? undefined, isLoading: false });
      return () => undefined;
    }
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async (): Promise<void> => {
      try {
        const types = await api.interfaceOf(name, stop.signal);
        if (!stop.signal.aborted) setKnown({ types, problem: candidProblem ?? undefined, isLoading: false });
      } catch (error) {
        if (stop.signal.aborted) return;
        setKnown({ types: undefined, problem: messageOf(error), isLoading: false });
        const isFinal = error instanceof ApiError && error.status < 500;
        if (!isFinal) timer = setTimeout(() => void ask(), RETRY_MS);
      }
    };
    void ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [id, candid, candidProblem, lacks, api]);
  return known;
}
