import { useRef, useState } from 'preact/hooks';
import { type Actor, type ActorPage, type Api, ApiError } from './api.ts';
import { usePolling } from './hooks.ts';
import type { ListPlace } from './list-place.ts';
import { Samples } from './samples.ts';

/** Actors on one page of the list: as many as fit on a screen, and as a poll every 2 s should ask for. */
const PAGE_ACTORS = 50;

/** The open actor. */
interface Opened {
  readonly name: string;
  /** Undefined if the server has no actor of that name. */
  readonly actor: Actor | undefined;
}

/** A page of the list, and the request that it answers. */
interface Listed extends ActorPage {
  readonly key: string;
}

export interface ServerVersion {
  readonly number: string;
  readonly build: string;
}

interface Polling {
  readonly list: ListPlace;
  /** Name of the open actor. */
  readonly open: string | undefined;
  readonly answered: (actors: readonly Actor[]) => void;
  /** Called when the server refuses the token, or asks for one. */
  readonly refused: () => void;
}

export interface PolledActors {
  readonly samples: Samples;
  readonly actors: readonly Actor[];
  readonly hasMore: boolean;
  /** True until the shown page is that of the search. */
  readonly isLoading: boolean;
  readonly opened: Opened | undefined;
  readonly setOpened: (opened: Opened) => void;
  readonly error: unknown;
  readonly version: ServerVersion;
}

/** The actors of the list's page and the open one, as the server has shown them last. */
export function usePolledActors(api: Api, { list, open, answered, refused }: Polling): PolledActors {
  const samples = useRef(new Samples());
  const [{ actors, hasMore, key: listedKey }, setListed] = useState<Listed>({ actors: [], hasMore: false, key: '' });
  const [opened, setOpened] = useState<Opened | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const [version, setVersion] = useState<ServerVersion>({ number: '', build: '' });
  /** True if the answering server may be another than the one whose version is shown. */
  const mayHaveRestarted = useRef(true);
  const { key, after, filter } = list;

  usePolling(`${key} ${open ?? ''}`, {
    ask: async (signal) => {
      const page = await api.actors({ after, limit: PAGE_ACTORS, name: filter.trim() }, signal);
      const listed = page.actors.find(({ name }) => name === open);
      const known = opened?.name === open ? opened?.actor?.id : undefined;
      const actor = listed ?? (open === undefined ? undefined : await api.actor(open, known, signal));
      return { page, listed, actor, server: mayHaveRestarted.current ? await api.version(signal) : undefined };
    },
    answered: ({ page, listed, actor, server }) => {
      if (server !== undefined) setVersion({ number: server.version, build: server.build.slice(0, 7) });
      mayHaveRestarted.current = false;
      const now = Date.now();
      samples.current.add(page.actors, now);
      if (actor !== undefined && listed === undefined) samples.current.add([actor], now);
      setListed({ ...page, key });
      if (open !== undefined) setOpened({ name: open, actor });
      setError(undefined);
      answered(page.actors);
    },
    failed: (failure) => {
      mayHaveRestarted.current = true;
      if (failure instanceof ApiError && failure.status === 401) refused();
      else setError(failure);
    },
  });
  const isLoading = key !== listedKey;
  return { samples: samples.current, actors, hasMore, isLoading, opened, setOpened, error, version };
}
