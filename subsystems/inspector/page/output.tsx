import { useEffect, useRef, useState } from 'preact/hooks';
import { type Actor, type Api, ApiError } from './api.ts';
import { inertText } from './inert-text.ts';
import { type OutputLine, withOutput } from './output-lines.ts';
import { CopyButton, Failure } from './pieces.tsx';

const RECONNECT_MS = 1_000;
/** What comes within this time is drawn at once. */
const DRAW_MS = 100;

/** What an actor prints. Nothing is taken from the server before somebody asks for it: a line goes to one reader only. */
export function OutputTab({ actor, api }: { readonly actor: Actor; readonly api: Api }) {
  const [lines, setLines] = useState<readonly OutputLine[]>([]);
  const [isStreaming, setStreaming] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const waiting = useRef<string[]>([]);
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);

  const add = (texts: readonly string[]): void => {
    if (waiting.current.length === 0) {
      setTimeout(() => {
        const taken = waiting.current;
        waiting.current = [];
        setLines((before) => withOutput(before, taken));
      }, DRAW_MS);
    }
    waiting.current.push(...texts);
  };

  useEffect(() => {
    if (!isStreaming) return undefined;
    const stop = new AbortController();
    void follow(api, actor.name, stop.signal, add, setError).then(() => {
      if (!stop.signal.aborted) setStreaming(false);
    });
    return () => stop.abort();
  }, [isStreaming, actor.id, api]);

  useEffect(() => {
    if (follows.current && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);

  const takeOnce = async (): Promise<void> => {
    try {
      add((await api.takeLogs(actor.name)).map(({ text }) => text));
      setError(undefined);
    } catch (failure) {
      setError(failure);
    }
  };

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
        <button type="button" class="quiet" disabled={lines.length === 0} onClick={() => setLines([])}>
          Clear
        </button>
        {lines.length > 0 && <CopyButton text={() => lines.map(({ text }) => text).join('\n')} label="Copy all" />}
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
        {lines.map(({ key, text }) => (
          <div key={key} class="output-line">
            {inertText(text)}
          </div>
        ))}
        {lines.length === 0 && <p class="empty">{isStreaming ? 'Nothing printed so far.' : 'Nothing taken yet.'}</p>}
      </div>
    </>
  );
}

/** Reads events until it is told to stop, connecting anew when the connection ends; returns when the server refuses. */
async function follow(
  api: Api,
  actor: string,
  signal: AbortSignal,
  add: (lines: readonly string[]) => void,
  setError: (error: unknown) => void,
): Promise<void> {
  let lastId = '';
  const opened = (): void => setError(undefined);
  while (!signal.aborted) {
    try {
      for await (const { id, type, data } of api.events(actor, lastId, { signal, opened })) {
        lastId = id;
        if (type === 'debug') add(data.split('\n'));
      }
    } catch (failure) {
      if (signal.aborted) return;
      setError(failure);
      // What was refused stays refused; what only broke is tried again.
      if (failure instanceof ApiError && failure.status !== 503) return;
    }
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
  }
}
