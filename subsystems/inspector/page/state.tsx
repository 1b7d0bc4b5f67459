import { useEffect, useRef, useState } from 'preact/hooks';
import type { Actor, Api } from './api.ts';
import { ApiError } from './api-errors.ts';
import { bytesText, groupedText } from './format.ts';
import { inertText, shortText } from './inert-text.ts';
import { JsonView } from './json-view.tsx';
import { CopyButton, Failure } from './pieces.tsx';
import { type Cut, type VariableList, type VariableValue, variableAt, variablesOf, waysTo } from './variables.ts';

/** Variables that are drawn at once; others are found by a part of their names. */
const ROWS_MAX = 200;
const TYPE_CHARACTERS_MAX = 160;
const SERVICE_UNAVAILABLE = 503;
const NOT_FOUND = 404;

interface StateProps {
  readonly actor: Actor;
  readonly api: Api;
}

/** Something that was asked for once, and is asked for again by a button. */
interface Asked<T> {
  readonly told?: T;
  readonly error?: unknown;
  readonly isBusy?: boolean;
}

/** The stable variables of an actor, read from a copy of its state: the actor itself is not asked. */
export function StateTab({ actor, api }: StateProps) {
  const [{ told, error, isBusy = false }, setAsked] = useState<Asked<VariableList>>({ isBusy: true });
  const [path, setPath] = useState<string | undefined>(undefined);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const ask = async (): Promise<void> => {
      setAsked((before) => ({ ...before, isBusy: true }));
      try {
        setAsked({ told: await variablesOf(api, actor.name, stop.signal) });
      } catch (failure) {
        if (!stop.signal.aborted) setAsked((before) => ({ ...before, error: failure, isBusy: false }));
      }
    };
    void ask();
    return () => stop.abort();
  }, [api, actor.name, turn]);
  const again = (): void => setTurn((before) => before + 1);
  return (
    <>
      <p class="hint">
        Read from a copy of the state on which the upgrade hook has run: the actor is neither called nor changed.
      </p>
      {error !== undefined && <Refusal error={error} isBusy={isBusy} again={again} />}
      {told === undefined && error === undefined && <p class="empty">Copying the state …</p>}
      {told !== undefined && (
        <>
          <Figures list={told} isBusy={isBusy} again={again} />
          <VariableTable list={told} show={setPath} />
        </>
      )}
      {path !== undefined && told?.decoded === true && (
        <ValueAt key={path} actor={actor} api={api} path={path} go={setPath} />
      )}
    </>
  );
}

/** Why there is nothing to see, and a button that asks again. */
function Refusal({
  error,
  isBusy,
  again,
}: {
  readonly error: unknown;
  readonly isBusy: boolean;
  readonly again: () => void;
}) {
  const isLater = error instanceof ApiError && error.status === SERVICE_UNAVAILABLE;
  return (
    <section class="flat" aria-label="No answer">
      <Failure error={error} />
      <div class="row">
        <button type="button" aria-disabled={isBusy} onClick={() => !isBusy && again()}>
          {isBusy ? 'Asking …' : 'Try again'}
        </button>
        {isLater && <span class="hint">The server has no room or time for the copy now; nothing was changed.</span>}
      </div>
    </section>
  );
}

function Figures({
  list,
  isBusy,
  again,
}: {
  readonly list: VariableList;
  readonly isBusy: boolean;
  readonly again: () => void;
}) {
  const { persistence, heapBytes, stableBytes, stableUsedBytes, certifiedData, decoded, reason } = list;
  return (
    <section class="panel">
      <h3>Memory</h3>
      <dl>
        <dt>Heap</dt>
        <dd>{bytesText(heapBytes)}</dd>
        <dt>Stable memory</dt>
        <dd>
          {bytesText(stableBytes)}
          {stableBytes > 0 && `, of which ${bytesText(stableUsedBytes)} are in use`}
        </dd>
        <dt>Certified data</dt>
        <dd class="mono">{certifiedData === '' ? 'none' : inertText(shortText(certifiedData, 80))}</dd>
        <dt>Persistence</dt>
        <dd>{inertText(persistence ?? 'not told by the module')}</dd>
      </dl>
      {!decoded && <p class="notice">{inertText(`Values are not decoded: ${reason ?? 'no reason was given'}`)}</p>}
      <div class="row">
        <button type="button" aria-disabled={isBusy} onClick={() => !isBusy && again()}>
          {isBusy ? 'Copying …' : 'Read again'}
        </button>
      </div>
    </section>
  );
}

