import { type ErrorKind, ServerError } from '../../kernel/index.ts';
import { quotedName } from '../canisters/index.ts';
import type { Outcome } from '../ic/index.ts';

type Fault = Exclude<Outcome, { readonly kind: 'reply' }>;

/** What the website of an actor answers with that did not answer itself. */
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

/** `called`: `blog.http_request`. */
export function siteFault(called: string, { kind, message }: Fault): ServerError {
  const text =
    kind === 'outOfCycles' || kind === 'unavailable' ? message : `${called} ${WHAT_HAPPENED[kind]}: ${message}`;
  return new ServerError(KIND_OF_FAULT[kind], 'website-failed', text);
}

/**
 * Why there is no such actor, as visitors may know it: the reason of a rejected one has lines of its source and names of folders, and
 * websites are open. Whoever has the token asks any other path.
 */
export function siteMissing(reference: string, error: unknown): ServerError {
  if (!(error instanceof ServerError)) throw error;
  if (error.code !== 'actor-rejected') return error;
  return new ServerError(
    error.kind,
    'actor-rejected',
    `actor ${reference} was rejected: what the server has printed says why`,
    {
      cause: error,
    },
  );
}

/** Visitors are told nothing of actors that they have not named. */
export function noSuchSite(reference: string): ServerError {
  return new ServerError('missing', 'actor-missing', `there is no actor ${quotedName(reference)}`);
}

/** What kept the call from being made: a method that is not there, or of the wrong kind, is the actor's fault. */
export function siteRefusal(name: string, error: unknown): ServerError {
  if (!(error instanceof ServerError)) throw error;
  // Its damage was found only when it was to be woken.
  if (error.code === 'actor-rejected') return siteMissing(name, error);
  if (error.kind !== 'missing' && error.kind !== 'invalid') return error;
  return new ServerError('badWebsite', 'no-website', `actor ${name} serves no website here: ${error.message}`, {
    cause: error,
  });
}
