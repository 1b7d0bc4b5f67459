import { createHash, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { signed, signingKey } from './oidc-issuer.ts';

/** A login that was begun, by its code. */
interface Login {
  readonly user: string;
  readonly clientId: string;
  readonly redirect: string;
  readonly challenge: string;
  readonly audience: string;
}

/** A provider where users log in with a form, as pages without a secret use it: codes with PKCE. */
interface LoginIssuer {
  readonly url: string;
  /** Seconds that tokens are valid from now on. */
  tokenSecs: number;
}

/** Starts a provider that gives a code once, to the page and the verifier that asked for it. */
export async function startLoginIssuer(t: TestContext): Promise<LoginIssuer> {
  const key = signingKey('ES256', 'k');
  const logins = new Map<string, Login>();
  const issuer = { url: '', tokenSecs: 3600 };

  const tokenOf = (form: URLSearchParams): string | undefined => {
    const code = form.get('code') ?? '';
    const login = logins.get(code);
    logins.delete(code);
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const isSame = form.get('client_id') === login?.clientId && form.get('redirect_uri') === login?.redirect;
    if (login === undefined || !isSame || challenge !== login.challenge) return undefined;
    const exp = Math.floor(Date.now() / 1000) + issuer.tokenSecs;
    return signed(key, { iss: issuer.url, aud: login.audience, sub: login.user, exp }, { typ: 'at+jwt' });
  };
  const codeOf = (asked: URLSearchParams): string => {
    const code = randomBytes(16).toString('hex');
    const [user, clientId, redirect] = ['user', 'client_id', 'redirect_uri'].map((name) => asked.get(name) ?? '');
    const [challenge, audience] = ['code_challenge', 'resource'].map((name) => asked.get(name) ?? '');
    logins.set(code, { user, clientId, redirect, challenge, audience } as Login);
    return code;
  };

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? '', issuer.url);
    response.setHeader('access-control-allow-origin', '*');
    const json = (value: unknown, status = 200): void => void response.writeHead(status).end(JSON.stringify(value));
    if (pathname === '/keys') json({ keys: [key.jwk] });
    else if (pathname === '/.well-known/openid-configuration') {
      const { url } = issuer;
      const endpoints = { authorization_endpoint: `${url}/authorize`, token_endpoint: `${url}/token` };
      json({ issuer: url, jwks_uri: `${url}/keys`, ...endpoints });
    } else if (pathname === '/authorize') {
      response.setHeader('content-type', 'text/html');
      response.end(loginForm(searchParams));
    } else if (pathname === '/login') {
      const isRefused = searchParams.get('user') === 'nobody';
      const result = isRefused ? { error: 'access_denied' } : { code: codeOf(searchParams) };
      const back = new URLSearchParams({ ...result, state: searchParams.get('state') ?? '' });
      response.writeHead(302, { location: `${searchParams.get('redirect_uri')}?${back.toString()}` }).end();
    } else if (pathname === '/token') {
      const token = tokenOf(new URLSearchParams(await textOf(request)));
      if (token === undefined) json({ error: 'invalid_grant' }, 400);
      else json({ access_token: token, token_type: 'Bearer' });
    } else response.writeHead(404).end();
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  issuer.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return issuer;
}

function loginForm(asked: URLSearchParams): string {
  const hidden = [...asked].map(([name, value]) => `<input type="hidden" name="${name}" value="${value}">`).join('');
  return `<!doctype html><link rel="icon" href="data:,"><form action="/login">${hidden}<input name="user"><button>Go</button></form>`;
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
}
