import { inertText, shortText } from './inert-text.ts';

/** The reason why something is not there, or cannot be chosen. */
export function Lack({ scope, doing }: { readonly scope: string; readonly doing: string }) {
  return (
    <p class="notice">
      This token may not {doing}. It lacks the scope <code>{inertText(shortText(scope, 100))}</code>: ask whoever runs
      the server for it.
    </p>
  );
}

/** The same in short, beside what is disabled; nothing where nothing is lacking. */
export function LackHint({ scope }: { readonly scope: string | undefined }) {
  if (scope === undefined) return null;
  return (
    <span class="hint">
      lacks <code>{inertText(shortText(scope, 100))}</code>
    </span>
  );
}
