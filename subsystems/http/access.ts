/**
 * The rights of a request to actors: everything with the token, or, without `Authorization`, the open methods and no
 * more of the host's room than what strangers have together.
 */
import type { IncomingMessage } from 'node:http';
import { ServerError } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';
import { ANONYMOUS } from '../ic/index.ts';
import { openKey } from '../scheduler/index.ts';
import type { BodyBudget } from './body-budget.ts';
import { idempotencyKeyOf } from './idempotency-key.ts';
import { notOpen, openCanister } from './open-targets.ts';
import { GATEWAY_BYTES_MAX, GUARDED_BYTES_MAX } from './route-table.ts';
import type { RouteHost } from './route.ts';

const MIB = 1024 * 1024;

/** Bounds of live queries that are watched at once. */
interface WatchBounds {
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
  readonly watches: WatchBounds;
  /** True if answers name their messages, by ids that count those of all. */
  readonly tellsMessages: boolean;
  /** Returns the caller. Throws ServerError `bad-caller`, or `caller-forbidden` where none may be claimed. */
  callerOf(request: IncomingMessage): Uint8Array;
  /** Returns the key that the client gives its call. Throws ServerError `idempotency-key-bad`. */
  keyOf(request: IncomingMessage): string | undefined;
  /** Returns the actor. Throws ServerError `missing`, or `unauthenticated` if the method is not open. */
  resolve(actor: string, method: string): Canister;
  /** Returns true if a stream may show some of these queries. */
  mayWatchAny(watches: readonly Called[]): boolean;
  /** Returns false if the method is not open any more. */
  mayCall(canister: Canister, method: string): boolean;
}

type AccessHost = Pick<RouteHost, 'canisters' | 'callers'>;

/** Returns the rights of whoever has the token, and of everybody where none is needed. */
export function accessWithToken({ canisters, callers }: AccessHost): Access {
  return {
    bodyBytesMax: GUARDED_BYTES_MAX,
    bodies: undefined,
    tellsMessages: true,
    watches: { queriesMax: 10_000, answerBytesMax: 256 * MIB, listedMax: Number.POSITIVE_INFINITY },
    callerOf: ({ headers }) => callers.callerOf(headers['x-caller']),
    keyOf: ({ headers }) => idempotencyKeyOf(headers['idempotency-key']),
    resolve: (actor) => canisters.resolve(actor),
    mayWatchAny: () => true,
    mayCall: () => true,
  };
}

/** Returns the rights of a request for an open method. `bodies`: the room that they share with websites' visitors. */
export function openAccess({ canisters }: AccessHost, bodies: BodyBudget): Access {
  return {
    bodyBytesMax: GATEWAY_BYTES_MAX,
    bodies,
    tellsMessages: false,
    watches: { queriesMax: 1000, answerBytesMax: 25 * MIB, listedMax: 10_000 },
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
    mayWatchAny: (watches) => watches.some(({ actor, method }) => openCanister(canisters, actor, method) !== undefined),
    mayCall: ({ openMethods }, method) => openMethods.names.has(method),
  };
}