function VariableTable({ list, show }: { readonly list: VariableList; readonly show: (path: string) => void }) {
  const [filter, setFilter] = useState('');
  const found = list.variables.filter(({ name }) => name.toLowerCase().includes(filter.toLowerCase()));
  const hidden = found.length - ROWS_MAX;
  if (list.variables.length === 0) {
    return (
      <p class="hint">There are no stable variables: transient ones, and those of other languages, are not told.</p>
    );
  }
  return (
    <section class="latest" aria-label="Stable variables">
      <h3>Stable variables</h3>
      {list.variables.length > 10 && (
        <input
          type="search"
          placeholder={`Filter ${list.variables.length} variables`}
          aria-label="Filter variables"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      )}
      <div class="scroll" tabIndex={0} role="group" aria-label="Table of stable variables">
        <table>
          <thead>
            <tr>
              <th>Name</th>
              <th>Type</th>
              <th class="number">Size</th>
              <th>Value</th>
            </tr>
          </thead>
          <tbody>
            {found.slice(0, ROWS_MAX).map(({ name, type, mutable, collection, size }) => (
              <tr key={name}>
                <td class="mono">{inertText(shortText(name, 120))}</td>
                <td class="mono" title={inertText(shortText(type, 4_000))}>
                  {mutable ? 'var ' : ''}
                  {inertText(shortText(type, TYPE_CHARACTERS_MAX))}
                  {collection !== null && <span class="kind">{inertText(collection)}</span>}
                </td>
                <td class="number">{size === null ? '–' : `${size.complete ? '' : '≥ '}${bytesText(size.bytes)}`}</td>
                <td>
                  <button
                    type="button"
                    class="quiet"
                    disabled={!list.decoded}
                    aria-label={`Show ${inertText(shortText(name, 120))}`}
                    onClick={() => show(name)}
                  >
                    Show
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found.length === 0 && <p class="hint">No variable has this part in its name.</p>}
      {hidden > 0 && <p class="hint">and {groupedText(String(hidden))} more: filter by name</p>}
      {list.more > 0 && <p class="hint">and {groupedText(String(list.more))} more, which the server does not tell</p>}
    </section>
  );
}

/** The value at a path, by parts that follow each other, with ways to its own parts and back. */
function ValueAt({
  actor,
  api,
  path,
  go,
}: StateProps & { readonly path: string; readonly go: (path: string | undefined) => void }) {
  const [typed, setTyped] = useState(path);
  const { asked, ask, note } = useValue(api, actor.name, path);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    input.current?.focus();
    input.current?.scrollIntoView({ block: 'nearest' });
  }, []);
  const { told, error, isBusy = false } = asked;
  return (
    <section class="panel" aria-label="Value">
      <h3>Value</h3>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          if (typed.trim() === path) ask(0, undefined);
          else go(typed.trim());
        }}
      >
        <label class="grow">
          <span class="offscreen">Path of the value</span>
          <input
            ref={input}
            class="mono"
            spellcheck={false}
            autocomplete="off"
            required
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
        <button type="submit" aria-disabled={isBusy}>
          {isBusy ? 'Reading …' : 'Read'}
        </button>
        <button type="button" onClick={() => go(undefined)}>
          Close
        </button>
      </form>
      <Ways path={path} go={go} />
      {error !== undefined && <Refusal error={error} isBusy={isBusy} again={() => ask(told?.from ?? 0, told?.copy)} />}
      <p class="hint" role="status">
        {note}
      </p>
      {told !== undefined && (
        <>
          <JsonView key={`${told.copy} ${told.from}`} text={told.json} label="Value of the variable" />
          <Pages value={told} isBusy={isBusy} turn={(from) => ask(from, told.copy)} />
          <Parts value={told} go={go} />
          <Cuts cuts={told.cuts} more={told.cutsMore} go={go} />
        </>
      )}
    </section>
  );
}

