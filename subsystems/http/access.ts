/**
 * The rights of a request to actors: everything with the token, what the scopes of a token open, or, without
 * `Authorization`, the open methods and no more of the host's room than what strangers have together.
 */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ServerError } from '../../kernel/index.ts';
import { type ActorScope, type Grant, scopeMissing } from '../auth/index.ts';
import type { Canister } from '../canisters/index.ts';
import { ANONYMOUS } from '../ic/index.ts';
import { openKey, scopedKey } from '../scheduler/index.ts';
import type { BodyBudget } from './body-budget.ts';
import { idempotencyKeyOf } from './idempotency-key.ts';
import { notOpen, openCanister } from './open-targets.ts';
import { GATEWAY_BYTES_MAX, GUARDED_BYTES_MAX } from './route-table.ts';
import type { RouteHost } from './route.ts';
import { covers, reached, reaches } from './scoped-requests.ts';
import { ServedResponse } from './served-response.ts';

const MIB = 1024 * 1024;
/** Characters that stand for a token's name in a key: 96 bits. */
const HOLDER_CHARACTERS = 16;
/** Grants that have got an access so far: each has a number. */
let grants = 0;

/** Bounds of live queries that are watched at once. */
export interface WatchBounds {
  /** Different ones. */
  readonly queriesMax: number;
  /** Answers that are kept for those that come later, all together. */
  readonly answerBytesMax: number;
  /** Queries of streams that show several, each counted for itself. */
  readonly listedMax: number;
}

/** A method as a request names it. */
interface Called {
  readonly actor: string;
  readonly method: string;
}

/** The rights of one kind of requests. */
export interface Access {
  readonly bodyBytesMax: number;
  /** Undefined: bodies are bounded one by one. */
  readonly bodies: BodyBudget | undefined;
  /** Different for different rights: live queries are shared only among the same. */
  readonly key: string;
  /** True if answers name their messages, by ids that count those of all. */
  readonly tellsMessages: boolean;
  /** Returns the caller. Throws ServerError `bad-caller`, or `caller-forbidden` where none may be claimed. */
  callerOf(request: IncomingMessage): Uint8Array;
  /** Returns the key that the client gives its call. Throws ServerError `idempotency-key-bad`. */
  keyOf(request: IncomingMessage): string | undefined;
  /** Returns the actor. Throws ServerError `missing`, or the one of a method that may not be called. */
  resolve(actor: string, method: string): Canister;
  /** Throws a ServerError if a stream may show none of these queries. */
  checkWatches(watches: readonly Called[]): void;
  /** Returns the error if the method may not be called any more. */
  refusal(canister: Canister, method: string): ServerError | undefined;
}

/** Returns the rights of whoever an answer is for. */
export type AccessOf = (response: ServerResponse) => Access;

export const WATCHES_WITH_TOKEN: WatchBounds = {
  queriesMax: 10_000,
  answerBytesMax: 256 * MIB,
  listedMax: Number.POSITIVE_INFINITY,
};
export const WATCHES_OF_STRANGERS: WatchBounds = { queriesMax: 1000, answerBytesMax: 25 * MIB, listedMax: 10_000 };

type AccessHost = Pick<RouteHost, 'canisters' | 'callers'>;

/** Returns the rights of requests that the router serves: everything, or what a token's scopes open. */
export function accessWithToken(host: AccessHost, scope: ActorScope): AccessOf {
  const whole = wholeAccess(host);
  const byGrant = new WeakMap<Grant, Access>();
  return (response) => {
    const grant = response instanceof ServedResponse ? response.grant : undefined;
    if (grant === undefined || grant.scopes.isWhole) return whole;
    let access = byGrant.get(grant);
    if (access === undefined) {
      access = scopedAccess(host, whole, grant, scope);
      byGrant.set(grant, access);
    }
    return access;
  };
}

/** Returns the rights of whoever has the token, and of everybody where none is needed. */
function wholeAccess({ canisters, callers }: AccessHost): Access {
  return {
    bodyBytesMax: GUARDED_BYTES_MAX,
    bodies: undefined,
    tellsMessages: true,
    key: '',
    callerOf: ({ headers }) => callers.callerOf(headers['x-caller']),
    keyOf: ({ headers }) => idempotencyKeyOf(headers['idempotency-key']),
    resolve: (actor) => canisters.resolve(actor),
    checkWatches: () => undefined,
    refusal: () => undefined,
  };
}

/**
 * Returns the rights of a token with scopes: the actors that they name, and idempotency keys of its own. Its caller
 * stands in the request since that was routed (scoped-requests.ts).
 */
function scopedAccess({ canisters }: AccessHost, whole: Access, grant: Grant, scope: ActorScope): Access {
  const holder = createHash('sha256').update(grant.name).digest('base64url').slice(0, HOLDER_CHARACTERS);
  const isReached = (actor: string): boolean => reaches(canisters, grant, scope, actor);
  return {
    ...whole,
    tellsMessages: false,
    key: String(++grants),
    keyOf(request) {
      const key = whole.keyOf(request);
      return key === undefined ? undefined : scopedKey(holder, key);
    },
    resolve(actor) {
      const canister = reached(canisters, grant, scope, actor);
      if (canister !== undefined) return canister;
      if (grant.scopes.hasEveryActor(scope)) return canisters.resolve(actor);
      throw scopeMissing(`${scope}:${actor}`);
    },
    checkWatches(watches) {
      const [first] = watches;
      if (first !== undefined && !watches.some(({ actor }) => isReached(actor)))
        throw scopeMissing(`${scope}:${first.actor}`);
    },
    refusal: (canister) => (grant.isOver || !covers(canisters, grant, scope, canister) ? notOpen() : undefined),
  };
}

/** Returns the rights of a request for an open method. `bodies`: the room that they share with websites' visitors. */
export function openAccess({ canisters }: AccessHost, bodies: BodyBudget): Access {
  return {
    bodyBytesMax: GATEWAY_BYTES_MAX,
    bodies,
    tellsMessages: false,
    key: '',
    callerOf({ headers }) {
      if (headers['x-caller'] === undefined) return ANONYMOUS;
      const text = 'header x-caller: without the token the caller is anonymous; leave it out, or send the token';
      throw new ServerError('forbidden', 'caller-forbidden', text);
    },
    keyOf({ headers }) {
      const key = idempotencyKeyOf(headers['idempotency-key']);
      return key === undefined ? undefined : openKey(key);
    },
    resolve(actor, method) {
      const canister = openCanister(canisters, actor, method);
      if (canister === undefined) throw notOpen();
      return canister;
    },
    checkWatches(watches) {
      if (!watches.some(({ actor, method }) => openCanister(canisters, actor, method) !== undefined)) throw notOpen();
    },
    refusal: ({ openMethods }, method) => (openMethods.names.has(method) ? undefined : notOpen()),
  };
}
