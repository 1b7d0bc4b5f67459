import { useEffect, useState } from 'preact/hooks';
import type { Actor, Api, CallAnswer, HistoryEntry } from './api.ts';
import { errorOf } from './api-errors.ts';
import { durationText, groupedText } from './format.ts';
import { inertText, shortText } from './inert-text.ts';
import { JsonView } from './json-view.tsx';
import { plainText } from './ansi.ts';
import type { PrintedLine } from './output-lines.ts';
import { Badge, Failure, Hint } from './pieces.tsx';

/** Pauses before a message is asked for again that is in no history yet: it may still wait for others. */
const PAUSES_MS = [200, 800, 2_000, 5_000];
/** Milliseconds between two drawings of the time that a call takes. */
const TICK_MS = 100;

/** Answer of a call, and beside it what the message did. */
export function Answer({
  answer,
  actor,
  api,
}: {
  readonly answer: CallAnswer;
  readonly actor: Actor;
  readonly api: Api;
}) {
  const effects = useEffects(answer, actor.name, api);
  const { status, text, ms, isHex = false } = answer;
  const isGood = status === 200;
  return (
    <section class="answer" role="status" aria-label="Result">
      <h4>
        <Badge tone={isGood ? 'good' : 'bad'} text={isGood ? 'Reply' : failureName(answer, effects.message, actor)} />
        <span class="hint">{durationText(ms)}</span>
      </h4>
      {isGood ? <JsonView text={text} label="Result" /> : <Failure error={new Error(errorOf(status, text).message)} />}
      {isGood && isHex && <Hint>{text.length / 2} bytes of Candid, in hex</Hint>}
      <Effects {...effects} />
      <Printed lines={effects.printed} />
    </section>
  );
}

interface EffectsState {
  /** The message itself; undefined while it is not known. */
  readonly message: HistoryEntry | undefined;
  /** Number of messages that it caused. */
  readonly caused: number;
  readonly note: string;
  /** Lines that it has printed, as far as they are kept. */
  readonly printed: readonly PrintedLine[];
}

const NO_EFFECTS: EffectsState = { message: undefined, caused: 0, note: '', printed: [] };

function useEffects({ messageId }: CallAnswer, actor: string, api: Api): EffectsState {
  const [state, setState] = useState(NO_EFFECTS);
  useEffect(() => {
    const stop = new AbortController();
    const look = async (id: string): Promise<void> => {
      for (const pauseMs of [0, ...PAUSES_MS]) {
        if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
        if (stop.signal.aborted) return;
        const messages = await api.messages(id, stop.signal);
        const message = messages?.find((entry) => entry.id === id);
        if (messages !== undefined && message !== undefined) {
          const printed = await api.printedBy(actor, id, stop.signal);
          return setState({ message, caused: messages.length - 1, note: '', printed });
        }
      }
      setState({ ...NO_EFFECTS, note: 'No history has the message yet: it still waits for others.' });
    };
    setState(NO_EFFECTS);
    if (messageId !== undefined) {
      look(messageId).catch(() => {
        if (!stop.signal.aborted) setState({ ...NO_EFFECTS, note: 'Its effects could not be asked for.' });
      });
    }
    return () => stop.abort();
  }, [messageId, api]);
  return state;
}

function Effects({ message, caused, note }: EffectsState) {
  if (message === undefined) return note === '' ? null : <Hint>{note}</Hint>;
  return (
    <dl class="effects" aria-label="Effects">
      <dt>Instructions</dt>
      <dd>{groupedText(String(message.instructions))}</dd>
      <dt>Cycles</dt>
      <dd>{groupedText(String(message.cycles))}</dd>
      <dt>In the actor</dt>
      <dd>{durationText(message.ms)}</dd>
      <dt>Caused</dt>
      <dd>{caused === 0 ? 'no other messages' : caused === 1 ? '1 message' : `${caused} messages`}</dd>
    </dl>
  );
}

const PRINTED_LINES_MAX = 200;
const PRINTED_CHARACTERS_MAX = 2_000;

/** The lines that a call has printed. */
function Printed({ lines }: { readonly lines: readonly PrintedLine[] }) {
  if (lines.length === 0) return null;
  const shown = lines.slice(-PRINTED_LINES_MAX);
  const hidden = lines.length - shown.length;
  return (
    <>
      <h5>Printed</h5>
      {hidden > 0 && <Hint>{hidden.toLocaleString('en')} older prints are in the output.</Hint>}
      <pre class="printed" tabIndex={0} aria-label="Printed">
        {shown
          .map(({ text }) => inertText(shortText(plainText(text), PRINTED_CHARACTERS_MAX), { hasLines: true }))
          .join('\n')}
      </pre>
    </>
  );
}

const OUTCOMES: Readonly<Record<string, string>> = {
  trap: 'Trap',
  limit: 'Instruction limit',
  out_of_cycles: 'Out of cycles',
};

/** Returns the name of what has happened: by the message where one was executed, else by the refusal. */
function failureName(
  { status, text }: CallAnswer,
  message: HistoryEntry | undefined,
  { status: state }: Actor,
): string {
  const { code } = codeIn(text);
  if (state !== 'running' && text.includes(` is ${state}`)) return `Actor is ${state}`;
  if (message !== undefined) return OUTCOMES[message.outcome] ?? `Reject, code ${message.code ?? code ?? '?'}`;
  if (status === 400 && code === 400) return 'Bad argument';
  if (status === 400 && code !== undefined && code >= 1 && code <= 6) return `Reject, code ${code}`;
  const kinds: Readonly<Record<number, string>> = {
    400: 'Refused',
    402: 'Out of cycles',
    403: 'Not allowed',
    404: 'Not found',
    413: 'Too large',
    500: 'No reply',
    503: 'Not now',
  };
  return kinds[status] ?? String(status);
}

function codeIn(text: string): { readonly code?: number } {
  try {
    const { code } = JSON.parse(text) as { code?: unknown };
    return typeof code === 'number' ? { code } : {};
  } catch {
    return {};
  }
}

/** The time since a call was sent. */
export function Elapsed({ startedMs }: { readonly startedMs: number }) {
  const [nowMs, setNow] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <span class="hint elapsed" role="timer">
      {durationText(Math.max(0, nowMs - startedMs))}
    </span>
  );
}
