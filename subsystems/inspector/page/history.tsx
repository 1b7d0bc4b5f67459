import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Actor, Api, HistoryEntry } from './api.ts';
import { callAgain } from './call-again.ts';
import type { DidInterface } from './candid/did-types.ts';
import { nameFields } from './candid/name-fields.ts';
import { durationText, groupedText, largeText, timeText } from './format.ts';
import { ALL_MESSAGES, chosenOf, type HistoryChoice, optionsOf } from './history-choice.ts';
import { TONES } from './history-tones.ts';
import { inertText, shortText } from './inert-text.ts';
import { MessageTree } from './message-tree.tsx';
import { Badge } from './pieces.tsx';
import { hashOf } from './place.ts';
import { type NameOf, useCallerNames } from './use-caller-names.ts';
import { useRights } from './use-rights.ts';

interface HistoryProps {
  /** Messages, newest first; undefined while they are not known. */
  readonly history: readonly HistoryEntry[] | undefined;
  /** The interface's names for the ids in messages. */
  readonly names: ReadonlyMap<number, string>;
}

interface HistoryTabProps extends HistoryProps {
  readonly actor: Actor;
  readonly api: Api;
  /** The interface; undefined if none is known. */
  readonly types: DidInterface | undefined;
  /** Id of the message that the address names. */
  readonly message: string | undefined;
}

/** The last messages of an actor, newest first, chosen by method, outcome and caller. */
export function HistoryTab(props: HistoryTabProps) {
  const { history, api, message } = props;
  const [choice, setChoice] = useState(ALL_MESSAGES);
  const nameOf = useCallerNames(history ?? [], api);
  if (history === undefined) return <p class="empty">Asking for the history …</p>;
  if (history.length === 0) return <p class="empty">No messages yet, or none are recorded (--history 0).</p>;
  const chosen = chosenOf(history, choice);
  const isGone = message !== undefined && history.every(({ id }) => id !== message);
  return (
    <>
      <Choice history={history} choice={choice} setChoice={setChoice} nameOf={nameOf} />
      {isGone && (
        <p class="notice">The history does not have the message {inertText(shortText(message, 60))} any more.</p>
      )}
      {chosen.length === 0 ? (
        <p class="empty">No message is like that.</p>
      ) : (
        <Entries {...props} entries={chosen} nameOf={nameOf} />
      )}
    </>
  );
}

const LABELS = { method: 'Method', outcome: 'Outcome', caller: 'Caller' } as const;
const KINDS = ['method', 'outcome', 'caller'] as const;

function Choice({
  history,
  choice,
  setChoice,
  nameOf,
}: {
  readonly history: readonly HistoryEntry[];
  readonly choice: HistoryChoice;
  readonly setChoice: (choice: HistoryChoice) => void;
  readonly nameOf: NameOf;
}) {
  const options = optionsOf(history, choice);
  const textOf = (kind: keyof HistoryChoice, option: string): string => {
    const text =
      kind === 'caller' ? (nameOf(option) ?? option) : kind === 'outcome' ? option.replaceAll('_', ' ') : option;
    return inertText(shortText(text, 60));
  };
  return (
    <div class="row choice">
      {KINDS.map((kind) => (
        <label key={kind}>
          <span class="hint">{LABELS[kind]}</span>{' '}
          <select
            value={choice[kind]}
            onChange={(event) => setChoice({ ...choice, [kind]: event.currentTarget.value })}
          >
            <option value="">all</option>
            {options[kind].map((option) => (
              <option key={option} value={option}>
                {textOf(kind, option)}
              </option>
            ))}
          </select>
        </label>
      ))}
    </div>
  );
}

const LATEST_MAX = 6;

/** The newest of these messages, if there are any. */
export function LatestMessages({ history = [], names }: HistoryProps) {
  if (history.length === 0) return null;
  return (
    <section class="latest">
      <h3>Latest messages</h3>
      <Entries names={names} entries={history.slice(0, LATEST_MAX)} />
    </section>
  );
}

interface EntriesProps extends Pick<HistoryProps, 'names'>, Partial<Omit<HistoryTabProps, 'names' | 'history'>> {
  readonly entries: readonly HistoryEntry[];
  readonly nameOf?: NameOf;
}

