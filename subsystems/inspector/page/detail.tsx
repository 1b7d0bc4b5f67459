import type { ComponentChildren, ComponentProps } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { useInterface } from './actor-interface.ts';
import { stateOf } from './actor-state.ts';
import type { Actor, Api, HistoryEntry } from './api.ts';
import type { CallDrafts } from './call-drafts.ts';
import { CallTab } from './call.tsx';
import type { DidInterface } from './candid/did-types.ts';
import { CodeTab } from './code.tsx';
import { HistoryTab } from './history.tsx';
import { inertText, shortText } from './inert-text.ts';
import { ManageTab } from './manage.tsx';
import { OutputTab } from './output.tsx';
import { Overview, type TopUpOutcome } from './overview.tsx';
import { Badge, CopyButton, type Tone } from './pieces.tsx';
import { hashOf, type Place, type Tab, TABS } from './place.ts';
import { Lack } from './lack.tsx';
import { useLacking } from './use-rights.ts';
import type { Samples } from './samples.ts';
import { StateTab } from './state.tsx';

const TAB_TITLES: Readonly<Record<Tab, string>> = {
  overview: 'Overview',
  call: 'Call',
  history: 'History',
  output: 'Output',
  state: 'State',
  manage: 'Manage',
  code: 'Code',
};

const STATE_TONES: Readonly<Record<string, Tone>> = { running: 'good', asleep: 'info', stopping: 'warn', dry: 'bad' };

const NO_NAMES: ReadonlyMap<number, string> = new Map();

interface DetailProps {
  readonly place: Place;
  readonly samples: Samples;
  /** Messages of the actor, newest first; undefined while they are not known. */
  readonly history: readonly HistoryEntry[] | undefined;
  readonly api: Api;
  readonly drafts: CallDrafts;
  readonly hasToken: boolean;
  readonly go: (hash: string) => void;
  readonly close: () => void;
}

interface OpenActorProps extends DetailProps {
  /** Name in the address. */
  readonly name: string;
  /** Undefined while it is loading, and if there is none. */
  readonly actor: Actor | undefined;
  readonly isLoading: boolean;
}

/** The open actor. */
export function Detail(props: OpenActorProps) {
  const { name, actor, isLoading, close } = props;
  if (actor === undefined) {
    return (
      <main class="detail nothing">
        <p>{isLoading ? 'Asking for the actor …' : `There is no actor ${inertText(shortText(name, 80))}.`}</p>
        <button type="button" onClick={close}>
          Back to the list
        </button>
      </main>
    );
  }
  return <ActorDetail {...props} actor={actor} key={actor.id} />;
}

function ActorDetail(props: DetailProps & { readonly actor: Actor }) {
  const { place, actor, samples, history, api, drafts, hasToken, go, close } = props;
  const { name } = actor;
  const known = useInterface(actor, api);
  const names = known.types?.fieldNames ?? NO_NAMES;
  const [topUp, setTopUp] = useState<TopUpOutcome>({});
  const [isStreaming, setStreaming] = useState(false);
  // Tabs hold filters, taken output and results of upgrades, so visited tabs are only hidden.
  const kept = useRef(new Set<Tab>());
  const method = useRef<string | undefined>(undefined);
  kept.current.add(place.tab);
  if (place.tab === 'call') method.current = place.method;
  const hashOfTab = (tab: Tab): string => hashOf(name, tab, tab === 'call' ? method.current : undefined);
  return (
    <main class="detail">
      <ActorHead actor={actor} close={close} />
      <Tabs name={name} open={place.tab} isStreaming={isStreaming} goTo={(tab) => go(hashOfTab(tab))} />
      {place.tab === 'overview' && (
        <Panel tab="overview" isOpen>
          <Overview
            actor={actor}
            samples={samples.of(actor.id)}
            api={api}
            names={names}
            history={history}
            topUp={{ outcome: topUp, setOutcome: setTopUp }}
          />
        </Panel>
      )}
      {kept.current.has('call') && (
        <Panel tab="call" isOpen={place.tab === 'call'}>
          <CallTab
            actor={actor}
            api={api}
            known={known}
            drafts={drafts}
            hasToken={hasToken}
            method={method.current}
            shared={place.shared}
            choose={(chosen) => go(hashOf(name, 'call', chosen))}
            go={go}
          />
        </Panel>
      )}
      {place.tab === 'history' && (
        <Panel tab="history" isOpen>
          <ShownHistory types={known.types} message={place.method} {...{ actor, api, history, names }} />
        </Panel>
      )}
      {kept.current.has('output') && (
        <Panel tab="output" isOpen={place.tab === 'output'}>
          <ShownOutput actor={actor} api={api} isStreaming={isStreaming} setStreaming={setStreaming} />
        </Panel>
      )}
      <FreshTab tab={place.tab} types={known.types} {...{ actor, api, hasToken, close }} />
      {kept.current.has('code') && (
        <Panel tab="code" isOpen={place.tab === 'code'}>
          <CodeTab actor={actor} api={api} />
        </Panel>
      )}
    </main>
  );
}

