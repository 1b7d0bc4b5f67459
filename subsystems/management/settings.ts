import { ANONYMOUS, ANONYMOUS_CREATOR, sameBytes } from '../ic/index.ts';
import { createHash } from 'node:crypto';
import type { NatJson, SettingsJson, VisibilityJson, DefiniteSettingsJson } from './candid-types.ts';
import { fromNat, toNat, toPrincipal, toPrincipalText } from './candid-values.ts';
import type { EnforcedSettings, HostedCanister } from './backend.ts';
import { REFUSE } from './refusal.ts';

/** Limits of interface spec 0.66, `canister_settings`. */
const CONTROLLERS_MAX = 10;
const VIEWERS_MAX = 10;
const VARIABLES_MAX = 20;
const VARIABLE_BYTES_MAX = 128;
const WASM_MEMORY_MAX = 2n ** 48n;
const COMPUTE_ALLOCATION_MAX = 100n;
const LOG_MEMORY_MAX = 2n ** 21n;
/** Bytes of a log that every canister has here, whatever its settings ask for. */
const LOG_MEMORY_BYTES = 65_536n;

/** Callers besides controllers that may see a property of a canister. */
export type Visibility =
  | { readonly kind: 'controllers' | 'public' }
  | { readonly kind: 'viewers'; readonly viewers: readonly Uint8Array[] };

/** The settings that running a canister does not depend on, and those that the host was told. */
export interface OwnSettings {
  readonly computeAllocation: bigint;
  readonly memoryAllocation: bigint;
  readonly freezingThreshold: bigint;
  readonly reservedCyclesLimit: bigint;
  readonly minimumIncomingCanisterCallCycles: bigint;
  readonly wasmMemoryLimit: bigint;
  readonly wasmMemoryThreshold: bigint;
  readonly logVisibility: Visibility;
  readonly snapshotVisibility: Visibility;
  readonly statusVisibility: Visibility;
}

const CONTROLLERS_ONLY: Visibility = { kind: 'controllers' };

export const DEFAULT_SETTINGS: OwnSettings = {
  computeAllocation: 0n,
  memoryAllocation: 0n,
  freezingThreshold: 2_592_000n,
  reservedCyclesLimit: 5_000_000_000_000n,
  minimumIncomingCanisterCallCycles: 0n,
  wasmMemoryLimit: 0n,
  wasmMemoryThreshold: 0n,
  logVisibility: CONTROLLERS_ONLY,
  snapshotVisibility: CONTROLLERS_ONLY,
  statusVisibility: CONTROLLERS_ONLY,
};

/** The checked changes that a call asks for. */
interface SettingsChange {
  readonly own: Partial<OwnSettings>;
  /** The changes to be passed to the host. */
  readonly enforced: EnforcedSettings;
}

export const NO_CHANGE: SettingsChange = { own: {}, enforced: {} };

/** Checks settings; throws a Refusal that names the broken rule. */
export function readSettings(json: SettingsJson): SettingsChange {
  const own: { -readonly [K in keyof OwnSettings]?: OwnSettings[K] } = {};
  const enforced: { -readonly [K in keyof EnforcedSettings]: EnforcedSettings[K] } = {};
  const nat = (name: keyof SettingsJson, value: NatJson | null, largest: bigint, set: (n: bigint) => void) => {
    if (value === null) return;
    const n = toNat(value);
    if (n > largest) throw REFUSE.badArgument(`${name} is ${n}: at most ${largest} is allowed`);
    set(n);
  };
  nat('compute_allocation', json.compute_allocation, COMPUTE_ALLOCATION_MAX, (n) => (own.computeAllocation = n));
  nat('memory_allocation', json.memory_allocation, 2n ** 64n - 1n, (n) => (own.memoryAllocation = n));
  nat('freezing_threshold', json.freezing_threshold, 2n ** 64n - 1n, (n) => (own.freezingThreshold = n));
  nat('reserved_cycles_limit', json.reserved_cycles_limit, 2n ** 128n - 1n, (n) => (own.reservedCyclesLimit = n));
  const minimum = json.minimum_incoming_canister_call_cycles;
  nat('minimum_incoming_canister_call_cycles', minimum, 2n ** 128n - 1n, (n) => {
    own.minimumIncomingCanisterCallCycles = n;
    enforced.minimumIncomingCanisterCallCycles = n;
  });
  nat('wasm_memory_limit', json.wasm_memory_limit, WASM_MEMORY_MAX, (n) => {
    own.wasmMemoryLimit = n;
    enforced.wasmMemoryLimit = Number(n);
  });
  nat('wasm_memory_threshold', json.wasm_memory_threshold, WASM_MEMORY_MAX, (n) => {
    own.wasmMemoryThreshold = n;
    enforced.wasmMemoryThreshold = Number(n);
  });
  // Checked alone: a log has one size here.
  nat('log_memory_limit', json.log_memory_limit, LOG_MEMORY_MAX, () => undefined);
  if (json.log_visibility !== null) own.logVisibility = readVisibility('log_visibility', json.log_visibility);
  if (json.snapshot_visibility !== null)
    own.snapshotVisibility = readVisibility('snapshot_visibility', json.snapshot_visibility);
  if (json.status_visibility !== null)
    own.statusVisibility = readVisibility('status_visibility', json.status_visibility);
  if (json.controllers !== null) {
    if (json.controllers.length > CONTROLLERS_MAX)
      throw REFUSE.badArgument(
        `there are ${json.controllers.length} controllers: at most ${CONTROLLERS_MAX} are allowed`,
      );
    enforced.controllers = json.controllers.map(toPrincipal).filter(isFirst);
  }
  if (json.environment_variables !== null) enforced.environment = readVariables(json.environment_variables);
  return { own, enforced };
}

