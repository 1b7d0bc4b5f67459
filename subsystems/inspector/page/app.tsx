import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ActorList } from './actor-list.tsx';
import { Api, type ListedActor } from './api.ts';
import { CallDrafts } from './call-drafts.ts';
import { Detail } from './detail.tsx';
import { Home } from './home.tsx';
import { useHash } from './hooks.ts';
import { inertText } from './inert-text.ts';
import { useListFocus } from './list-focus.ts';
import { useListPlace } from './list-place.ts';
import { messageOf } from './messages.ts';
import { hashOf, placeOf } from './place.ts';
import { type ServerVersion, useShownActors } from './shown-actors.ts';
import { useShortcuts } from './shortcuts.ts';
import { recall, remember } from './storage.ts';
import { ThemeButton } from './theme.tsx';
import { TokenGate } from './token-gate.tsx';

const TOKEN_KEY = 'svc-inspector-token';

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
  const drafts = useDrafts();
  const list = useListPlace();
  const searchRef = useRef<HTMLInputElement>(null);
  const listRef = useRef<HTMLDivElement>(null);
  const focusList = useListFocus(listRef, place.actor, list.cursor);
  const shown = useShownActors(api, {
    list,
    open: place.actor,
    answered: (found) => {
      if (list.opensFirst.current) openFirst(found);
    },
    refused,
  });

  const open = (actor: ListedActor): void => {
    list.opensFirst.current = false;
    // The actor is open: its address may hold more than its name, and forms may be half-filled.
    if (actor.name === place.actor) return;
    go(hashOf(actor.name, place.tab));
  };
  const openFirst = ([first]: readonly ListedActor[]): void => {
    list.opensFirst.current = false;
    if (first !== undefined) open(first);
  };
  const close = (): void => {
    list.opensFirst.current = false;
    go('#/');
    focusList();
  };
  const opened = shown.opened?.name === place.actor ? shown.opened : undefined;
  useShortcuts({ searchRef, listRef, close });
  useTitle(place.actor);

  return (
    <Frame version={shown.version} error={shown.error} hasOpen={place.actor !== undefined} {...{ hasToken, forget }}>
      {place.actor === undefined && <Home shown={shown} list={list} listRef={listRef} api={api} go={go} />}
      <ActorList
        shown={shown}
        selected={place.actor}
        list={list}
        searchRef={searchRef}
        listRef={listRef}
        open={open}
        openFirst={() => {
          if (shown.isLoading) list.opensFirst.current = true;
          else openFirst(shown.actors);
        }}
      />
      {place.actor !== undefined && (
        <Detail
          place={place}
          name={place.actor}
          actor={opened?.actor}
          isLoading={opened === undefined}
          samples={shown.samples}
          history={opened?.history}
          api={api}
          drafts={drafts.current}
          hasToken={hasToken}
          go={go}
          close={close}
        />
      )}
    </Frame>
  );
}

/** Returns drafts of calls that outlive a reload. */
function useDrafts(): { readonly current: CallDrafts } {
  const drafts = useRef<CallDrafts | undefined>(undefined);
  const current = (drafts.current ??= new CallDrafts());
  useEffect(() => {
    const leave = (): void => current.store();
    addEventListener('pagehide', leave);
    return () => removeEventListener('pagehide', leave);
  }, []);
  return { current };
}

function useTitle(actor: string | undefined): void {
  useEffect(() => {
    document.title = actor === undefined ? 'svc inspector' : `${inertText(actor)} · svc inspector`;
  }, [actor]);
}

/** The head of the page, an error of the stream, and below both the list and what is open. */
function Frame({
  version,
  error,
  hasOpen,
  hasToken,
  forget,
  children,
}: {
  readonly version: ServerVersion;
  readonly error: unknown;
  readonly hasOpen: boolean;
  readonly hasToken: boolean;
  readonly forget: () => void;
  readonly children: ComponentChildren;
}) {
  return (
    <div class={`app${hasOpen ? ' has-open' : ''}`}>
      <Top version={version} hasToken={hasToken} forget={forget} />
      {error !== undefined && <Banner error={error} />}
      {children}
    </div>
  );
}

function Banner({ error }: { readonly error: unknown }) {
  return (
    <p class="banner" role="alert">
      {inertText(messageOf(error))} — trying again
    </p>
  );
}

/** The head of the page. */
function Top({
  version,
  hasToken,
  forget,
}: {
  readonly version: ServerVersion;
  readonly hasToken: boolean;
  readonly forget: () => void;
}) {
  return (
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
  );
}
