import { useEffect, useRef, useState } from 'preact/hooks';
import type { Actor, Api } from './api.ts';
import type { DidInterface } from './candid/did-types.ts';
import { ConfirmButton } from './confirm.tsx';
import { inertText, shortText } from './inert-text.ts';
import { Lack } from './lack.tsx';
import { changeOf, changeTells, type OpenableMethod, openableMethods, type OpenChoice } from './open-methods.ts';
import { Failure, Hint } from './pieces.tsx';
import { useLacking } from './use-rights.ts';

const FILTERED_METHODS_MIN = 12;
/** Methods that are drawn at once; code may have tens of thousands. */
const DRAWN_METHODS_MAX = 200;
/** Names that a sentence has. */
const TOLD_NAMES_MAX = 10;

interface OpenMethodsProps {
  readonly actor: Actor;
  readonly api: Api;
  readonly hasToken: boolean;
  /** The interface; undefined if none is known. */
  readonly types: DidInterface | undefined;
}

const NOTHING: OpenChoice = { told: [], changed: new Set() };

/** The methods that answer requests without the token, and a change of them. */
export function OpenMethodsPanel(props: OpenMethodsProps) {
  const lacks = useLacking(props.actor)('settings');
  return (
    <section class="panel" aria-label="Open methods">
      <h3>Open methods</h3>
      <Hint>
        Methods that answer without a token: so a website can call its actor on a server that has one.
        {!props.hasToken && ' This server has none: it answers everybody, and the list counts when it has one.'}
      </Hint>
      {lacks === undefined ? <Choice {...props} /> : <Lack scope={lacks} doing="see its open methods" />}
    </section>
  );
}

function Choice({ actor, api, types }: OpenMethodsProps) {
  const { choice, setChoice, closed, error } = useChoice(actor, api);
  const lacks = useLacking(actor)('configure');
  if (error !== undefined) return <Failure error={error} />;
  if (choice === undefined) return <Hint>Asking the server …</Hint>;
  const methods = openableMethods(actor, types?.methods);
  const change = changeOf(choice, methods);
  const gone = [...new Set([...closed, ...change.gone])];
  return (
    <>
      {gone.length > 0 && (
        <p class="notice" role="status">
          {listText(gone)} is gone: the code has no such method any more, so it cannot be open.
        </p>
      )}
      {methods.length === 0 ? (
        <Hint>There is no method that can be open.</Hint>
      ) : (
        <Methods methods={methods} choice={choice} setChoice={setChoice} />
      )}
      <ConfirmButton
        label="Save open methods"
        tells={changeTells(change, listText)}
        yes={change.opens.length > 0 ? 'Open them' : 'Close them'}
        isDangerous={change.opens.length > 0}
        isDisabled={change.opens.length + change.closes.length === 0}
        lacks={lacks}
        change={async () => {
          const told = await api.changeOpenMethods(actor.name, change.open);
          setChoice({ ...NOTHING, told });
          return told.length === 0 ? 'No method is open.' : `Open: ${listText(told)}.`;
        }}
      />
    </>
  );
}

/** Asks for the open methods, again when the code is another; what was ticked stays. */
function useChoice(
  actor: Actor,
  api: Api,
): {
  readonly choice: OpenChoice | undefined;
  readonly setChoice: (choice: OpenChoice) => void;
  /** Names that another code has closed while this was shown. */
  readonly closed: readonly string[];
  readonly error: unknown;
} {
  const [choice, setChoice] = useState<OpenChoice | undefined>(undefined);
  const [closed, setClosed] = useState<readonly string[]>([]);
  const [error, setError] = useState<unknown>(undefined);
  const latest = useRef(choice);
  latest.current = choice;
  useEffect(() => {
    const stop = new AbortController();
    const ask = async (): Promise<void> => {
      try {
        const told = await api.openMethods(actor.name, stop.signal);
        const { told: before, changed } = latest.current ?? NOTHING;
        setClosed(before.filter((name) => !told.includes(name)));
        setChoice({ told, changed });
        setError(undefined);
      } catch (failure) {
        if (!stop.signal.aborted) setError(failure);
      }
    };
    void ask();
    return () => stop.abort();
  }, [actor.id, actor.moduleHash, api]);
  return { choice, setChoice, closed, error };
}

function Methods({
  methods,
  choice: { told, changed },
  setChoice,
}: {
  readonly methods: readonly OpenableMethod[];
  readonly choice: OpenChoice;
  readonly setChoice: (choice: OpenChoice) => void;
}) {
  const [filter, setFilter] = useState('');
  const shown = methods.filter(({ name }) => name.toLowerCase().includes(filter.toLowerCase()));
  const toggle = (name: string): void => {
    const toggled = new Set(changed);
    if (!toggled.delete(name)) toggled.add(name);
    setChoice({ told, changed: toggled });
  };
  return (
    <>
      {methods.length >= FILTERED_METHODS_MIN && (
        <input
          type="search"
          aria-label="Filter the methods that can be open"
          placeholder={`Filter ${methods.length} methods`}
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      )}
      <ul class="openable" aria-label="Methods that can be open">
        {shown.slice(0, DRAWN_METHODS_MAX).map(({ name, kind }) => (
          <li key={name}>
            <label class="check" title={inertText(name)}>
              <input
                type="checkbox"
                checked={told.includes(name) !== changed.has(name)}
                onChange={() => toggle(name)}
              />
              <span class="mono">{inertText(shortText(name, 60))}</span>
              <span class={`kind ${kind}`}>{kind.replace('_', ' ')}</span>
            </label>
          </li>
        ))}
      </ul>
      {shown.length > DRAWN_METHODS_MAX && <Hint>and {shown.length - DRAWN_METHODS_MAX} more: filter by name</Hint>}
    </>
  );
}

function listText(names: readonly string[]): string {
  const first = names.slice(0, TOLD_NAMES_MAX).map((name) => inertText(shortText(name, 60)));
  return names.length > first.length ? `${first.join(', ')} and ${names.length - first.length} more` : first.join(', ');
}
