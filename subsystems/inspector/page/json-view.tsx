import { useMemo, useState } from 'preact/hooks';
import { inertText } from './inert-text.ts';
import { type JsonToken, layoutJson } from './json-layout.ts';
import { CopyButton } from './pieces.tsx';

/** Longer texts are not laid out: it would take longer than a reader waits. */
const LAYOUT_CHARACTERS_MAX = 2_000_000;
/** Characters shown at first, and at most: browsers cannot handle more. */
const SHOWN_CHARACTERS = 20_000;
const SHOWN_CHARACTERS_MAX = 400_000;

/** JSON in lines and colours, or any other text unchanged. */
export function JsonView({ text, label }: { readonly text: string; readonly label: string }) {
  const [charactersMax, setMax] = useState(SHOWN_CHARACTERS);
  const tokens = useMemo(() => (text.length > LAYOUT_CHARACTERS_MAX ? undefined : layoutJson(text)), [text]);
  const all: readonly JsonToken[] = tokens ?? [{ kind: 'space', text }];
  const shown = firstOf(all, charactersMax);
  return (
    <div class="json">
      <pre tabIndex={0} aria-label={label}>
        {shown.tokens.map(({ kind, text: part }) =>
          kind === 'space' || kind === 'sign' ? (
            inertText(part, { hasLines: true })
          ) : (
            <span class={kind}>{inertText(part)}</span>
          ),
        )}
      </pre>
      <div class="row">
        <CopyButton text={text} label="Copy" name={`Copy ${label.toLowerCase()}`} />
        {shown.isCut && charactersMax < SHOWN_CHARACTERS_MAX && (
          <button type="button" class="quiet" onClick={() => setMax(SHOWN_CHARACTERS_MAX)}>
            Show more of {text.length.toLocaleString('en')} characters
          </button>
        )}
        {shown.isCut && charactersMax === SHOWN_CHARACTERS_MAX && (
          <span class="hint">
            The rest of {text.length.toLocaleString('en')} characters is not shown; copy has all.
          </span>
        )}
      </div>
    </div>
  );
}

function firstOf(
  tokens: readonly JsonToken[],
  charactersMax: number,
): { tokens: readonly JsonToken[]; isCut: boolean } {
  let left = charactersMax;
  const shown: JsonToken[] = [];
  for (const token of tokens) {
    if (token.text.length > left) {
      shown.push({ kind: token.kind, text: `${token.text.slice(0, left)}…` });
      return { tokens: shown, isCut: true };
    }
    left -= token.text.length;
    shown.push(token);
  }
  return { tokens: shown, isCut: false };
}