/** Asks for a value; pages of it come from the same copy as long as the server has that. */
function useValue(
  api: Api,
  actor: string,
  path: string,
): {
  readonly asked: Asked<VariableValue>;
  readonly ask: (from: number, copy: number | undefined) => void;
  readonly note: string;
} {
  const [asked, setAsked] = useState<Asked<VariableValue>>({ isBusy: true });
  const [note, setNote] = useState('');
  const stop = useRef<AbortController | undefined>(undefined);
  const read = async (from: number, copy: number | undefined): Promise<void> => {
    stop.current?.abort();
    const { signal } = (stop.current = new AbortController());
    setAsked((before) => ({ ...before, isBusy: true }));
    try {
      setAsked({ told: await readFromAnyCopy(from, copy, signal) });
    } catch (error) {
      if (!signal.aborted) setAsked((before) => ({ ...before, error, isBusy: false }));
    }
  };
  const readFromAnyCopy = async (from: number, copy: number | undefined, signal: AbortSignal) => {
    setNote('');
    try {
      return await variableAt(api, actor, { path, from, copy }, signal);
    } catch (error) {
      if (copy === undefined || !(error instanceof ApiError && error.status === NOT_FOUND)) throw error;
      const value = await variableAt(api, actor, { path, from, copy: undefined }, signal);
      setNote('The server has released the copy that the pages before came from: this one is from a newer copy.');
      return value;
    }
  };
  useEffect(() => {
    void read(0, undefined);
    return () => stop.current?.abort();
  }, [api, actor]);
  return { asked, ask: (from, copy) => void read(from, copy), note };
}

/** The parts around the value, each a button. */
function Ways({ path, go }: { readonly path: string; readonly go: (path: string) => void }) {
  const ways = waysTo(path).slice(0, -1).slice(-8);
  if (ways.length === 0) return null;
  return (
    <nav class="row" aria-label="Way to this value">
      {ways.map((way) => (
        <button key={way} type="button" class="quiet mono" onClick={() => go(way)}>
          {inertText(shortText(way, 60))}
        </button>
      ))}
    </nav>
  );
}

function Pages({
  value: { total, from, next, json },
  isBusy,
  turn,
}: {
  readonly value: VariableValue;
  readonly isBusy: boolean;
  readonly turn: (from: number) => void;
}) {
  /** Beginnings of the pages before this one. */
  const before = useRef<number[]>([]);
  if (total === null || from === null) return <CopyButton text={json} label="Copy value" />;
  const back = before.current.at(-1);
  const last = next ?? total;
  return (
    <div class="row">
      <button
        type="button"
        disabled={from === 0 && back === undefined}
        aria-disabled={isBusy}
        onClick={() => {
          if (isBusy) return;
          before.current.pop();
          turn(back ?? 0);
        }}
      >
        ← Before
      </button>
      <span>
        {total === 0 ? 'empty' : `${groupedText(String(from + 1))}–${groupedText(String(last))}`} of{' '}
        {groupedText(String(total))}
      </span>
      <button
        type="button"
        disabled={next === null}
        aria-disabled={isBusy}
        onClick={() => {
          if (isBusy || next === null) return;
          before.current.push(from);
          turn(next);
        }}
      >
        After →
      </button>
    </div>
  );
}

/** A choice among the parts of the value; it is a step only by the button, because arrow keys change a choice. */
function Parts({ value: { parts, path }, go }: { readonly value: VariableValue; readonly go: (path: string) => void }) {
  const [chosen, setChosen] = useState('');
  if (parts.length === 0) return null;
  const part = parts.includes(chosen) ? chosen : (parts[0] ?? path);
  return (
    <div class="row">
      <label class="row">
        <span class="hint">Part</span>
        <select value={part} onChange={(event) => setChosen(event.currentTarget.value)}>
          {parts.map((each) => (
            <option key={each} value={each}>
              {inertText(shortText(each.slice(path.length), 60))}
            </option>
          ))}
        </select>
      </label>
      <button type="button" onClick={() => go(part)}>
        Go into
      </button>
    </div>
  );
}

/** Places that had no room in the answer, each a way to it. */
function Cuts({
  cuts,
  more,
  go,
}: {
  readonly cuts: readonly Cut[];
  readonly more: number;
  readonly go: (path: string) => void;
}) {
  if (cuts.length === 0) return null;
  return (
    <div class="flat">
      <p class="hint">These parts had no room, and are shown as empty or null. Open one to see it:</p>
      <ul class="row" aria-label="Parts that were cut">
        {cuts.map(({ path, total }) => (
          <li key={path}>
            <button type="button" class="quiet mono" onClick={() => go(path)}>
              {inertText(shortText(path, 80))}
              {total !== null && ` (${groupedText(String(total))})`}
            </button>
          </li>
        ))}
      </ul>
      {more > 0 && <p class="hint">and {groupedText(String(more))} more</p>}
    </div>
  );
}
