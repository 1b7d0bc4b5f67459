/**
 * Logs in at an OpenID Connect provider: authorization code flow with PKCE (RFC 7636), without a secret. The token is
 * kept in this page's memory alone; after a reload the provider, which knows its user, gives another one.
 */

/** Where the way to the provider keeps what the way back needs. */
const PENDING = 'login';

const settings = await fetched('config.json');

/** Goes to the provider; the browser comes back to this page with a code. */
export async function logIn() {
  const { authorization_endpoint: endpoint } = await metadata();
  const verifier = random();
  const state = random();
  sessionStorage.setItem(PENDING, JSON.stringify({ verifier, state }));
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier));
  location.assign(
    `${endpoint}?${new URLSearchParams({
      response_type: 'code',
      client_id: settings.clientId,
      redirect_uri: here(),
      scope: 'openid',
      // The server that the token is for (RFC 8707): it becomes `aud`.
      resource: settings.audience,
      state,
      code_challenge: base64Url(new Uint8Array(digest)),
      code_challenge_method: 'S256',
    })}`,
  );
}

/**
 * Returns the access token if the browser has just come back from the provider, else undefined. Throws Error if the
 * provider refused, or if nobody went there from this tab.
 */
export async function token() {
  const answer = new URLSearchParams(location.search);
  if (!answer.has('state')) return undefined;
  // A code counts once: neither a reload nor a bookmark is to bring it again.
  history.replaceState(null, '', here());
  const pending = JSON.parse(sessionStorage.getItem(PENDING));
  sessionStorage.removeItem(PENDING);
  if (pending === null || answer.get('state') !== pending.state) throw new Error('This login did not begin here.');
  if (answer.has('error')) throw new Error(answer.get('error_description') ?? answer.get('error'));
  const { token_endpoint: endpoint } = await metadata();
  const { access_token: accessToken } = await fetched(endpoint, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: settings.clientId,
      redirect_uri: here(),
      code: answer.get('code'),
      code_verifier: pending.verifier,
    }),
  });
  return accessToken;
}

function metadata() {
  return fetched(`${settings.issuer}/.well-known/openid-configuration`);
}

async function fetched(url, options) {
  const response = await fetch(url, options);
  if (!response.ok) throw new Error(`${url} answers ${response.status}.`);
  return response.json();
}

function here() {
  return location.origin + location.pathname;
}

function random() {
  return base64Url(crypto.getRandomValues(new Uint8Array(32)));
}

function base64Url(bytes) {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}
