import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ActorList } from './actor-list.tsx';
import { type Actor, Api, ApiError } from './api.ts';
import { Detail } from './detail.tsx';
import { useHash, usePolling } from './hooks.ts';
import { inertText } from './inert-text.ts';
import { messageOf } from './pieces.tsx';
import { hashOf, placeOf } from './place.ts';
import { Samples } from './samples.ts';
import { recall, remember } from './storage.ts';
import { ThemeButton } from './theme.tsx';
import { TokenGate } from './token-gate.tsx';

const TOKEN_KEY = 'svc-inspector-token';
/** Actors of one page of the list: what fits on a screen, and what a poll of 2 s should ask for. */
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
  // A file that misses its target must not replace the page.
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

/** What is known of the actor that is open. */
interface Opened {
  readonly name: string;
  /** Undefined: the server has none of that name. */
  readonly actor: Actor | undefined;
}

interface InspectorProps {
  readonly api: Api;
  readonly hasToken: boolean;
  /** The server does not take the token, or wants one. */
  readonly refused: () => void;
  readonly forget: () => void;
}

function Inspector({ api, hasToken, refused, forget }: InspectorProps) {
  const [hash, go] = useHash();
  const place = placeOf(hash);
  const samples = useRef(new Samples());
  const [filter, setFilter] = useState('');
  /** Ids behind which the pages begin; the last is the one that is shown. */
  const [starts, setStarts] = useState<readonly (string | undefined)[]>([undefined]);
  const [actors, setActors] = useState<readonly Actor[]>([]);
  const [hasMore, setHasMore] = useState(false);
  const [isLoading, setLoading] = useState(true);
  const [opened, setOpened] = useState<Opened | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const [version, setVersion] = useState({ number: '', build: '' });
  const [cursor, setCursor] = useState(0);
  const searchRef = useRef<HTMLInputElement>(null);
  const listRef = useRef<HTMLDivElement>(null);
  const after = starts.at(-1);

  usePolling(`${after ?? ''} ${filter} ${place.actor ?? ''}`, async (signal) => {
    try {
      const page = await api.actors({ after, limit: PAGE_ACTORS, name: filter.trim() });
      const listed = page.actors.find(({ name }) => name === place.actor);
      const known = opened?.name === place.actor ? opened?.actor?.id : undefined;
      const actor = listed ?? (place.actor === undefined ? undefined : await api.actor(place.actor, known));
      if (version.number === '') {
        const { version: number, build } = await api.version();
        setVersion({ number, build: build.slice(0, 7) });
      }
      if (signal.aborted) return;
      const now = Date.now();
      samples.current.add(page.actors, now);
      if (actor !== undefined && listed === undefined) samples.current.add([actor], now);
      setActors(page.actors);
      setHasMore(page.hasMore);
      if (place.actor !== undefined) setOpened({ name: place.actor, actor });
      setLoading(false);
      setError(undefined);
    } catch (failure) {
      if (signal.aborted) return;
      if (failure instanceof ApiError && failure.status === 401) refused();
      else setError(failure);
      throw failure;
    }
  });

  const open = (actor: Actor): void => {
    setOpened({ name: actor.name, actor });
    go(hashOf(actor.name, place.tab));
  };
  const close = (): void => {
    go('#/');
    listRef.current?.focus();
  };
  const search = (next: string): void => {
    setFilter(next);
    setStarts([undefined]);
    setCursor(0);
    setLoading(true);
  };

  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const target = event.target instanceof HTMLElement ? event.target : document.body;
      const isTyping = target.matches('input:not([type=checkbox]), textarea, select');
      if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        searchRef.current?.focus();
        searchRef.current?.select();
      } else if (event.key === 'Escape') {
        // Out of a field first; then out of the actor.
        if (isTyping && target !== searchRef.current) target.blur();
        else if (isTyping) listRef.current?.focus();
        else close();
      }
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);

  // The row that the arrow keys have reached is always to be seen.
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
        turnPage={(by) => {
          const last = actors.at(-1);
          if (by === -1) setStarts(starts.slice(0, -1));
          else if (last !== undefined) setStarts([...starts, last.id]);
          setCursor(0);
        }}
        open={open}
        cursor={cursor}
        setCursor={setCursor}
      />
      <Detail
        place={place}
        actor={opened?.name === place.actor ? opened?.actor : undefined}
        isLoading={opened?.name !== place.actor}
        samples={samples.current}
        api={api}
        hasToken={hasToken}
        go={go}
        close={close}
      />
    </div>
  );
}
