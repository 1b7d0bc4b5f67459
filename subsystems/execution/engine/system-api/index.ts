/**
 * The system API: every import of module `ic0` as one object of host functions.
 *
 * A family of imports is a file. Each gets the `CurrentExecution` and returns its functions by name; values have
 * crossed from wasm as `wasm/ic0-signatures.ts` says, so an address is a Number whatever the module's pointer width,
 * and one object serves every instance on an engine. Instrumented code charges the calls' overheads; costs that depend
 * on sizes are charged here.
 *
 * Executor thread, called by wasm in the middle of a message: touches the message's own canister and no other.
 */
import type { Ic0Name } from '../../../wasm/index.ts';
import { callImports } from './calls.ts';
import { certifiedDataImports } from './certified-data.ts';
import { contextMask, MODES } from './contexts.ts';
import { costImports } from './costs.ts';
import { contractViolation, type CurrentExecution } from './current-execution.ts';
import { cyclesImports } from './cycles.ts';
import { debuggingImports } from './debugging.ts';
import { environmentImports } from './environment.ts';
import { identityImports } from './identity.ts';
import { messageImports } from './messages.ts';
import { respondingImports } from './responding.ts';
import { stableMemoryImports } from './stable-memory-imports.ts';
import { timeImports } from './time-and-timer.ts';

export { CurrentExecution } from './current-execution.ts';

type HostFunction = (...args: never[]) => unknown;
export type SystemApi = Readonly<Record<Ic0Name, HostFunction>>;

/**
 * Returns the imports of every instance on one engine, working on `execution`; each refuses to run outside its
 * contexts.
 */
export function createSystemApi(execution: CurrentExecution): SystemApi {
  const functions: Record<Ic0Name, HostFunction> = {
    ...messageImports(execution),
    ...respondingImports(execution),
    ...cyclesImports(execution),
    ...callImports(execution),
    ...stableMemoryImports(execution),
    ...timeImports(execution),
    ...identityImports(execution),
    ...certifiedDataImports(execution),
    ...environmentImports(execution),
    ...costImports(execution),
    ...debuggingImports(execution),
  };
  const guarded = { ...functions };
  for (const name of Object.keys(functions) as Ic0Name[]) guarded[name] = guard(execution, name, functions[name]);
  return guarded;
}

/** Puts the check of the context in front of an import. */
function guard(execution: CurrentExecution, name: Ic0Name, run: HostFunction): HostFunction {
  const mask = contextMask(name);
  const call = run as (...args: unknown[]) => unknown;
  // One closure for each count of parameters: a rest array on every call would cost more than the call.
  switch (run.length) {
    case 0:
      return () => ((execution.modeBit & mask) === 0 ? refuse(execution, name) : call());
    case 1:
      return (a: unknown) => ((execution.modeBit & mask) === 0 ? refuse(execution, name) : call(a));
    case 2:
      return (a: unknown, b: unknown) => ((execution.modeBit & mask) === 0 ? refuse(execution, name) : call(a, b));
    case 3:
      return (a: unknown, b: unknown, c: unknown) =>
        (execution.modeBit & mask) === 0 ? refuse(execution, name) : call(a, b, c);
    case 8:
      return (a: unknown, b: unknown, c: unknown, d: unknown, e: unknown, f: unknown, g: unknown, h: unknown) =>
        (execution.modeBit & mask) === 0 ? refuse(execution, name) : call(a, b, c, d, e, f, g, h);
    default:
      return (...args: unknown[]) => ((execution.modeBit & mask) === 0 ? refuse(execution, name) : call(...args));
  }
}

function refuse(execution: CurrentExecution, name: Ic0Name): never {
  if (execution.modeBit === 0) throw new Error(`ic0.${name} was called while no message executes`);
  throw contractViolation(`"ic0_${name}" cannot be executed in ${MODES[execution.mode].text} mode`);
}
