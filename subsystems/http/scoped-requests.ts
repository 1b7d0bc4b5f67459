/**
 * Requests with a token that has scopes. The router has read the target by then, once; what is checked here is what the
 * handler gets. An actor is compared by its identity, however it is written, and one that does not exist is refused
 * like one that is in no scope, so nobody learns by trying which there are.
 */
import type { IncomingMessage } from 'node:http';
import { ServerError } from '../../kernel/index.ts';
import { type ActorScope, type Grant, isHostScope, scopeMissing } from '../auth/index.ts';
import type { Canister } from '../canisters/index.ts';
import { principalToText } from '../ic/index.ts';
import { readablePathOf, type RouteSpec } from './route-table.ts';
import type { RouteParameters, ServedCanisters } from './route.ts';
import type { ServedResponse } from './served-response.ts';

type ScopedCanisters = Pick<ServedCanisters, 'resolveIfAny'>;

/**
 * Throws ServerError `scope-missing` unless the grant opens the route for what the path names, and
 * `caller-forbidden` for a caller other than the grant's. From then on the request claims that caller.
 */
export function admitScoped(
  canisters: ScopedCanisters,
  spec: RouteSpec,
  parameters: RouteParameters,
  request: IncomingMessage,
  grant: Grant,
): void {
  if (spec.access !== 'token' || grant.scopes.isWhole) return;
  const { scope, alsoScope } = spec;
  if (scope === undefined)
    throw scopeMissing(`* (${spec.method} ${readablePathOf(spec.path)} has no scope of its own)`);
  claimCaller(request, grant);
  if (scope === 'any') return;
  if (isHostScope(scope)) {
    if (!grant.scopes.hasHost(scope)) throw scopeMissing(scope);
  } else if (spec.path.includes('/:name')) refuseNewActor(canisters, grant, scope, parameters.name);
  else if (spec.path.includes('/:actor') && !reaches(canisters, grant, scope, parameters.actor))
    throw scopeMissing(`${scope}:${parameters.actor}`);
  if (alsoScope !== undefined && !reaches(canisters, grant, alsoScope, parameters.actor))
    throw scopeMissing(`${alsoScope}:${parameters.actor}`);
  // The queries of a list are looked at one by one, each with its actor.
}

/** Returns true if the grant has the scope for the actor that the text means. */
export function reaches(canisters: ScopedCanisters, { scopes }: Grant, scope: ActorScope, reference: string): boolean {
  if (scopes.hasEveryActor(scope)) return true;
  const canister = found(canisters, reference);
  if (canister === undefined) return false;
  const actors = scopes.actorsOf(scope);
  // Most clients write an actor as its scope does: nothing else has to be looked up then.
  return actors.includes(reference) || actors.some((actor) => found(canisters, actor)?.idHex === canister.idHex);
}

/** Refuses a name that is not to the letter in the scope, unless it means an actor that is. */
function refuseNewActor(canisters: ScopedCanisters, grant: Grant, scope: ActorScope, name: string): void {
  const isAllowed = grant.scopes.actorsOf(scope).includes(name);
  if (!isAllowed && !reaches(canisters, grant, scope, name)) throw scopeMissing(`${scope}:${name}`);
}

function found(canisters: ScopedCanisters, reference: string): Canister | undefined {
  try {
    return canisters.resolveIfAny(reference);
  } catch (error) {
    // A rejected actor; why is for whoever may do everything.
    if (!(error instanceof ServerError)) throw error;
    return undefined;
  }
}

/** The principals of grants as text. */
const callerTexts = new WeakMap<Uint8Array, string>();

function callerText(caller: Uint8Array): string {
  let text = callerTexts.get(caller);
  if (text === undefined) callerTexts.set(caller, (text = principalToText(caller)));
  return text;
}

/** Gives the request the caller of the grant, so that no handler can take another one from its header. */
function claimCaller({ headers }: IncomingMessage, { caller, takesNoClaim = false }: Grant): void {
  const claimed = headers['x-caller'];
  const own = caller === undefined ? undefined : callerText(caller);
  if (claimed !== undefined && (takesNoClaim || claimed !== own)) {
    const text = `header x-caller: this token calls as ${own ?? 'the anonymous principal'}; leave the header out`;
    throw new ServerError('forbidden', 'caller-forbidden', text);
  }
  if (own !== undefined) headers['x-caller'] = own;
}

/** Answers under way to tokens that have names: those of a token that is void are cut. */
export class ScopedAnswers {
  readonly #open = new Set<ServedResponse>();

  add(response: ServedResponse): void {
    this.#open.add(response);
    response.once('close', () => this.#open.delete(response));
  }

  /** Cuts answers that are being sent; requests that came before their token was void are answered. */
  cutVoid(): void {
    for (const response of this.#open)
      if (response.grant?.isOver === true && response.headersSent && !response.writableEnded) response.destroy();
  }
}