/** The history, unless the token shows neither it nor the host. */
function ShownHistory(props: ComponentProps<typeof HistoryTab>) {
  const { actor } = props;
  const lacks = useLacking(actor)('history');
  if (actor.isPartial === true && lacks !== undefined) return <Lack scope={lacks} doing="read its messages" />;
  return <HistoryTab {...props} />;
}

function ShownOutput(props: ComponentProps<typeof OutputTab>) {
  const lacks = useLacking(props.actor)('logs');
  return lacks === undefined ? <OutputTab {...props} /> : <Lack scope={lacks} doing="read what it prints" />;
}

/** A part that asks the server anew each time it is opened. */
function FreshTab({
  tab,
  actor,
  types,
  api,
  hasToken,
  close,
}: Pick<DetailProps, 'api' | 'hasToken' | 'close'> & {
  readonly tab: Tab;
  readonly actor: Actor;
  readonly types: DidInterface | undefined;
}) {
  const lacks = useLacking(actor)('variables');
  if (tab !== 'state' && tab !== 'manage') return null;
  return (
    <Panel tab={tab} isOpen>
      {tab === 'manage' ? (
        <ManageTab actor={actor} api={api} gone={close} hasToken={hasToken} types={types} />
      ) : lacks === undefined ? (
        <StateTab actor={actor} api={api} />
      ) : (
        <Lack scope={lacks} doing="read its state" />
      )}
    </Panel>
  );
}

function ActorHead({ actor, close }: { readonly actor: Actor; readonly close: () => void }) {
  const state = stateOf(actor);
  return (
    <header class="actor-head">
      <button type="button" class="quiet back" onClick={close} aria-label="Back to the list">
        ←
      </button>
      <h2>{inertText(shortText(actor.name, 80))}</h2>
      {actor.isPartial !== true && (
        <>
          <Badge tone={STATE_TONES[state] ?? 'none'} text={state} />
          <span class="ids">
            <span class="mono">{inertText(actor.principal)}</span>
            <CopyButton text={actor.principal} label="Copy" name="Copy principal" />
            <span class="hex">
              <span class="mono">{inertText(actor.id)}</span>
              <CopyButton text={actor.id} label="Copy" name="Copy id" />
            </span>
          </span>
        </>
      )}
    </header>
  );
}

function Tabs({
  name,
  open,
  isStreaming,
  goTo,
}: {
  readonly name: string;
  readonly open: Tab;
  readonly isStreaming: boolean;
  readonly goTo: (tab: Tab) => void;
}) {
  return (
    <div
      class="tabs"
      role="tablist"
      aria-label={`Parts of ${inertText(shortText(name, 80))}`}
      onKeyDown={(event) => {
        const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
        // Starts from the focused tab: the address may lag behind when keys follow each other fast.
        const at = TABS.findIndex((tab) => document.activeElement?.id === `tab-${tab}`);
        const next = TABS[(at + step + TABS.length) % TABS.length];
        if (step === 0 || next === undefined) return;
        goTo(next);
        document.getElementById(`tab-${next}`)?.focus();
      }}
    >
      {TABS.map((tab) => (
        <button
          key={tab}
          type="button"
          role="tab"
          id={`tab-${tab}`}
          aria-selected={tab === open}
          aria-controls={`panel-${tab}`}
          tabIndex={tab === open ? 0 : -1}
          onClick={() => goTo(tab)}
        >
          {TAB_TITLES[tab]}
          {tab === 'output' && isStreaming && <span class="live" role="img" aria-label="streaming" />}
        </button>
      ))}
    </div>
  );
}

function Panel({
  tab,
  isOpen,
  children,
}: {
  readonly tab: Tab;
  readonly isOpen: boolean;
  readonly children: ComponentChildren;
}) {
  return (
    <div class="tab-panel" role="tabpanel" id={`panel-${tab}`} aria-labelledby={`tab-${tab}`} hidden={!isOpen}>
      {children}
    </div>
  );
}
