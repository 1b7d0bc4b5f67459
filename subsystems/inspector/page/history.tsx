import { useState } from 'preact/hooks';
import type { HistoryEntry } from './api.ts';
import { nameFields } from './candid/name-fields.ts';
import { durationText, groupedText, largeText, timeText } from './format.ts';
import { inertText, shortText } from './inert-text.ts';
import { Badge, type Tone } from './pieces.tsx';

export const TONES: Readonly<Record<string, Tone>> = {
  reply: 'good',
  reject: 'warn',
  trap: 'bad',
  limit: 'bad',
  out_of_cycles: 'bad',
};

interface HistoryProps {
  /** Messages, newest first; undefined while they are not known. */
  readonly history: readonly HistoryEntry[] | undefined;
  /** The interface's names for the ids in messages. */
  readonly names: ReadonlyMap<number, string>;
}

/** The last messages of an actor, newest first. */
export function HistoryTab({ history, names }: HistoryProps) {
  if (history === undefined) return <p class="empty">Asking for the history …</p>;
  if (history.length === 0) return <p class="empty">No messages yet, or none are recorded (--history 0).</p>;
  return <Entries names={names} entries={history} />;
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

function Entries({ names, entries }: Pick<HistoryProps, 'names'> & { readonly entries: readonly HistoryEntry[] }) {
  const [open, setOpen] = useState<number | undefined>(undefined);
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
              names={names}
              isOpen={entry.seq === open}
              toggle={() => setOpen(entry.seq === open ? undefined : entry.seq)}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Entry({
  entry,
  names,
  isOpen,
  toggle,
}: {
  readonly entry: HistoryEntry;
  readonly names: ReadonlyMap<number, string>;
  readonly isOpen: boolean;
  readonly toggle: () => void;
}) {
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
            <dl>
              <dt>Arguments</dt>
              <dd class="mono">{inertText(nameFields(entry.args, names))}</dd>
              {typeof entry.message === 'string' && entry.message !== '' && (
                <>
                  <dt>Message</dt>
                  <dd>{inertText(entry.message, { hasLines: true })}</dd>
                </>
              )}
              <dt>Caller</dt>
              <dd class="mono">{inertText(entry.caller)}</dd>
              <dt>Instructions</dt>
              <dd>{groupedText(String(entry.instructions))}</dd>
              <dt>Cycles</dt>
              <dd>{groupedText(String(entry.cycles))}</dd>
              <dt>Took</dt>
              <dd>{durationText(entry.ms)}</dd>
            </dl>
          </td>
        </tr>
      )}
    </>
  );
}
