/** Modules without code: their entry points, and the durations of their messages. */
import type { InstrumentedCode } from '../../subsystems/execution/wire/instrumented-code.ts';
import type { LoadedModule } from '../../subsystems/execution/pool/module-loader.ts';

/** Entry points have other numbers in each version, so that a run on the wrong code shows. */
export const ENTRIES_PER_VERSION = 16;
/** Exports in the order of their numbers, from the version's first number on. */
const EXPORTS = [
  ['canister_update m', 'm', 'update'],
  ['canister_query q', 'q', 'query'],
  ['canister_composite_query c', 'c', 'composite_query'],
  ['canister_heartbeat'],
  ['canister_global_timer'],
  ['canister_inspect_message'],
  // Method with an empty argument.
  ['canister_update n', 'n', 'update'],
] as const;
export const COMPOSITE = 2;
export const TIMER = 4;
export const EMPTY = 6;

/** Stands for code in executors. */
export interface RandomCode {
  readonly version: number;
  /** One message in this many is long. */
  readonly longOneIn: number;
}

function asCode(code: RandomCode): InstrumentedCode {
  return code as unknown as InstrumentedCode;
}

export function fromCode(code: InstrumentedCode): RandomCode {
  return code as unknown as RandomCode;
}

export function moduleBytes(version: number): Uint8Array {
  return Buffer.from(String(version));
}

/** Returns the module of `moduleBytes`. */
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
    // A canister with long messages is soon treated as long; others become short again (`CanisterState.isLong`).
    code: asCode({ version, longOneIn: version % 3 === 0 ? 8 : 150 }),
  };
}
