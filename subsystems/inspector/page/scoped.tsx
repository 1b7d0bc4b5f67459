import { useEffect, useState } from 'preact/hooks';
import type { Actor, Api, HistoryEntry } from './api.ts';
import { ApiError } from './api-errors.ts';
import type { CallDrafts } from './call-drafts.ts';
import { Detail } from './detail.tsx';
import { RightsPanel } from './frame.tsx';
import { Backup, Installation } from './home.tsx';
import { useFollowing } from './hooks.ts';
import { inertText, shortText } from './inert-text.ts';
import { messageOf } from './messages.ts';
import { hashOf, type Place } from './place.ts';
import { Lack } from './lack.tsx';
import { useRights } from './use-rights.ts';
import { Samples } from './samples.ts';

const HISTORY_PAUSE_MS = 2_000;
const NO_SAMPLES = new Samples();

interface ScopedProps {
  readonly place: Place;
  readonly api: Api;
  readonly drafts: CallDrafts;
  readonly hasToken: boolean;
  readonly go: (hash: string) => void;
  readonly close: () => void;
}

/** The page for a token that does not show the host: its rights, and actors by the names that somebody knows. */
export function ScopedPage(props: ScopedProps) {
  const { place, api, go } = props;
  return (
    <>
      {place.actor === undefined && (
        <main class="detail home">
          <h2>What you may do</h2>
          <RightsPanel />
          <Lack scope="inspect" doing="see the list of actors and the figures of the host" />
          <div class="columns">
            <Installation api={api} go={go} />
            <Backup api={api} stateBytes={null} />
          </div>
        </main>
      )}
      <NamedActors open={place.actor} go={(name) => go(hashOf(name, place.tab === 'overview' ? 'call' : place.tab))} />
      {place.actor !== undefined && <NamedActor key={place.actor} {...props} name={place.actor} />}
    </>
  );
}

/** Actors that the scopes name, and a field for others. */
function NamedActors({ open, go }: { readonly open: string | undefined; readonly go: (name: string) => void }) {
  const rights = useRights();
  const [name, setName] = useState('');
  return (
    <nav class="actors" aria-label="Actors">
      <form
        class="search"
        onSubmit={(event) => {
          event.preventDefault();
          if (name.trim() !== '') go(name.trim());
        }}
      >
        <input
          placeholder="Name of an actor"
          aria-label="Open an actor by its name, id or principal"
          spellcheck={false}
          autocomplete="off"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
        <button type="submit">Open</button>
      </form>
      <ul class="list" aria-label="Actors of this token">
        {rights.actors.map((actor) => (
          <li key={actor}>
            <button type="button" class="method" aria-current={actor === open} onClick={() => go(actor)}>
              <span class="name" title={inertText(actor)}>
                {inertText(shortText(actor, 80))}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** An actor as far as its scopes show it. */
function NamedActor({ name, ...props }: ScopedProps & { readonly name: string }) {
  const { api } = props;
  const actor = useNamedActor(api, name);
  const history = useHistory(api, name);
  return (
    <Detail
      {...props}
      name={name}
      actor={actor}
      isLoading={actor === undefined}
      samples={NO_SAMPLES}
      history={history}
    />
  );
}

/** Returns what the scopes show of an actor: its interface and its balance. */
function useNamedActor(api: Api, name: string): Actor | undefined {
  const rights = useRights();
  const [actor, setActor] = useState<Actor | undefined>(undefined);
  useEffect(() => {
    const stop = new AbortController();
    const itself = { id: name, principal: name, name };
    const path = encodeURIComponent(name);
    const read = async (scope: 'describe' | 'cycles'): Promise<string | undefined> => {
      if (rights.lackingFor(scope, itself) !== undefined) return undefined;
      return api.text(scope === 'cycles' ? `/cycles/${path}` : `/candid/${path}`, stop.signal);
    };
    const look = async (): Promise<void> => {
      let candid: string | null = null;
      let cycles = '';
      let candidProblem: string | null = null;
      try {
        candid = (await read('describe')) ?? null;
      } catch (error) {
        candidProblem = error instanceof ApiError ? error.message : messageOf(error);
      }
      try {
        cycles = (await read('cycles')) ?? '';
      } catch {
        // The balance stays unknown; a top-up tells what is wrong.
      }
      if (!stop.signal.aborted) setActor({ ...UNKNOWN, ...itself, candid, candidProblem, cycles });
    };
    void look();
    return () => stop.abort();
  }, [api, name, rights]);
  return actor;
}

const UNKNOWN = {
  status: '',
  live: false,
  dry: false,
  heapBytes: 0,
  stableBytes: 0,
  messages: 0,
  traps: 0,
  queued: 0,
  idleMs: 0,
  moduleHash: null,
  methods: [],
  isPartial: true,
} as const;

/** Returns an actor's messages, newest first; undefined while they are not known, or not shown. */
function useHistory(api: Api, name: string): readonly HistoryEntry[] | undefined {
  const rights = useRights();
  const lacking = rights.lackingFor('history', { name, id: name, principal: name });
  const [history, setHistory] = useState<readonly HistoryEntry[] | undefined>(undefined);
  useFollowing(lacking ?? '', {
    follow: async function* (signal) {
      while (lacking === undefined && !signal.aborted) {
        yield (await api.historyOf(name, signal)).toReversed();
        await new Promise((resolve) => setTimeout(resolve, HISTORY_PAUSE_MS));
      }
    },
    told: setHistory,
    failed: () => undefined,
  });
  return history;
}
