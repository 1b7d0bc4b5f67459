import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { styledPieces } from './ansi.ts';
import type { Actor, Api } from './api.ts';
import { ApiError } from './api-errors.ts';
import { timeText } from './format.ts';
import { inertText } from './inert-text.ts';
import {
  type DrawnOutput,
  drawnLines,
  type Gap,
  type Output,
  outputAfter,
  outputText,
  type PrintedLine,
  withOutput,
} from './output-lines.ts';
import { CopyButton, Failure } from './pieces.tsx';
import { recall, remember } from './storage.ts';

const RECONNECT_MS = 1_000;
/** Output that arrives within this time is drawn at once. */
const DRAW_MS = 100;
/** Behind it the id of an actor: the line up to which its output was cleared in this tab. */
const CLEARED_KEY = 'svc-inspector-cleared ';

/** An actor's output, which is read without being taken from anybody: it comes as soon as the part is open. */
export function OutputTab({
  actor,
  api,
  isStreaming,
  setStreaming,
}: {
  readonly actor: Actor;
  readonly api: Api;
  readonly isStreaming: boolean;
  readonly setStreaming: (isStreaming: boolean) => void;
}) {
  const { output, clear, error, retry } = useOutput(actor, api, setStreaming);
  const [search, setSearch] = useState('');
  /** Output that is drawn while the reader has stopped the drawing; undefined: all that there is. */
  const [paused, setPaused] = useState<Output | undefined>(undefined);
  const shown = paused ?? output;
  const drawn = useMemo(() => drawnLines(shown, search), [shown, search]);
  const waiting = paused === undefined ? 0 : output.lines + output.lost - paused.lines - paused.lost;
  return (
    <>
      <div class="row">
        <input
          type="search"
          class="output-search"
          aria-label="Search the output"
          placeholder="Search"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <button
          type="button"
          aria-pressed={paused !== undefined}
          onClick={() => setPaused(paused === undefined ? output : undefined)}
        >
          {paused === undefined ? 'Pause' : `Go on (${waiting.toLocaleString('en')} new)`}
        </button>
        <button
          type="button"
          class="quiet"
          disabled={output.lines === 0}
          onClick={() => {
            clear();
            setPaused(undefined);
          }}
        >
          Clear
        </button>
        {output.lines > 0 && <CopyButton text={() => outputText(output)} label="Copy all" />}
        {isStreaming && (
          <span class="streaming" role="status">
            streaming
          </span>
        )}
      </div>
      {error !== undefined && (
        <>
          <Failure error={error} />
          {retry !== undefined && (
            <button type="button" onClick={retry}>
              Try again
            </button>
          )}
        </>
      )}
      <Log output={shown} drawn={drawn} search={search} />
    </>
  );
}

/** Holds the output as far as it is kept, and adds to it. */
function useOutput(actor: Actor, api: Api, setStreaming: (isStreaming: boolean) => void) {
  const clearedKey = CLEARED_KEY + actor.id;
  const [output, setOutput] = useState(() => outputAfter(recall('sessionStorage', clearedKey) ?? ''));
  const [error, setError] = useState<unknown>(undefined);
  const [isRefused, setRefused] = useState(false);
  const waiting = useRef<PrintedLine[]>([]);
  /** Id of the last line that came: the server tells those behind it. */
  const last = useRef(output.last);

  const add = (line: PrintedLine): void => {
    last.current = line.id;
    if (waiting.current.length === 0) {
      setTimeout(() => {
        const taken = waiting.current;
        waiting.current = [];
        setOutput((before) => withOutput(before, taken));
      }, DRAW_MS);
    }
    waiting.current.push(line);
  };

  useEffect(() => {
    if (isRefused) return undefined;
    const stop = new AbortController();
    const told = { add, setError, setStreaming };
    void follow(api, actor.name, last, stop.signal, told).then(() => {
      if (!stop.signal.aborted) setRefused(true);
    });
    return () => stop.abort();
  }, [isRefused, actor.id, api]);

  const clear = (): void => {
    waiting.current = [];
    remember('sessionStorage', clearedKey, last.current);
    setOutput(outputAfter(last.current));
  };
  const retry = (): void => {
    setError(undefined);
    setRefused(false);
  };
  return { output, clear, error, retry: isRefused ? retry : undefined };
}

/** The drawn lines; follows the newest one while the end is visible. */
function Log({
  output,
  drawn,
  search,
}: {
  readonly output: Output;
  readonly drawn: DrawnOutput;
  readonly search: string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    if (follows.current && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [drawn]);
  const { lines, found } = drawn;
  return (
    <div
      ref={box}
      class="output"
      role="log"
      aria-label="Debug output"
      tabIndex={0}
      onScroll={(event) => {
        const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
        follows.current = scrollHeight - scrollTop - clientHeight < 40;
      }}
    >
      <Older output={output} hidden={(search === '' ? output.lines : found) - lines.length} />
      {lines.map(({ key, text, time, gap }) => (
        <div key={key}>
          {gap !== 0 && search === '' && <Missing gap={gap} />}
          <div class="output-line">
            <time class="output-time" dateTime={time}>
              {time === '' ? '' : (timeText(time, Date.now()) ?? '')}
            </time>
            <span class="output-text">
              {styledPieces(text).map((piece, at) => (
                <span key={at} class={piece.style}>
                  {inertText(piece.text)}
                </span>
              ))}
            </span>
          </div>
        </div>
      ))}
      {lines.length === 0 && (
        <p class="empty">{output.lines === 0 ? 'Nothing printed so far.' : 'No line has what is searched.'}</p>
      )}
    </div>
  );
}

/** Tells what is missing in front of a line. */
function Missing({ gap }: { readonly gap: Gap }) {
  const told =
    gap === 'restart'
      ? 'The server was started again: lines may be missing here.'
      : `${counted(gap, 'line')} missing here: the server no longer has ${gap === 1 ? 'it' : 'them'}.`;
  return <p class="hint output-gap">{told}</p>;
}

/** The number of lines that are not visible. */
function Older({ output, hidden }: { readonly output: Output; readonly hidden: number }) {
  if (hidden + output.lost === 0) return null;
  return (
    <p class="hint">
      {hidden > 0 && `${counted(hidden, 'older line')} not shown: “Copy all” has them. `}
      {output.lost > 0 && `${counted(output.lost, 'older line')} no longer kept.`}
    </p>
  );
}

function counted(lines: number, noun: string): string {
  return lines === 1 ? `1 ${noun} is` : `${lines.toLocaleString('en')} ${noun}s are`;
}

interface Follower {
  readonly add: (line: PrintedLine) => void;
  readonly setError: (error: unknown) => void;
  readonly setStreaming: (isStreaming: boolean) => void;
}

/** Reads lines until told to stop, and reconnects when the connection ends; returns when the server refuses. */
async function follow(
  api: Api,
  actor: string,
  last: { readonly current: string },
  signal: AbortSignal,
  { add, setError, setStreaming }: Follower,
): Promise<void> {
  const opened = (): void => {
    setError(undefined);
    setStreaming(true);
  };
  try {
    while (!signal.aborted) {
      try {
        for await (const { type, data } of api.output(actor, last.current, { signal, opened })) {
          if (type === 'debug') add(JSON.parse(data) as PrintedLine);
          else if (type === 'deleted') return setError(new Error('The actor was deleted.'));
        }
      } catch (failure) {
        if (signal.aborted) return;
        setError(failure);
        // A refusal is final; a broken connection is tried again.
        if (failure instanceof ApiError && failure.status !== 503) return;
      }
      setStreaming(false);
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
    }
  } finally {
    setStreaming(false);
  }
}
