import { useEffect, useState } from 'preact/hooks';
import type { Api, CallRequest } from './api.ts';
import { errorOf } from './api-errors.ts';
import { JsonView } from './json-view.tsx';
import { messageOf } from './messages.ts';
import { Badge, Failure } from './pieces.tsx';

/** Pause before a stream that broke is asked for again. */
const PAUSE_MS = 2_000;

/** State of a watched query, as its stream has told it. */
interface Watched {
  readonly text: string | undefined;
  readonly count: number;
  readonly note: string;
  readonly error: unknown;
  readonly isOver: boolean;
}

const UNKNOWN: Watched = { text: undefined, count: 0, note: 'waiting', error: undefined, isOver: false };

/** The newest result of a query, as long as this is on the screen; a stream that breaks is asked for again. */
export function LiveQuery({
  api,
  request,
  close,
}: {
  readonly api: Api;
  readonly request: CallRequest;
  readonly close: () => void;
}) {
  const [watched, setWatched] = useState(UNKNOWN);
  useEffect(() => {
    const stop = new AbortController();
    void follow(api, request, stop.signal, setWatched);
    return () => stop.abort();
  }, [api, request]);
  const { text, count, note, error, isOver } = watched;
  return (
    <section class="answer" aria-label="Live query">
      <h4>
        <Badge tone={isOver || error !== undefined ? 'bad' : 'good'} text={isOver ? 'ended' : `live: ${note}`} />
        <span class="hint" role="status">
          {count === 1 ? '1 answer' : `${count} answers`}
        </span>
        <span class="grow" />
        <button type="button" onClick={close}>
          Stop watching
        </button>
      </h4>
      {error !== undefined && <Failure error={error} />}
      {text !== undefined && <JsonView text={text} label="Live result" />}
    </section>
  );
}

async function follow(
  api: Api,
  request: CallRequest,
  signal: AbortSignal,
  set: (change: (before: Watched) => Watched) => void,
): Promise<void> {
  while (!signal.aborted) {
    try {
      for await (const { type, data } of api.watch(request, signal)) {
        if (type === 'end') return set((before) => ({ ...before, error: errorOf(404, data), isOver: true }));
        set((before) => after(before, type, data));
      }
      set((before) => ({ ...before, note: 'connecting again' }));
    } catch (failure) {
      if (signal.aborted) return;
      const isRefused = failure instanceof Error && failure.name === 'ApiError';
      set((before) => ({ ...before, note: messageOf(failure), error: isRefused ? failure : undefined }));
      if (isRefused) return set((before) => ({ ...before, isOver: true }));
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

function after(before: Watched, type: string, data: string): Watched {
  switch (type) {
    case 'message':
      return { text: data, count: before.count + 1, note: 'the newest answer', error: undefined, isOver: false };
    case 'upgrade':
      return { ...before, note: 'the code is another' };
    case 'unavailable':
      return { ...before, note: 'the server cannot answer now' };
    default:
      // `trap`, `reject`, `out_of_cycles`: the query is asked again after the next change.
      return { ...before, note: type.replaceAll('_', ' '), error: errorOf(400, data) };
  }
}
