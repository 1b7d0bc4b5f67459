/**
 * Acceptance of calls of users: which canister a call is about, and whether its sender may make it. The methods check
 * the same once more when they have their turn; what is refused here was never accepted.
 */
import type { ArgumentOf, MethodName, PrincipalJson } from './candid-types.ts';
import { toPrincipal } from './candid-values.ts';
import type { Call, MethodContext } from './method-context.ts';
import { REFUSE } from './refusal.ts';
import { mayView, type OwnSettings, type Visibility } from './settings.ts';

/** Begins the text of what is wrong with the call itself, whoever makes it. */
export const UNREADABLE = /^IC040[78]:/;

/** Methods that change nothing. */
export const READS: ReadonlySet<MethodName> = new Set<MethodName>([
  'canister_status',
  'canister_metrics',
  'fetch_canister_logs',
  'list_canisters',
  'stored_chunks',
  'list_canister_snapshots',
  'read_canister_snapshot_metadata',
  'read_canister_snapshot_data',
]);

/** Methods that are about no canister that is there. */
const ABOUT_NONE: ReadonlySet<MethodName> = new Set<MethodName>([
  'create_canister',
  'provisional_create_canister_with_cycles',
  'list_canisters',
]);

type VisibilityName = { [K in keyof OwnSettings]: OwnSettings[K] extends Visibility ? K : never }[keyof OwnSettings];

/** Settings that let others than controllers use a method. */
const VISIBLE: Readonly<Partial<Record<MethodName, VisibilityName>>> = {
  canister_status: 'statusVisibility',
  fetch_canister_logs: 'logVisibility',
  list_canister_snapshots: 'snapshotVisibility',
  read_canister_snapshot_metadata: 'snapshotVisibility',
  read_canister_snapshot_data: 'snapshotVisibility',
};

function subjectTextOf(method: MethodName, argument: unknown): PrincipalJson | undefined {
  if (ABOUT_NONE.has(method)) return undefined;
  if (method === 'install_chunked_code') return (argument as ArgumentOf<'install_chunked_code'>).target_canister;
  return (argument as ArgumentOf<'start_canister'>).canister_id;
}

/** Returns the id of the canister that an argument is about; undefined: the method is about none. */
export function subjectOf(method: MethodName, argument: unknown): Uint8Array | undefined {
  const text = subjectTextOf(method, argument);
  return text === undefined ? undefined : toPrincipal(text);
}

/** Throws a Refusal if the sender of a call, a user, may not make it. */
export function expectUser(context: MethodContext, call: Call, argument: unknown): void {
  const { method, isTrusted, mayCreate, sender } = call;
  const id = subjectTextOf(method, argument);
  if (id === undefined) {
    if (READS.has(method) ? isTrusted : mayCreate) return;
    const fix = READS.has(method) ? 'show the token' : 'show the token, or have --agent-creators name the sender';
    throw REFUSE.notAllowed(`${method} is for users of this host, not for everybody who reaches it: ${fix}`);
  }
  const canister = context.find(id);
  if (method === 'provisional_top_up_canister' && isTrusted) return;
  const visible = VISIBLE[method];
  if (visible !== undefined && mayView(context.recordOf(canister).settings[visible], sender)) return;
  context.expectControl(call, canister);
}
