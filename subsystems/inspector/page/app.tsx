import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ActorList } from './actor-list.tsx';
import { Api, type ListedActor } from './api.ts';
import { CallDrafts, forgetDrafts } from './call-drafts.ts';
import { Detail } from './detail.tsx';
import { Frame, type FrameProps, type RightsView } from './frame.tsx';
import { Home } from './home.tsx';
import { useHash } from './hooks.ts';
import { inertText } from './inert-text.ts';
import { useListFocus } from './list-focus.ts';
import { useListPlace } from './list-place.ts';
import { hashOf, type Place, placeOf } from './place.ts';
import { Rights } from './rights.ts';
import { RightsContext, useToldRights } from './use-rights.ts';
import { ScopedPage } from './scoped.tsx';
import { type ServerVersion, useShownActors } from './shown-actors.ts';
import { useShortcuts } from './shortcuts.ts';
import { recall, remember } from './storage.ts';
import { refusalText, TokenGate } from './token-gate.tsx';

const TOKEN_KEY = 'svc-inspector-token';
const NO_RIGHTS = new Rights({ name: null, may: [], caller: null, claims: false });

export function App() {
  const [token, setToken] = useState(() => recall('sessionStorage', TOKEN_KEY) ?? '');
  /** Text above the field for the token; undefined: it is not asked for. */
  const [gate, setGate] = useState<string | undefined>(undefined);
  const api = useMemo(() => new Api(token), [token]);
  const enter = (entered: string): void => {
    remember('sessionStorage', TOKEN_KEY, entered);
    setToken(entered);
    setGate(undefined);
  };
  const logOut = (): void => {
    remember('sessionStorage', TOKEN_KEY, undefined);
    forgetDrafts();
    setToken('');
    setGate('');
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
  if (gate !== undefined) return <TokenGate problem={gate} enter={enter} />;
  const refused = (reason: string): void => setGate(token === '' ? '' : refusalText(reason));
  return <Session key={token} api={api} hasToken={token !== ''} refused={refused} logOut={logOut} />;
}

interface SessionProps {
  readonly api: Api;
  readonly hasToken: boolean;
  /** Called with the server's reason when it refuses the token, or asks for one. */
  readonly refused: (reason: string) => void;
  readonly logOut: () => void;
}

/** The page for whoever the token is, as soon as the server has told what that may do. */
function Session({ api, hasToken, refused, logOut }: SessionProps) {
  const { rights, error, again } = useToldRights(api, refused);
  const [hash, go] = useHash();
  const place = placeOf(hash);
  const drafts = useDrafts();
  const hasOpen = place.actor !== undefined;
  const [isOpen, setOpen] = useState(false);
  const rightsView = rights === undefined ? undefined : { isOpen, toggle: () => setOpen(!isOpen) };
  useTitle(place.actor);
  const pageProps = { api, place, go, drafts: drafts.current, hasToken };
  if (rights !== undefined && rights.lacking('inspect') === undefined) {
    return (
      <RightsContext.Provider value={rights}>
        <Inspector {...pageProps} {...{ rightsView, logOut }} refused={again} />
      </RightsContext.Provider>
    );
  }
  return (
    <RightsContext.Provider value={rights ?? NO_RIGHTS}>
      <ScopedFrame {...{ api, error, hasOpen, hasToken, rightsView, logOut, close: () => go('#/') }}>
        {rights === undefined ? (
          <main class="detail home">
            <p class="empty">Asking the server …</p>
          </main>
        ) : (
          <ScopedPage {...pageProps} close={() => go('#/')} />
        )}
      </ScopedFrame>
    </RightsContext.Provider>
  );
}

interface InspectorProps {
  readonly api: Api;
  readonly place: Place;
  readonly go: (hash: string) => void;
  readonly drafts: CallDrafts;
  readonly hasToken: boolean;
  /** Called when the server refuses what it has shown so far. */
  readonly refused: () => void;
  readonly rightsView: RightsView | undefined;
  readonly logOut: () => void;
}

/** The page for whoever may see the host. */
function Inspector({ api, place, go, drafts, hasToken, refused, rightsView, logOut }: InspectorProps) {
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

  return (
    <Frame
      version={shown.version}
      error={shown.error}
      hasOpen={place.actor !== undefined}
      {...{ hasToken, rightsView, logOut }}
    >
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
          drafts={drafts}
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

/** The frame where no stream tells of the host. */
function ScopedFrame({
  api,
  close,
  ...frame
}: Omit<FrameProps, 'version'> & { readonly api: Api; readonly close: () => void }) {
  const [version, setVersion] = useState<ServerVersion>({ number: '', build: '' });
  const nothing = useRef(null);
  const isKnown = frame.rightsView !== undefined;
  useShortcuts({ searchRef: nothing, listRef: nothing, close });
  useEffect(() => {
    const ask = async (): Promise<void> => {
      try {
        const { version: number, build } = await api.version();
        setVersion({ number, build: build.slice(0, 7) });
      } catch {
        // The banner tells that the server is away.
      }
    };
    if (isKnown) void ask();
  }, [api, isKnown]);
  return <Frame version={version} {...frame} />;
}
