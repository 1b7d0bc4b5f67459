import { useState } from 'preact/hooks';

/** Tokens that the server accepts (`config/load.ts`): blanks inside are allowed. */
const TOKEN = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
const NO_TOKEN = 'A token has visible ASCII characters, and blanks between them: this is none.';

/** Asks for the token. */
export function TokenGate({ isWrong, enter }: { readonly isWrong: boolean; readonly enter: (token: string) => void }) {
  const [token, setToken] = useState('');
  const [isMalformed, setMalformed] = useState(false);
  const problem = isMalformed ? NO_TOKEN : isWrong ? 'That is not the token of this server.' : undefined;
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
        <label for="token">This server asks for its bearer token.</label>
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
          Open
        </button>
        <p class="hint" id="token-note">
          It is kept for this tab alone and sent to this server alone.
        </p>
      </form>
    </main>
  );
}
