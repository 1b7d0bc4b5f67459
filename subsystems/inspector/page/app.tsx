import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ActorList } from './actor-list.tsx';
import { type Actor, type ActorPage, Api, ApiError } from './api.ts';
import { CallDrafts } from './call-drafts.ts';
import { Detail } from './detail.tsx';
import { useHash, usePolling } from './hooks.ts';
import { inertText } from './inert-text.ts';
import { messageOf } from './messages.ts';
import { hashOf, placeOf } from './place.ts';
import { Samples } from './samples.ts';
import { recall, remember } from './storage.ts';
import { ThemeButton } from './theme.tsx';
import { TokenGate } from './token-gate.tsx';

const TOKEN_KEY = 'svc-inspector-token';
/** Actors on one page of the list: as many as fit on a screen, and as a poll every 2 s should ask for. */
const PAGE_ACTORS = 50;

export function App() {
  const [token, setToken] = useState(() => recall('sessionStorage', TOKEN_KEY) ?? '');
  const [isRefused, setRefused] = useState(false);
  const api = useMemo(() => new Api(token), [token]);
  const enter = (entered: string): void => {
    remember('sessionStorage', TOKEN_KEY, entered);
    setToken(entered);
    setRefused(false);
  };
  const forget = (): void => {
    remember('sessionStorage', TOKEN_KEY, undefined);
    setToken('');
    setRefused(true);
  };
  // A file that is dropped beside its target must not replace the page.
  useEffect(() => {
    const ignore = (event: DragEvent): void => event.preventDefault();
    addEventListener('dragover', ignore);
    addEventListener('drop', ignore);
    return () => {
      removeEventListener('dragover', ignore);
      removeEventListener('drop', ignore);
    };
  }, []);
  if (isRefused) return <TokenGate isWrong={token !== ''} enter={enter} />;
  return <Inspector api={api} hasToken={token !== ''} refused={() => setRefused(true)} forget={forget} />;
}

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

interface InspectorProps {
  readonly api: Api;
  readonly hasToken: boolean;
  /** Called when the server refuses the token, or asks for one. */
  readonly refused: () => void;
  readonly forget: () => void;
}

function Inspector({ api, hasToken, refused, forget }: InspectorProps) {
  const [hash, go] = useHash();
  const place = placeOf(hash);
  const samples = useRef(new Samples());
  const drafts = useRef(new CallDrafts());
  const [filter, setFilter] = useState('');
  /** Ids after which the pages begin; the last one is that of the shown page. */
  const [starts, setStarts] = useState<readonly (string | undefined)[]>([undefined]);
  const [{ actors, hasMore, key: listedKey }, setListed] = useState<Listed>({ actors: [], hasMore: false, key: '' });
  const [opened, setOpened] = useState<Opened | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const [version, setVersion] = useState({ number: '', build: '' });
  const [cursor, setCursor] = useState(0);
  const searchRef = useRef<HTMLInputElement>(null);
  const listRef = useRef<HTMLDivElement>(null);
  /** True if the answering server may be another than the one whose version is shown. */
  const mayHaveRestarted = useRef(true);
  /** True if Enter was pressed in the search before its list arrived. */
  const opensFirst = useRef(false);
  const isClosing = useRef(false);
  const after = starts.at(-1);
  const key = `${after ?? ''} ${filter}`;
  const isLoading = key !== listedKey;

  usePolling(`${key} ${place.actor ?? ''}`, {
    ask: async (signal) => {
      const page = await api.actors({ after, limit: PAGE_ACTORS, name: filter.trim() }, signal);
      const listed = page.actors.find(({ name }) => name === place.actor);
      const known = opened?.name === place.actor ? opened?.actor?.id : undefined;
      const actor = listed ?? (place.actor === undefined ? undefined : await api.actor(place.actor, known, signal));
      return { page, listed, actor, server: mayHaveRestarted.current ? await api.version(signal) : undefined };
    },
    answered: ({ page, listed, actor, server }) => {
      if (server !== undefined) setVersion({ number: server.version, build: server.build.slice(0, 7) });
      mayHaveRestarted.current = false;
      const now = Date.now();
      samples.current.add(page.actors, now);
      if (actor !== undefined && listed === undefined) samples.current.add([actor], now);
      setListed({ ...page, key });
      if (place.actor !== undefined) setOpened({ name: place.actor, actor });
      setError(undefined);
      if (opensFirst.current) openFirst(page.actors);
    },
    failed: (failure) => {
      mayHaveRestarted.current = true;
      if (failure instanceof ApiError && failure.status === 401) refused();
      else setError(failure);
    },
  });

  const open = (actor: Actor): void => {
    opensFirst.current = false;
    // The actor is open: its address may hold more than its name, and forms may be half-filled.
    if (actor.name === place.actor) return;
    setOpened({ name: actor.name, actor });
    go(hashOf(actor.name, place.tab));
  };
  const openFirst = (found: readonly Actor[]): void => {
    const first = found[0];
    opensFirst.current = false;
    if (first !== undefined) open(first);
  };
  const close = (): void => {
    isClosing.current = true;
    opensFirst.current = false;
    go('#/');
    listRef.current?.focus();
  };
  const search = (next: string): void => {
    opensFirst.current = false;
    setFilter(next);
    setStarts([undefined]);
    setCursor(0);
  };
  const turnPage = (by: 1 | -1): void => {
    const last = actors.at(-1);
    // While another page is loading, the shown one does not tell where the next one begins.
    if (isLoading) return;
    opensFirst.current = false;
    if (by === -1) setStarts(starts.slice(0, -1));
    else if (last !== undefined) setStarts([...starts, last.id]);
    setCursor(0);
  };

  // The list may be hidden beside an open actor; it takes the focus when it is visible again.
  useLayoutEffect(() => {
    if (place.actor === undefined && isClosing.current) listRef.current?.focus();
    isClosing.current = false;
  }, [place.actor]);

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

  // The row that the arrow keys have reached is always visible.
  useEffect(() => {
    listRef.current?.querySelector('.at-cursor')?.scrollIntoView({ block: 'nearest' });
  }, [cursor]);

  useEffect(() => {
    document.title = place.actor === undefined ? 'svc inspector' : `${inertText(place.actor)} · svc inspector`;
  }, [place.actor]);

  return (
    <div class={`app${place.actor === undefined ? '' : ' has-open'}`}>
      <header class="top">
        <h1>
          svc <span>inspector</span>
        </h1>
        <span class="version">
          {inertText(version.number)} <span class="build">{inertText(version.build)}</span>
        </span>
        <span class="grow" />
        {hasToken && (
          <button type="button" class="quiet" onClick={forget}>
            Forget token
          </button>
        )}
        <ThemeButton />
      </header>
      {error !== undefined && (
        <p class="banner" role="alert">
          {inertText(messageOf(error))} — trying again
        </p>
      )}
      <ActorList
        actors={actors}
        samples={samples.current}
        selected={place.actor}
        filter={filter}
        pageNumber={starts.length}
        hasMore={hasMore}
        isLoading={isLoading}
        searchRef={searchRef}
        listRef={listRef}
        setFilter={search}
        turnPage={turnPage}
        open={open}
        openFirst={() => {
          if (isLoading) opensFirst.current = true;
          else openFirst(actors);
        }}
        cursor={cursor}
        setCursor={setCursor}
      />
      <Detail
        place={place}
        actor={opened?.name === place.actor ? opened?.actor : undefined}
        isLoading={opened?.name !== place.actor}
        samples={samples.current}
        api={api}
        drafts={drafts.current}
        hasToken={hasToken}
        go={go}
        close={close}
      />
    </div>
  );
}
