import { useState } from 'preact/hooks';
import { inertText, shortText } from './inert-text.ts';

/** Tokens that the server accepts (`config/load.ts`): blanks inside are allowed. */
const TOKEN = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
const NO_TOKEN = 'A token has visible ASCII characters, and blanks between them: this is none.';

/** The server's answer to a token that it does not know. */
const UNKNOWN = 'missing or wrong bearer token';

/** Returns a sentence for the server's reason to refuse a token. */
export function refusalText(reason: string): string {
  if (reason === UNKNOWN) return 'This server knows no such token.';
  return `The server refuses this token: ${inertText(shortText(reason, 200))}.`;
}

interface TokenGateProps {
  /** Sentence about the token that was shown last; empty: there was none. */
  readonly problem: string;
  readonly enter: (token: string) => void;
}

/** Asks for the token. */
export function TokenGate({ problem: refusal, enter }: TokenGateProps) {
  const [token, setToken] = useState('');
  const [isMalformed, setMalformed] = useState(false);
  const problem = isMalformed ? NO_TOKEN : refusal === '' ? undefined : refusal;
  return (
    <main class="gate">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          // Blanks at the ends come from copying.
          const entered = token.trim();
          setMalformed(!TOKEN.test(entered));
          if (TOKEN.test(entered)) enter(entered);
        }}
      >
        <h1>svc inspector</h1>
        <label for="token">This server asks for a bearer token.</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          autofocus
          required
          aria-invalid={problem !== undefined}
          aria-describedby="token-note"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        {problem !== undefined && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" class="primary">
          Log in
        </button>
        <p class="hint" id="token-note">
          The server's own, one with scopes, or an issuer's JWT. It is kept for this tab alone and sent to this server
          alone.
        </p>
      </form>
    </main>
  );
}
