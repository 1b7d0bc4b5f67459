/**
 * Entry points for the host: `invoke`, `callback`, and the transfer of globals to the control memory and back.
 *
 *     (func $invoke (param $entry i32)
 *       if GLOBALS_SAVED is 0: save the globals, set it
 *       stack, fuel ← control memory
 *       br_table on $entry: call the entry point (stack, fuel) → fuel
 *       control memory ← fuel)
 */
import { type Global, OP, VALUE_TYPE, type WasmModule } from '../wasm/index.ts';
import { CONTROL, type SavedGlobal, START_ENTRY, STOP } from './abi/index.ts';
import type { AddedFunctions } from './added-functions.ts';
import {
  br,
  call,
  type Code,
  code,
  controlAccess,
  get,
  i32,
  i64,
  ifThen,
  readI32,
  set,
  unsigned,
  writeI32,
} from './assembler.ts';
import type { FuelGlobals } from './metering/fuel.ts';

const { i32: I32, i64: I64, f64: F64, funcref: FUNCREF, v128: V128 } = VALUE_TYPE;

const ENTRY_PREFIX = 'canister_';

interface EntryPoint {
  readonly name: string;
  readonly functionIndex: number;
}

/** Returns methods and hooks by their export names, and the former start function. */
export function entryPoints(module: WasmModule): EntryPoint[] {
  const entries = module.exports
    .filter(({ kind, name }) => kind === 'function' && name.startsWith(ENTRY_PREFIX))
    .map(({ name, index }) => ({ name, functionIndex: index }));
  if (module.start !== undefined) entries.push({ name: START_ENTRY, functionIndex: module.start });
  return entries;
}

const GLOBAL_KINDS: Readonly<
  Record<number, { type: SavedGlobal['type']; bytes: number; load: number; store: number }>
> = {
  [I32]: { type: 'i32', bytes: 4, load: OP.I32_LOAD, store: OP.I32_STORE },
  [I64]: { type: 'i64', bytes: 8, load: OP.I64_LOAD, store: OP.I64_STORE },
  [VALUE_TYPE.f32]: { type: 'f32', bytes: 4, load: 0x2a, store: OP.F32_STORE },
  [F64]: { type: 'f64', bytes: 8, load: OP.F64_LOAD, store: OP.F64_STORE },
  [V128]: { type: 'v128', bytes: 16, load: OP.V128_LOAD, store: OP.V128_STORE },
};

interface GlobalFunctions {
  /** (place i32) */
  readonly save: number;
  /** (place i32) */
  readonly load: number;
  readonly saved: readonly SavedGlobal[];
  /** Total bytes of these globals. */
  readonly bytes: number;
}

/**
 * Adds functions that save and load the mutable globals, one after the other, at a place in the control memory that the
 * caller names.
 */
export function addGlobalFunctions(added: AddedFunctions, globals: readonly Global[]): GlobalFunctions {
  const saved: SavedGlobal[] = [];
  const save: Code[] = [];
  const load: Code[] = [];
  const place = 0;
  let at = 0;
  for (const [index, { type, isMutable }] of globals.entries()) {
    const kind = GLOBAL_KINDS[type];
    if (!isMutable || kind === undefined) continue;
    saved.push({ type: kind.type, at });
    save.push(code(get(place), [OP.GLOBAL_GET], unsigned(index), controlAccess(kind.store, at)));
    load.push(code(get(place), controlAccess(kind.load, at), [OP.GLOBAL_SET], unsigned(index)));
    at += kind.bytes;
  }
  return {
    save: added.add([I32], [], [], code(...save)),
    load: added.add([I32], [], [], code(...load)),
    saved,
    bytes: at,
  };
}

/** The parts of the instrumentation that entry points use. */
export interface EntryContext {
  readonly globals: GlobalFunctions;
  readonly fuel: FuelGlobals;
  /** (fuel) -> fuel */
  readonly refill: number;
  /** Returns the index to call for a module's function: that of the adapter for an import. */
  readonly callable: (functionIndex: number) => number;
  /** Returns the stack that a function uses before any function below it tests. */
  readonly untestedStackBytes: (functionIndex: number) => number;
}

/**
 * Returns code that begins a run: saves the globals once per message, and loads stack and fuel into locals and the
 * reserve.
 */
