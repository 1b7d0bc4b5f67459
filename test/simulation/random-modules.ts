/** Modules without code: what entry points they have, and how long their messages take. */
import type { InstrumentedCode } from '../../subsystems/execution/wire/instrumented-code.ts';
import type { LoadedModule } from '../../subsystems/execution/pool/module-loader.ts';

/** Entry points have other numbers in each version: one that is run on the wrong code shows. */
export const ENTRIES_PER_VERSION = 16;
/** By place, from the version's first number on. */
const EXPORTS = [
  ['canister_update m', 'm', 'update'],
  ['canister_query q', 'q', 'query'],
  ['canister_composite_query c', 'c', 'composite_query'],
  ['canister_heartbeat'],
  ['canister_global_timer'],
  ['canister_inspect_message'],
  // Its argument is empty.
  ['canister_update n', 'n', 'update'],
] as const;
export const COMPOSITE = 2;
export const TIMER = 4;
export const EMPTY = 6;

/** What executors get in place of code. */
export interface RandomCode {
  readonly version: number;
  /** One in so many of its messages is long. */
  readonly longOneIn: number;
}

export function asCode(code: RandomCode): InstrumentedCode {
  return code as unknown as InstrumentedCode;
}

export function fromCode(code: InstrumentedCode): RandomCode {
  return code as unknown as RandomCode;
}

export function moduleBytes(version: number): Uint8Array {
  return Buffer.from(String(version));
}

/** The module of `moduleBytes`. */
export function randomModule(bytes: Uint8Array): LoadedModule {
  const version = Number(Buffer.from(bytes).toString());
  const entries = new Map(EXPORTS.map(([exported], at) => [exported as string, version * ENTRIES_PER_VERSION + at]));
  // Every second version has no inspection and no heartbeat.
  if (version % 2 === 0) {
    entries.delete('canister_inspect_message');
    entries.delete('canister_heartbeat');
  }
  const methods = new Map(EXPORTS.flatMap(([, name, kind]) => (name === undefined ? [] : [[name, kind] as const])));
  return {
    info: {
      hash: String(version),
      pointerWidth: 32,
      methods,
      entries,
      globals: [],
      globalsBytes: 0,
      metadata: new Map(),
      candid: undefined,
      candidArgs: undefined,
    },
    // A canister with long messages soon counts as one; others come back from it (`CanisterState.isLong`).
    code: asCode({ version, longOneIn: version % 3 === 0 ? 8 : 150 }),
  };
}
