import { useEffect, useState } from 'preact/hooks';
import type { Api } from './api.ts';
import { durationText, largeText } from './format.ts';
import { type TreeRow, treeOf } from './history-choice.ts';
import { TONES } from './history-tones.ts';
import { inertText, shortText } from './inert-text.ts';
import { messageOf } from './messages.ts';
import { Badge, Hint } from './pieces.tsx';
import { hashOf } from './place.ts';

const ROWS_MAX = 200;
/** Deeper rows are not indented further. */
const INDENTED_MAX = 12;

/** The tree of messages to which one belongs, over all actors: who called whom, how long, with how much work. */
export function MessageTree({ id, api }: { readonly id: string; readonly api: Api }) {
  const [rows, setRows] = useState<readonly TreeRow[] | undefined>(undefined);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  useEffect(() => {
    const stop = new AbortController();
    const ask = async (): Promise<void> => {
      try {
        setRows(treeOf((await api.messages(id, stop.signal)) ?? []));
      } catch (error) {
        if (!stop.signal.aborted) setProblem(messageOf(error));
      }
    };
    void ask();
    return () => stop.abort();
  }, [id, api]);
  if (problem !== undefined) return <Hint>{inertText(problem)}</Hint>;
  if (rows === undefined) return <Hint>Asking for the tree …</Hint>;
  if (rows.length < 2) return <Hint>Neither caused by another message nor the cause of one, as far as is known.</Hint>;
  return (
    <>
      <ul class="tree" aria-label="Tree of messages">
        {rows.slice(0, ROWS_MAX).map(({ message, depth }) => (
          <li key={message.id} style={{ paddingLeft: `${Math.min(depth, INDENTED_MAX) * 16}px` }}>
            <a
              class="mono"
              href={hashOf(message.name, 'history', message.id)}
              aria-current={message.id === id ? 'true' : undefined}
            >
              {inertText(shortText(message.name, 64))}.{inertText(shortText(message.method || message.kind, 60))}
            </a>
            <Badge tone={TONES[message.outcome] ?? 'none'} text={message.outcome.replaceAll('_', ' ')} />
            <span class="hint">
              {durationText(message.ms)}, {largeText(Number(message.instructions))} instructions
            </span>
          </li>
        ))}
      </ul>
      {rows.length > ROWS_MAX && <Hint>and {rows.length - ROWS_MAX} more</Hint>}
    </>
  );
}
