/** Small parts that all of the page uses. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ApiError } from './api.ts';
import { inertText } from './inert-text.ts';
import { messageOf } from './messages.ts';

/**
 * Copies the text, and says so for a moment. The clipboard needs a secure context, which http to another machine is not:
 * there the text is shown, selected, for the reader to copy.
 */
export function CopyButton({ text, label }: { readonly text: string | (() => string); readonly label: string }) {
  const [state, setState] = useState<'idle' | 'copied' | 'by-hand'>('idle');
  useEffect(() => {
    if (state !== 'copied') return undefined;
    const timer = setTimeout(() => setState('idle'), 1500);
    return () => clearTimeout(timer);
  }, [state]);
  const written = (): string => (typeof text === 'string' ? text : text());
  const copy = async (): Promise<void> => {
    try {
      if (!isSecureContext) throw new Error('there is no clipboard');
      await navigator.clipboard.writeText(written());
      setState('copied');
    } catch {
      setState('by-hand');
    }
  };
  if (state === 'by-hand') {
    return (
      <textarea
        class="mono"
        readOnly
        rows={3}
        aria-label="Copy this by hand"
        value={written()}
        ref={(area) => area?.select()}
        onBlur={() => setState('idle')}
      />
    );
  }
  return (
    <button type="button" class="quiet" aria-live="polite" onClick={() => void copy()}>
      {state === 'copied' ? 'Copied' : label}
    </button>
  );
}

/** What went wrong, in the server's words, with what a failed hook printed. */
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
