import { useState } from 'preact/hooks';

/** Asks for the token. */
export function TokenGate({ isWrong, enter }: { readonly isWrong: boolean; readonly enter: (token: string) => void }) {
  const [token, setToken] = useState('');
  return (
    <main class="gate">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          // What a header cannot hold is no token; blanks at the ends come from copying.
          if (/^[\x21-\x7e]+$/.test(token.trim())) enter(token.trim());
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
          aria-invalid={isWrong}
          aria-describedby="token-note"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        {isWrong && (
          <p class="problem" role="alert">
            That is not the token of this server.
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
