/**
 * Controllers that the manifest names. The principal that installs an actor controls it as well, so that the operator's
 * requests and the actor's own methods know it as before.
 */
import type { Logger } from '../../kernel/index.ts';
import { principalToText, sameBytes } from '../ic/index.ts';
import type { ManifestActor } from '../manifest/index.ts';
import type { CanisterRecord } from './canister-record.ts';
import { installerOf } from './manifest-assets.ts';

type Controlled = Pick<ManifestActor, 'assets' | 'controllers'>;

interface FollowingNeeds {
  readonly canisters: { changeSettings(record: CanisterRecord, settings: string): Promise<unknown> };
  readonly log: Pick<Logger, 'info'>;
}

/** Returns who installs an actor, and its controllers beside that one, which may be named as well. */
export function controlOf(actor: Controlled): {
  readonly caller: Uint8Array;
  readonly controllers: readonly Uint8Array[];
} {
  const caller = installerOf(actor);
  return { caller, controllers: (actor.controllers ?? []).filter((controller) => !sameBytes(controller, caller)) };
}

/**
 * Gives an actor that is there the controllers of the manifest, at a start; where the manifest names none they stay as
 * they are. Resolves when they are durable.
 */
export async function followControllers(
  { canisters, log }: FollowingNeeds,
  record: CanisterRecord,
  actor: Controlled,
): Promise<void> {
  if (actor.controllers === undefined) return;
  const { caller, controllers } = controlOf(actor);
  const wanted = [caller, ...controllers];
  if (areSame(wanted, record.controllers)) return;
  const texts = wanted.map(principalToText);
  await canisters.changeSettings(record, JSON.stringify({ controllers: texts }));
  log.info(`the controllers of ${record.name} are those of the manifest now: ${texts.join(', ')}`);
}

/** Returns true if both lists have the same principals: controllers are a set. */
function areSame(one: readonly Uint8Array[], other: readonly Uint8Array[]): boolean {
  return one.length === other.length && one.every((id) => other.some((known) => sameBytes(id, known)));
}
