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
export function reaches(canisters: ScopedCanisters, grant: Grant, scope: ActorScope, reference: string): boolean {
  return grant.scopes.hasEveryActor(scope) || reached(canisters, grant, scope, reference) !== undefined;
}

/** Returns the actor that the text means if the grant has the scope for it. */
export function reached(
  canisters: ScopedCanisters,
  grant: Grant,
  scope: ActorScope,
  reference: string,
): Canister | undefined {
  const canister = found(canisters, reference);
  if (canister === undefined || grant.scopes.hasEveryActor(scope)) return canister;
  // Most clients write an actor as its scope does: nothing else has to be looked up then.
  const isNamed = grant.scopes.actorsOf(scope).includes(reference);
  return isNamed || covers(canisters, grant, scope, canister) ? canister : undefined;
}

/** Returns true if the grant has the scope for an actor that is still there, as far as its scopes name actors. */
export function covers(canisters: ScopedCanisters, { scopes }: Grant, scope: ActorScope, canister: Canister): boolean {
  if (scopes.hasEveryActor(scope)) return true;
  const actors = scopes.actorsOf(scope);
  const means = (actor: string): boolean => found(canisters, actor) === canister;
  // A scope mostly has the actor's name, which saves the looks at others.
  return (actors.includes(canister.name) && means(canister.name)) || actors.some(means);
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
