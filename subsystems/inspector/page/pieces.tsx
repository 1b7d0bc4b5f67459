/** Small parts used by the whole page. */
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from './api-errors.ts';
import { inertText } from './inert-text.ts';
import { messageOf } from './messages.ts';

type CopyState = { readonly kind: 'idle' | 'copied' } | { readonly kind: 'by-hand'; readonly text: string };

/**
 * Copies the text, and confirms it for a moment. The clipboard needs a secure context, which http to another machine is
 * not: there the text is shown, selected, for the reader to copy. `name` describes the text if `label` does not.
 */
export function CopyButton({
  text,
  label,
  name = label,
}: {
  /** Text to copy; a function may return undefined if there is nothing to copy. */
  readonly text: string | (() => string | undefined);
  readonly label: string;
  readonly name?: string;
}) {
  const [state, setState] = useState<CopyState>({ kind: 'idle' });
  useEffect(() => {
    if (state.kind !== 'copied') return undefined;
    const timer = setTimeout(() => setState({ kind: 'idle' }), 1500);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async (): Promise<void> => {
    const written = typeof text === 'string' ? text : text();
    if (written === undefined) return;
    try {
      if (!isSecureContext) throw new Error('there is no clipboard');
      await navigator.clipboard.writeText(written);
      setState({ kind: 'copied' });
    } catch {
      setState({ kind: 'by-hand', text: written });
    }
  };
  if (state.kind === 'by-hand') return <ByHand text={state.text} close={() => setState({ kind: 'idle' })} />;
  const isCopied = state.kind === 'copied';
  return (
    <button
      type="button"
      class="quiet"
      aria-live="polite"
      aria-label={isCopied ? 'Copied' : name}
      onClick={() => void copy()}
    >
      {isCopied ? 'Copied' : label}
    </button>
  );
}

function ByHand({ text, close }: { readonly text: string; readonly close: () => void }) {
  const area = useRef<HTMLTextAreaElement>(null);
  // Selects once only: the user may select a part of it.
  useLayoutEffect(() => area.current?.select(), []);
  return (
    <textarea ref={area} class="mono" readOnly rows={3} aria-label="Copy this by hand" value={text} onBlur={close} />
  );
}

/** The error in the server's words, with the lines that a failed hook printed. */
export function Failure({ error }: { readonly error: unknown }) {
  const logs = error instanceof ApiError ? error.logs : [];
  return (
    <div class="failure" role="alert">
      <p>{inertText(messageOf(error), { hasLines: true })}</p>
      {logs.length > 0 && <pre>{logs.map((line) => inertText(line)).join('\n')}</pre>}
    </div>
  );
}

export function Hint({ children }: { readonly children: ComponentChildren }) {
  return <p class="hint">{children}</p>;
}

export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'none';

export function Badge({ tone, text }: { readonly tone: Tone; readonly text: string }) {
  return <span class={`badge ${tone}`}>{inertText(text)}</span>;
}
