import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type Actor, type Api, ApiError } from './api.ts';
import { inertText } from './inert-text.ts';
import { drawnLines, NO_OUTPUT, type Output, outputText, withOutput } from './output-lines.ts';
import { CopyButton, Failure } from './pieces.tsx';

const RECONNECT_MS = 1_000;
/** Output that arrives within this time is drawn at once. */
const DRAW_MS = 100;

/**
 * An actor's output. Nothing is taken from the server before the user asks for it: each line goes to one reader only.
 */
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
  const { output, clear, error, setError, takeOnce } = useOutput(actor, api, isStreaming, () => setStreaming(false));
  const lines = useMemo(() => drawnLines(output), [output]);
  return (
    <>
      <div class="row">
        <button
          type="button"
          class={isStreaming ? '' : 'primary'}
          onClick={() => {
            setError(undefined);
            setStreaming(!isStreaming);
          }}
        >
          {isStreaming ? 'Stop streaming' : 'Start streaming'}
        </button>
        {!isStreaming && (
          <button type="button" onClick={() => void takeOnce()}>
            Take what is there
          </button>
        )}
        <button type="button" class="quiet" disabled={lines.length === 0} onClick={clear}>
          Clear
        </button>
        {lines.length > 0 && <CopyButton text={() => outputText(output)} label="Copy all" />}
        {isStreaming && (
          <span class="streaming" role="status">
            streaming
          </span>
        )}
      </div>
      <p class="hint">
        A line goes to one reader only: what is shown here is gone from <code>/logs</code> and from other readers of{' '}
        <code>/events</code>.
      </p>
      {error !== undefined && <Failure error={error} />}
      <Log output={output} lines={lines} isStreaming={isStreaming} />
    </>
  );
}

/** Holds the output taken so far, and adds to it while `isStreaming`. Calls `ended` if the server ends the stream. */
function useOutput(actor: Actor, api: Api, isStreaming: boolean, ended: () => void) {
  const [output, setOutput] = useState(NO_OUTPUT);
  const [error, setError] = useState<unknown>(undefined);
  const waiting = useRef<string[]>([]);
  /** Id of the last streamed line: the server repeats the lines after it that were lost on the way. */
  const lastId = useRef('');

  const add = (texts: readonly string[]): void => {
    if (waiting.current.length === 0) {
      setTimeout(() => {
        const taken = waiting.current;
        waiting.current = [];
        setOutput((before) => withOutput(before, taken));
      }, DRAW_MS);
    }
    waiting.current.push(...texts);
  };

  useEffect(() => {
    if (!isStreaming) return undefined;
    const stop = new AbortController();
    void follow(api, actor.name, lastId, stop.signal, add, setError).then(() => {
      if (!stop.signal.aborted) ended();
    });
    return () => stop.abort();
  }, [isStreaming, actor.id, api]);

  const takeOnce = async (): Promise<void> => {
    try {
      add((await api.takeLogs(actor.name)).map(({ text }) => text));
      setError(undefined);
    } catch (failure) {
      setError(failure);
    }
  };
  return { output, clear: () => setOutput(NO_OUTPUT), error, setError, takeOnce };
}

/** The drawn lines; follows the newest one while the end is visible. */
function Log({
  output,
  lines,
  isStreaming,
}: {
  readonly output: Output;
  readonly lines: ReturnType<typeof drawnLines>;
  readonly isStreaming: boolean;
}) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    if (follows.current && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [output]);
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
      <Older output={output} drawn={lines.length} />
      {lines.map(({ key, text }) => (
        <div key={key} class="output-line">
          {inertText(text)}
        </div>
      ))}
      {lines.length === 0 && <p class="empty">{isStreaming ? 'Nothing printed so far.' : 'Nothing taken yet.'}</p>}
    </div>
  );
}

/** The number of lines that are not visible. */
function Older({ output, drawn }: { readonly output: Output; readonly drawn: number }) {
  const hidden = output.lines - drawn;
  if (hidden + output.lost === 0) return null;
  return (
    <p class="hint">
      {hidden > 0 && `${counted(hidden)} not shown: “Copy all” has them. `}
      {output.lost > 0 && `${counted(output.lost)} no longer kept.`}
    </p>
  );
}

function counted(lines: number): string {
  return lines === 1 ? '1 older line is' : `${lines.toLocaleString('en')} older lines are`;
}

/** Reads events until told to stop, and reconnects when the connection ends; returns when the server refuses. */
async function follow(
  api: Api,
  actor: string,
  lastId: { current: string },
  signal: AbortSignal,
  add: (lines: readonly string[]) => void,
  setError: (error: unknown) => void,
): Promise<void> {
  const opened = (): void => setError(undefined);
  while (!signal.aborted) {
    try {
      for await (const { id, type, data } of api.events(actor, lastId.current, { signal, opened })) {
        lastId.current = id;
        if (type === 'debug') add([data]);
      }
    } catch (failure) {
      if (signal.aborted) return;
      setError(failure);
      // A refusal is final; a broken connection is tried again.
      if (failure instanceof ApiError && failure.status !== 503) return;
    }
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
  }
}
