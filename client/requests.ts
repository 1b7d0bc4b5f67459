/** Requests to one server: the token, what a status means, and which tries are repeated. */
import { bytesOf } from './answer.ts';
import {
  AbortedError,
  AnswerError,
  BadArgumentError,
  errorOf,
  NetworkError,
  type Place,
  readRefusal,
  reasonOf,
  type SvcError,
  UnauthorizedError,
  UnavailableError,
} from './errors.ts';
import { sleep, waitMs } from './waiting.ts';

/** The server's token, or a function that gives it: asked before each try, so it may be another one each time. */
export type Token = string | (() => string | undefined | Promise<string | undefined>);

/** Which server, and who asks. */
export interface Connection {
  /** URL in front of `/call-json`, without a slash at its end. */
  readonly base: string;
  readonly token: Token | undefined;
  readonly fetch: typeof fetch;
  readonly maxBytes: number;
}

interface Repetition {
  /** Number of times that a request is sent at most. */
  readonly tries: number;
  /** Milliseconds after which a call ends, with all its tries. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
}

interface Sent extends Repetition {
  readonly path: string;
  readonly body: string | Uint8Array;
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** True if it does no harm to send it again. */
  readonly isRepeatable: boolean;
  readonly place: Place;
}

/** An answer that is no success, and when the server wants to be asked again. */
interface Failure {
  readonly error: SvcError;
  readonly retryAfter: string | null;
}

/** Returns the token as of now. Throws UnauthorizedError where the function that gives it fails. */
export async function tokenOf(token: Token | undefined, place: Place): Promise<string | undefined> {
  if (typeof token !== 'function') return token;
  try {
    return await token();
  } catch (cause) {
    throw new UnauthorizedError(`the token function failed: ${reasonOf(cause)}`, {
      code: 0,
      status: 0,
      ...place,
      cause,
    });
  }
}

/** Returns the headers of a request. Throws BadArgumentError where a value is none that HTTP has. */
export function headersWith(
  token: string | undefined,
  headers: Readonly<Record<string, string | undefined>>,
  place: Place,
): Headers {
  const found = new Headers();
  const all = { ...headers, authorization: token === undefined ? undefined : `Bearer ${token}` };
  for (const [name, value] of Object.entries(all)) {
    try {
      if (value !== undefined) found.set(name, value);
    } catch {
      // The value is a secret, perhaps.
      throw new BadArgumentError(`the value for the header ${name} is none that HTTP has`, {
        code: 400,
        status: 0,
        ...place,
      });
    }
  }
  return found;
}

/**
 * Returns true if the server has started: before, it may not know yet what is open to all, so that its 401 means
 * nothing. A proxy that does not let the question through counts as a server that has.
 */
export async function hasStarted(
  { base, fetch: ask }: Pick<Connection, 'base' | 'fetch'>,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const response = await ask(`${base}/health/ready`, { signal, cache: 'no-store', redirect: 'manual' });
    await response.body?.cancel();
    return response.status < 500;
  } catch {
    return false;
  }
}

/**
 * Throws AnswerError at a redirection: it would lead the token elsewhere, or make a GET of a call. Browsers show it as
 * status 0.
 */
export function refuseRedirection(response: Response, place: Place): void {
  const { status } = response;
  if (status !== 0 && (status < 300 || status >= 400)) return;
  const to = response.headers.get('location');
  throw new AnswerError(`the server redirects${to === null ? '' : ` to ${to}`}: name that address as url`, {
    code: status,
    status,
    ...place,
  });
}

/** Sends a request until it is answered, refused for good, aborted, or tried often enough; returns the body. */
export async function send(connection: Connection, sent: Sent): Promise<Uint8Array> {
  const { signal, deadlineMs, tries, isRepeatable } = sent;
  const control = new AbortController();
  const abort = (): void => control.abort();
  const timer = setTimeout(abort, deadlineMs);
  signal?.addEventListener('abort', abort);
  if (signal?.aborted === true) abort();
  let last: SvcError | undefined;
  try {
    let isAsking = false;
    for (let failures = 1; ;) {
      const outcome = control.signal.aborted ? undefined : await attempt(connection, sent, control.signal);
      if (outcome instanceof Uint8Array) return outcome;
      if (outcome === undefined || control.signal.aborted) throw abortedError(sent, last);
      const { error, retryAfter } = outcome;
      last = error;
      if (error instanceof UnauthorizedError && error.status === 401) {
        // The server may have started between its 401 and the question, and a token may be another one by now.
        if (await hasStarted(connection, control.signal)) {
          if (isAsking) throw error;
          isAsking = true;
          continue;
        }
        await sleep(waitMs(2), control.signal);
        continue;
      }
      if (!isRepeatable || !isPassing(error) || failures >= tries) throw error;
      await sleep(waitMs(failures, retryAfter), control.signal);
      failures++;
    }
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
}

/** Returns true for what may be gone at the next try. */
export function isPassing(error: SvcError): boolean {
  return error instanceof NetworkError || error instanceof UnavailableError;
}

async function attempt(connection: Connection, sent: Sent, signal: AbortSignal): Promise<Uint8Array | Failure> {
  const { place, path, body } = sent;
  const headers = headersWith(await tokenOf(connection.token, place), sent.headers, place);
  try {
    const response = await connection.fetch(connection.base + path, {
      method: 'POST',
      headers,
      body: body as string,
      signal,
      cache: 'no-store',
      redirect: 'manual',
    });
    refuseRedirection(response, place);
    const bytes = await bytesOf(response, connection.maxBytes, place);
    if (response.ok) return bytes;
    const refusal = readRefusal(response.status, new TextDecoder().decode(bytes));
    return { error: errorOf(refusal, place), retryAfter: response.headers.get('retry-after') };
  } catch (error) {
    if (error instanceof AnswerError) return { error, retryAfter: null };
    const facts = { code: 0, status: 0, ...place, cause: error };
    return { error: new NetworkError(`no answer came: ${reasonOf(error)}`, facts), retryAfter: null };
  }
}

function abortedError({ signal, deadlineMs, place }: Sent, last: SvcError | undefined): AbortedError {
  const isOwn = signal?.aborted !== true;
  const message = isOwn ? `no answer within ${deadlineMs} ms` : 'the call was aborted';
  const facts = { code: 0, status: 0, ...place };
  if (!isOwn) return new AbortedError(message, { ...facts, cause: signal.reason as unknown });
  return new AbortedError(last === undefined ? message : `${message}; last: ${last.message}`, {
    ...facts,
    cause: last,
  });
}
