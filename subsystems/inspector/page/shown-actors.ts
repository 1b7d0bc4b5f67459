import { useRef, useState } from 'preact/hooks';
import { type Actor, type Api, ApiError, type HistoryEntry } from './api.ts';
import { useFollowing } from './hooks.ts';
import type { ListPlace } from './list-place.ts';
import { Samples } from './samples.ts';

/** Actors on one page of the list: as many as fit on a screen, and as may be shown anew every 2 s. */
const PAGE_ACTORS = 50;

/** The open actor. */
interface Opened {
  readonly name: string;
  /** Undefined if the server has no actor of that name. */
  readonly actor: Actor | undefined;
  /** Messages, newest first; undefined while they are not known. */
  readonly history: readonly HistoryEntry[] | undefined;
}

/** A page of the list, and the request that it answers. */
interface Listed {
  readonly actors: readonly Actor[];
  readonly hasMore: boolean;
  readonly key: string;
}

export interface ServerVersion {
  readonly number: string;
  readonly build: string;
}

interface Watching {
  readonly list: ListPlace;
  /** Name of the open actor. */
  readonly open: string | undefined;
  readonly answered: (actors: readonly Actor[]) => void;
  /** Called when the server refuses the token, or asks for one. */
  readonly refused: () => void;
}

export interface ShownActors {
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
export function useShownActors(api: Api, { list, open, answered, refused }: Watching): ShownActors {
  const samples = useRef(new Samples());
  const [{ actors, hasMore, key: listedKey }, setListed] = useState<Listed>({ actors: [], hasMore: false, key: '' });
  const [opened, setOpened] = useState<Opened | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const [version, setVersion] = useState<ServerVersion>({ number: '', build: '' });
  /** True if the answering server may be another than the one whose version is shown. */
  const mayHaveRestarted = useRef(true);
  const { key, after, filter } = list;
  const askVersion = async (): Promise<void> => {
    mayHaveRestarted.current = false;
    try {
      const { version: number, build } = await api.version();
      setVersion({ number, build: build.slice(0, 7) });
    } catch {
      mayHaveRestarted.current = true;
    }
  };

  useFollowing(`${key} ${open ?? ''}`, {
    follow: (signal) => api.inspections({ after, limit: PAGE_ACTORS, name: filter.trim(), open }, signal),
    told: ({ actors: found, hasMore: isMore, opened: actor, history }) => {
      const now = Date.now();
      samples.current.add(found, now);
      if (actor !== undefined) samples.current.add([actor], now);
      setListed({ actors: found, hasMore: isMore, key });
      if (open !== undefined) setOpened({ name: open, actor, history: history.toReversed() });
      setError(undefined);
      answered(found);
      if (mayHaveRestarted.current) void askVersion();
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