function prologue(context: EntryContext, stack: number, fuel: number): number[] {
  return code(
    readI32(CONTROL.GLOBALS_SAVED),
    OP.I32_EQZ,
    ifThen(i32(CONTROL.GLOBALS), call(context.globals.save), writeI32(CONTROL.GLOBALS_SAVED, i32(1))),
    readI32(CONTROL.STACK_BYTES),
    set(stack),
    context.fuel.load(fuel),
  );
}

/**
 * Returns the final test. Short functions do not test, and a message that used more fuel than it had must not succeed.
 */
function lastTest(context: EntryContext, fuel: number): number[] {
  return code(get(fuel), i64(0), OP.I64_LT_S, ifThen(get(fuel), call(context.refill), set(fuel)));
}

/**
 * Returns `fuel = function(…, stack, fuel)`. The function's own arguments are on the stack, and its results except the
 * fuel stay there.
 */
function callThreaded(context: EntryContext, functionIndex: number, stack: number, fuel: number): number[] {
  const untested = context.untestedStackBytes(functionIndex);
  const test =
    untested === 0
      ? []
      : code(get(stack), i32(untested), OP.I32_LT_S, ifThen(context.fuel.stopBecause(STOP.STACK_OVERFLOW)));
  return code(test, get(stack), get(fuel), call(context.callable(functionIndex)), set(fuel), lastTest(context, fuel));
}

export function addInvoke(added: AddedFunctions, context: EntryContext, entries: readonly EntryPoint[]): number {
  const entry = 0;
  const stack = 1;
  const fuel = 2;
  // Blocks nest so that label k ends where entry point k is called; the last label is for an entry that does not exist.
  const OPEN_BLOCK = [OP.BLOCK, 0x40];
  const labels = code(...entries.map((_, k) => unsigned(k)), unsigned(entries.length));
  const cases = entries.map(({ functionIndex }, k) =>
    code(OP.END, callThreaded(context, functionIndex, stack, fuel), br(entries.length - k)),
  );
  return added.add(
    [I32],
    [],
    [I32, I64],
    code(
      prologue(context, stack, fuel),
      OPEN_BLOCK,
      ...entries.map(() => OPEN_BLOCK),
      OPEN_BLOCK,
      get(entry),
      [OP.BR_TABLE],
      unsigned(entries.length),
      labels,
      ...cases,
      OP.END,
      OP.UNREACHABLE,
      OP.END,
      context.fuel.store(fuel),
    ),
  );
}

/**
 * Adds the function that runs a function of table 0 of type (pointer) -> (); returns undefined if the module has no
 * table of functions.
 */
export function addCallback(added: AddedFunctions, context: EntryContext, module: WasmModule): number | undefined {
  const table = module.tables[0];
  if (table === undefined || table.elementType !== FUNCREF) return undefined;
  const fun = 0;
  const env = 1;
  const stack = 2;
  const fuel = 3;
  const pointer = module.pointerWidth === 64 ? I64 : I32;
  const type = added.types.index([pointer, I32, I64], [I64]);
  return added.add(
    [F64, pointer],
    [],
    [I32, I64],
    code(
      prologue(context, stack, fuel),
      get(env),
      get(stack),
      get(fuel),
      get(fun),
      table.is64 ? OP.I64_TRUNC_SAT_F64_U : OP.I32_TRUNC_SAT_F64_U,
      [OP.CALL_INDIRECT],
      unsigned(type),
      [0],
      set(fuel),
      lastTest(context, fuel),
      context.fuel.store(fuel),
    ),
  );
}

/** Adds `get_candid_pointer () -> f64`, from a function that returns an i32 or i64. */
export function addCandidPointer(
  added: AddedFunctions,
  context: EntryContext,
  functionIndex: number,
  resultType: number,
): number {
  const stack = 0;
  const fuel = 1;
  return added.add(
    [],
    [F64],
    [I32, I64],
    code(
      prologue(context, stack, fuel),
      callThreaded(context, functionIndex, stack, fuel),
      context.fuel.store(fuel),
      resultType === I64 ? OP.F64_CONVERT_I64_U : OP.F64_CONVERT_I32_U,
    ),
  );
}