/**
 * Returns the controllers that a list names for a canister of an anonymous creator, which the anonymous principal in it
 * stands for: only there, so that nobody else's canisters come under everybody's control.
 */
export function controllersOfAnonymous(controllers: readonly Uint8Array[]): readonly Uint8Array[] {
  return controllers.map((each) => (sameBytes(each, ANONYMOUS) ? ANONYMOUS_CREATOR : each));
}

/** Returns true for a canister that an anonymous sender at `/api` has created, as long as it controls it. */
export function isOfAnonymous(controllers: readonly Uint8Array[]): boolean {
  return controllers.some((each) => sameBytes(each, ANONYMOUS_CREATOR));
}

/** Returns true for the first occurrence: controllers are a set. */
function isFirst(principal: Uint8Array, index: number, all: readonly Uint8Array[]): boolean {
  return all.findIndex((other) => sameBytes(other, principal)) === index;
}

function readVisibility(name: string, json: VisibilityJson): Visibility {
  const viewers = json.allowed_viewers;
  if (viewers === undefined) return { kind: json.public === undefined ? 'controllers' : 'public' };
  if (viewers.length > VIEWERS_MAX)
    throw REFUSE.badArgument(`${name} has ${viewers.length} viewers: at most ${VIEWERS_MAX} are allowed`);
  return { kind: 'viewers', viewers: viewers.map(toPrincipal) };
}

function readVariables(json: NonNullable<SettingsJson['environment_variables']>): ReadonlyMap<string, string> {
  if (json.length > VARIABLES_MAX)
    throw REFUSE.badArgument(`there are ${json.length} environment variables: at most ${VARIABLES_MAX} are allowed`);
  const variables = new Map<string, string>();
  for (const { name, value } of json) {
    const shown = JSON.stringify(name.slice(0, 40));
    for (const [what, text] of [
      ['name', name],
      ['value', value],
    ] as const) {
      const bytes = Buffer.byteLength(text);
      if (bytes > VARIABLE_BYTES_MAX)
        throw REFUSE.badArgument(
          `the ${what} of environment variable ${shown} has ${bytes} bytes: at most ${VARIABLE_BYTES_MAX} are allowed`,
        );
    }
    if (variables.has(name)) throw REFUSE.badArgument(`there are two environment variables ${shown}`);
    variables.set(name, value);
  }
  return variables;
}

export function mayView(visibility: Visibility, principal: Uint8Array): boolean {
  if (visibility.kind !== 'viewers') return visibility.kind === 'public';
  return visibility.viewers.some((viewer) => sameBytes(viewer, principal));
}

/** Returns the SHA-256 over the variables' hashes, in their order, for the history; undefined if there are none. */
export function hashVariables(variables: ReadonlyMap<string, string> | undefined): Uint8Array | undefined {
  if (variables === undefined || variables.size === 0) return undefined;
  const sha256 = (data: string | Uint8Array): Buffer => createHash('sha256').update(data).digest();
  const pairs = [...variables].map(([name, value]) => Buffer.concat([sha256(name), sha256(value)]));
  return sha256(Buffer.concat(pairs.sort((a, b) => Buffer.compare(a, b))));
}

export function settingsJson(canister: HostedCanister, own: OwnSettings): DefiniteSettingsJson {
  return {
    controllers: canister.controllers.map(toPrincipalText),
    compute_allocation: fromNat(own.computeAllocation),
    memory_allocation: fromNat(own.memoryAllocation),
    freezing_threshold: fromNat(own.freezingThreshold),
    reserved_cycles_limit: fromNat(own.reservedCyclesLimit),
    minimum_incoming_canister_call_cycles: fromNat(own.minimumIncomingCanisterCallCycles),
    wasm_memory_limit: fromNat(own.wasmMemoryLimit),
    wasm_memory_threshold: fromNat(own.wasmMemoryThreshold),
    log_memory_limit: fromNat(LOG_MEMORY_BYTES),
    log_visibility: visibilityJson(own.logVisibility),
    snapshot_visibility: visibilityJson(own.snapshotVisibility),
    status_visibility: visibilityJson(own.statusVisibility),
    environment_variables: [...canister.environment].map(([name, value]) => ({ name, value })),
  };
}

function visibilityJson(visibility: Visibility): VisibilityJson {
  switch (visibility.kind) {
    case 'controllers':
      return { controllers: null };
    case 'public':
      return { public: null };
    case 'viewers':
      return { allowed_viewers: visibility.viewers.map(toPrincipalText) };
  }
}
