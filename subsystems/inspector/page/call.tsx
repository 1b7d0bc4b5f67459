import { useMemo, useRef, useState } from 'preact/hooks';
import type { ActorInterface } from './actor-interface.ts';
import type { Actor, Api } from './api.ts';
import type { CallDrafts } from './call-drafts.ts';
import { type CallableMethod, callableMethods } from './callable-methods.ts';
import type { DidInterface } from './candid/did-types.ts';
import { structureOf } from './candid/structure.ts';
import { useRedraw } from './hooks.ts';
import { inertText, shortText } from './inert-text.ts';
import { MethodCall } from './method-call.tsx';
import { hashOf, type SharedCall } from './place.ts';
import type { SavedCall } from './saved-calls.ts';
import { SavedCalls } from './saved-calls-list.tsx';
import { Lack } from './lack.tsx';
import { useLacking } from './use-rights.ts';

const SEARCHED_METHODS_MIN = 12;
/** Methods that are listed at once; an interface may have tens of thousands. */
const LISTED_METHODS_MAX = 200;

interface CallTabProps {
  readonly actor: Actor;
  readonly api: Api;
  readonly known: ActorInterface;
  readonly drafts: CallDrafts;
  readonly hasToken: boolean;
  readonly method: string | undefined;
  /** Call that the address brings. */
  readonly shared: SharedCall | undefined;
  readonly choose: (method: string) => void;
  readonly go: (hash: string) => void;
}

/** The methods of an actor, and the form of the chosen one. */
export function CallTab({
  actor,
  api,
  known: { types, problem, isLoading },
  drafts,
  hasToken,
  method,
  shared,
  choose,
  go,
}: CallTabProps) {
  const redraw = useRedraw();
  const lacksDescribe = useLacking(actor)('describe');
  const { methods, isNamed } = useMethods(actor, types, method);
  const chosen = methods.find(({ name }) => name === method) ?? methods[0];
  const key = useMemo(() => (chosen === undefined ? '' : draftKey(actor, chosen)), [actor.id, chosen]);
  const text = shared === undefined || chosen?.name !== method ? '' : JSON.stringify([key, shared]);
  const taken = useRef('');
  /** Address that is taken once more: what was typed since makes way for what was saved. */
  const again = useRef('');
  const isAgain = again.current !== '' && again.current === hashOf(actor.name, 'call', method, shared);
  if (!isLoading && chosen !== undefined && shared !== undefined && (isAgain || text !== taken.current)) {
    taken.current = text;
    again.current = '';
    const parameters = chosen.described?.parameters;
    if (text !== '') drafts.of(key, parameters).take(shared, parameters ?? []);
  }
  const open = (saved: SavedCall): void => {
    again.current = hashOf(saved.actor, 'call', saved.method, saved.shared);
    go(again.current);
    redraw();
  };
  if (isLoading) return <p class="empty">Asking for the interface …</p>;
  return (
    <>
      {lacksDescribe !== undefined && !isNamed && (
        <Lack scope={lacksDescribe} doing="read its types, so methods are called with lossless JSON" />
      )}
      {problem !== undefined && (
        <p class="notice">
          The interface was not understood, so methods are called with lossless JSON: {inertText(problem)}
        </p>
      )}
      <div class="call">
        <div class="methods">
          {isNamed ? (
            <MethodName choose={choose} scope={lacksDescribe} />
          ) : (
            <MethodList methods={methods} chosen={chosen} choose={choose} />
          )}
          <SavedCalls actor={actor.name} open={open} />
        </div>
        {chosen === undefined ? (
          <p class="empty">{isNamed ? 'Type the name of a method.' : 'This actor has no methods.'}</p>
        ) : (
          <MethodCall
            key={key}
            actor={actor}
            api={api}
            hasToken={hasToken}
            method={chosen}
            draft={drafts.of(key, chosen.described?.parameters)}
          />
        )}
      </div>
    </>
  );
}

/** Returns the methods; where the token shows none, the one whose name somebody has typed. */
function useMethods(
  actor: Actor,
  types: DidInterface | undefined,
  method: string | undefined,
): { readonly methods: readonly CallableMethod[]; readonly isNamed: boolean } {
  const kind = useLacking(actor)('call') === undefined ? 'update' : 'query';
  const listed = useMemo(() => callableMethods(actor, types?.methods ?? []), [types, actor.moduleHash]);
  const isNamed = actor.isPartial === true && listed.length === 0;
  const methods = useMemo(
    () => (isNamed && method !== undefined ? [{ name: method, kind, described: undefined }] : listed),
    [listed, isNamed, method, kind],
  );
  return { methods, isNamed };
}

/** A field for the name of a method, where there is no list of them. */
function MethodName({
  scope,
  choose,
}: {
  readonly scope: string | undefined;
  readonly choose: (method: string) => void;
}) {
  const [name, setName] = useState('');
  return (
    <form
      class="named"
      onSubmit={(event) => {
        event.preventDefault();
        if (name.trim() !== '') choose(name.trim());
      }}
    >
      <input
        aria-label="Name of a method"
        placeholder="Name of a method"
        spellcheck={false}
        autocomplete="off"
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
      />
      <button type="submit">Choose</button>
      {scope !== undefined && <Lack scope={scope} doing="see its methods" />}
    </form>
  );
}

function MethodList({
  methods,
  chosen,
  choose,
}: {
  readonly methods: readonly CallableMethod[];
  readonly chosen: CallableMethod | undefined;
  readonly choose: (method: string) => void;
}) {
  const [filter, setFilter] = useState('');
  const shown = methods.filter(({ name }) => name.toLowerCase().includes(filter.toLowerCase()));
  return (
    <>
      {methods.length >= SEARCHED_METHODS_MIN && (
        <input
          type="search"
          placeholder={`Filter ${methods.length} methods`}
          aria-label="Filter methods"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      )}
      <ul aria-label="Methods">
        {shown.slice(0, LISTED_METHODS_MAX).map(({ name, kind }) => (
          <li key={name}>
            <button
              type="button"
              class="method"
              aria-current={name === chosen?.name ? 'true' : undefined}
              onClick={() => choose(name)}
            >
              <span class="name" title={inertText(name)}>
                {inertText(shortText(name, 80))}
              </span>
              <span class={`kind ${kind}`}>{kind.replace('_', ' ')}</span>
            </button>
          </li>
        ))}
      </ul>
      {shown.length > LISTED_METHODS_MAX && (
        <p class="hint">and {shown.length - LISTED_METHODS_MAX} more: filter by name</p>
      )}
    </>
  );
}

/**
 * Returns the key of a method's draft. Input is kept as long as it fits, even if the actor's code changes without
 * changing the method's types.
 */
function draftKey(actor: Actor, { name, described }: CallableMethod): string {
  const types = described?.parameters.map(({ type }) => type);
  return JSON.stringify([actor.id, name, types === undefined ? null : structureOf(types)]);
}