function Entries({ entries, message, ...rest }: EntriesProps) {
  const [open, setOpen] = useState<string | undefined>(message);
  useEffect(() => setOpen(message), [message]);
  return (
    <div class="scroll">
      <table class="history">
        <thead>
          <tr>
            <th>Time</th>
            <th>Method</th>
            <th>Outcome</th>
            <th class="number">Instructions</th>
            <th class="number">Cycles</th>
            <th class="number">Took</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <Entry
              key={entry.seq}
              entry={entry}
              {...rest}
              isOpen={entry.id === open}
              toggle={() => setOpen(entry.id === open ? undefined : entry.id)}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface EntryProps extends Omit<EntriesProps, 'entries' | 'message'> {
  readonly entry: HistoryEntry;
  readonly isOpen: boolean;
  readonly toggle: () => void;
}

function Entry({ isOpen, toggle, ...rest }: EntryProps) {
  const { entry } = rest;
  return (
    <>
      <tr class="entry" onClick={toggle}>
        <td>
          <button
            type="button"
            class="quiet disclosure"
            aria-expanded={isOpen}
            onClick={(event) => {
              event.stopPropagation();
              toggle();
            }}
          >
            {timeText(entry.time, Date.now()) ?? inertText(shortText(entry.time, 40))}
          </button>
        </td>
        <td class="mono">
          {inertText(shortText(entry.method, 60))} <span class="kind">{inertText(entry.kind)}</span>
        </td>
        <td>
          <Badge tone={TONES[entry.outcome] ?? 'none'} text={entry.outcome.replaceAll('_', ' ')} />
        </td>
        <td class="number">{largeText(Number(entry.instructions))}</td>
        <td class="number">{largeText(Number(entry.cycles))}</td>
        <td class="number">{durationText(entry.ms)}</td>
      </tr>
      {isOpen && (
        <tr class="details">
          <td colSpan={6}>
            <Details {...rest} />
          </td>
        </tr>
      )}
    </>
  );
}

/** A message in all its parts, and where it comes from and leads to. */
function Details({ entry, names, nameOf, actor, api, types }: Omit<EntryProps, 'isOpen' | 'toggle'>) {
  const mayInspect = useRights().lacking('inspect') === undefined;
  const caller = nameOf?.(entry.caller);
  return (
    <>
      <dl>
        <dt>Arguments</dt>
        <dd class="mono">{inertText(nameFields(entry.args, names))}</dd>
        {typeof entry.reply === 'string' && (
          <>
            <dt>Reply</dt>
            <dd class="mono">{inertText(nameFields(entry.reply, names))}</dd>
          </>
        )}
        {typeof entry.message === 'string' && entry.message !== '' && (
          <>
            <dt>Message</dt>
            <dd>{inertText(entry.message, { hasLines: true })}</dd>
          </>
        )}
        {entry.stack?.length && (
          <>
            <dt>Stack</dt>
            <dd class="mono">{inertText(entry.stack.join('\n'), { hasLines: true })}</dd>
          </>
        )}
        <dt>Caller</dt>
        <dd class="mono">
          {caller !== undefined && (
            <a href={hashOf(caller, 'history', entry.cause ?? undefined)}>{inertText(shortText(caller, 64))}</a>
          )}{' '}
          {inertText(entry.caller)}
        </dd>
        <dt>Instructions</dt>
        <dd>{groupedText(String(entry.instructions))}</dd>
        <dt>Cycles</dt>
        <dd>{groupedText(String(entry.cycles))}</dd>
        <dt>Took</dt>
        <dd>{durationText(entry.ms)}</dd>
      </dl>
      {actor !== undefined && <RunAgain entry={entry} actor={actor.name} types={types} />}
      {actor !== undefined && api !== undefined && mayInspect && <MessageTree key={entry.id} id={entry.id} api={api} />}
    </>
  );
}

/** A link to the form of the method, filled in as the message was called; it calls nothing by itself. */
function RunAgain({
  entry,
  actor,
  types,
}: {
  readonly entry: HistoryEntry;
  readonly actor: string;
  readonly types: DidInterface | undefined;
}) {
  const { claims } = useRights();
  const again = useMemo(() => callAgain(entry, types), [entry.id, types]);
  if (again === undefined) return null;
  if ('problem' in again) return <p class="hint">It cannot be run again from here: {inertText(again.problem)}.</p>;
  const { args, caller } = again;
  const shared = { args, ...(claims && caller !== undefined && { caller }) };
  return (
    <p>
      <a class="button" href={hashOf(actor, 'call', entry.method, shared)}>
        Run again …
      </a>
    </p>
  );
}
