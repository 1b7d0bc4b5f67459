import { useRef, useState } from 'preact/hooks';
import type { Actor, Api, HistoryEntry, HostRound, ListedActor } from './api.ts';
import { ApiError } from './api-errors.ts';
import { useFollowing } from './hooks.ts';
import { type ListPlace, PAGE_ACTORS, PAGES_MAX } from './list-place.ts';
import { Samples } from './samples.ts';

/** Id under which the samples of the whole host are kept: no actor has it. */
export const HOST_SAMPLES = 'host';

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
  readonly round: Pick<HostRound, 'host' | 'matching' | 'actors' | 'failures'> | undefined;
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
  readonly answered: (actors: readonly ListedActor[]) => void;
  /** Called when the server refuses the token, or that it shows the host. */
  readonly refused: () => void;
}

export interface ShownActors {
  readonly samples: Samples;
  readonly actors: readonly ListedActor[];
  /** Number of actors that the search leaves. */
  readonly matching: number;
  readonly hasMore: boolean;
  /** Figures and failures of the host; undefined while they are not known. */
  readonly round: Listed['round'];
  /** True until the shown page is that of the search. */
  readonly isLoading: boolean;
  readonly opened: Opened | undefined;
  readonly error: unknown;
  readonly version: ServerVersion;
}

/** The actors of the list's page and the open one, as the server has shown them last. */
export function useShownActors(api: Api, { list, open, answered, refused }: Watching): ShownActors {
  const samples = useRef(new Samples());
  const [{ round, key: listedKey }, setListed] = useState<Listed>({ round: undefined, key: '' });
  const [opened, setOpened] = useState<Opened | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const [version, setVersion] = useState<ServerVersion>({ number: '', build: '' });
  /** True if the answering server may be another than the one whose version is shown. */
  const mayHaveRestarted = useRef(true);
  const { key, filter, state, sort, isDescending, pageNumber } = list;
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
    follow: (signal) => {
      const offset = (pageNumber - 1) * PAGE_ACTORS;
      const choice = { find: filter.trim(), state, sort, isDescending, offset, limit: PAGE_ACTORS, open };
      return api.hostRounds(choice, signal);
    },
    told: ({ opened: actor, history, ...told }) => {
      const now = Date.now();
      samples.current.add(told.actors, now);
      if (actor !== undefined) samples.current.add([actor], now);
      samples.current.put(HOST_SAMPLES, { ...told.host, atMs: now, cycles: 0 });
      setListed({ round: told, key });
      if (open !== undefined) setOpened({ name: open, actor, history: history.toReversed() });
      setError(undefined);
      answered(told.actors);
      if (mayHaveRestarted.current) void askVersion();
    },
    failed: (failure) => {
      mayHaveRestarted.current = true;
      const status = failure instanceof ApiError ? failure.status : 0;
      if (status === 401 || status === 403) refused();
      if (status !== 401) setError(failure);
    },
  });
  const { actors = [], matching = 0 } = round ?? {};
  const hasMore = pageNumber * PAGE_ACTORS < matching && pageNumber < PAGES_MAX;
  const isLoading = key !== listedKey;
  return { samples: samples.current, round, actors, matching, hasMore, isLoading, opened, error, version };
}
