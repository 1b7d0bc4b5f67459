import { type ErrorKind, ServerError } from '../../kernel/index.ts';
import { quotedName } from '../canisters/index.ts';
import type { Outcome } from '../ic/index.ts';

type Fault = Exclude<Outcome, { readonly kind: 'reply' }>;

/** Error kinds for websites of actors that did not answer themselves. */
const KIND_OF_FAULT = {
  reject: 'badWebsite',
  trap: 'badWebsite',
  limit: 'badWebsite',
  noReply: 'badWebsite',
  outOfCycles: 'outOfCycles',
  unavailable: 'unavailable',
} as const satisfies Record<Fault['kind'], ErrorKind>;

const WHAT_HAPPENED = {
  reject: 'rejected the request',
  trap: 'trapped',
  limit: 'trapped',
  noReply: 'did not reply',
} as const;

/** Returns the error for a fault; `called` is text like `blog.http_request`. */
export function siteFault(called: string, { kind, message }: Fault): ServerError {
  const text =
    kind === 'outOfCycles' || kind === 'unavailable' ? message : `${called} ${WHAT_HAPPENED[kind]}: ${message}`;
  return new ServerError(KIND_OF_FAULT[kind], 'website-failed', text);
}

/**
 * Returns the error for a missing actor, as visitors may see it: the reason of a rejected one contains lines of its
 * source and names of folders, and websites are public. Holders of the token get the reason on any other path.
 */
export function siteMissing(reference: string, error: unknown): ServerError {
  if (!(error instanceof ServerError)) throw error;
  if (error.code !== 'actor-rejected') return error;
  return new ServerError(
    error.kind,
    'actor-rejected',
    `actor ${reference} was rejected: the output of the server has the reason`,
    {
      cause: error,
    },
  );
}

/** Returns the error for an unknown actor. It tells visitors nothing of actors that they have not named. */
export function noSuchSite(reference: string): ServerError {
  return new ServerError('missing', 'actor-missing', `there is no actor ${quotedName(reference)}`);
}

/** Returns the error for a body that other code would have to go on with. */
export function codeReplaced(name: string): ServerError {
  return new ServerError('unavailable', 'website-failed', `actor ${name} has other code now: ask again`);
}

/**
 * Returns the error for a call that could not be made: a missing method, or one of the wrong kind, is the actor's
 * fault.
 */
export function siteRefusal(name: string, error: unknown): ServerError {
  if (!(error instanceof ServerError)) throw error;
  // The actor's damage was found only when it was to be woken.
  if (error.code === 'actor-rejected') return siteMissing(name, error);
  if (error.kind !== 'missing' && error.kind !== 'invalid') return error;
  return new ServerError('badWebsite', 'no-website', `actor ${name} serves no website here: ${error.message}`, {
    cause: error,
  });
}
