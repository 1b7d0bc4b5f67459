/**
 * Turns a module into a metered and transactional one.
 *
 * There are two passes over the code: `analyze/` finds blocks, charges, calls and frames, each in a pass of its own;
 * `rewrite.ts` writes the new bodies. `abi/` describes the imports and exports of the result; each transformation is
 * described at the top of its own file: `fuel.ts`, `journal.ts` with `page-tests.ts`, `touch-ranges.ts`, `bulk.ts`,
 * `undo.ts` and `store-coverage.ts`, `growth.ts`, `delta.ts`, `guest-stack.ts` with `call-graph.ts`, `system-calls.ts`,
 * `entry-points.ts`.
 */
import { numberAt } from '../../kernel/index.ts';
import {
  ByteWriter,
  dataFits,
  InstructionBuffer,
  segmentTraps,
  VALUE_TYPE,
  typeOfFunction,
  type WasmModule,
  describeFunction,
  refusal,
} from '../wasm/index.ts';
import { EXPORT, HEAP_PAGES_MAX, type ModuleLayout } from './abi/index.ts';
import { AddedFunctions } from './added-functions.ts';
import { analyzeModule } from './analyze/analyze.ts';
import { addressCode } from './assembler.ts';
import { type CallGraph, callGraph } from './metering/call-graph.ts';
import { BulkFunctions } from './journal/bulk.ts';
import { addDelta } from './journal/delta.ts';
import { encodeModule } from './encode.ts';
import {
  addCallback,
  addCandidPointer,
  addGlobalFunctions,
  addInvoke,
  entryPoints,
  type EntryContext,
} from './entry-points.ts';
import { addFuelFunctions, FuelGlobals } from './metering/fuel.ts';
import { FunctionTypes } from './function-types.ts';
import { addSmallFunctions, isSmall } from './analyze/inlining-budget.ts';
import { addGrow } from './journal/growth.ts';
import { addJournalFunctions } from './journal/journal.ts';
import { addUndo } from './journal/undo.ts';
import { BodyRewriter } from './rewrite.ts';
import { addSystemCalls } from './system-calls.ts';

export * from './abi/index.ts';
export { codeVersion } from './code-version.ts';

/**
 * Limit on one body. V8 refuses functions of more than 7,654,321 bytes, but its optimising compiler's memory is also
 * proportional to the size: 50,000 stores, 1.9 MB when instrumented, took 420 MiB, and 150,000 took 1.1 GiB.
 */
const BODY_BYTES_MAX = 2.5 * 1024 * 1024;

/**
 * Limit on all bodies. Code of 10 MiB from a compiler has 20 to 30 MiB when instrumented; V8 needs seven times as much
 * to compile it.
 */
const BODIES_BYTES_MAX = 64 * 1024 * 1024;

/** Parts that benchmarks leave out to measure their cost; a host never does. */
export interface InstrumentOptions {
  readonly journal?: boolean;
  readonly depth?: boolean;
}

/**
 * Custom section of a module that tests its fuel behind each charge. Counts are the same; a message that is cut short
 * by a limit ends where it was used up, which profiles are made of.
 */
export const FUEL_TESTS_SECTION = 'svc:fuel-tests';

/** Number of imported functions besides the system API: `svc.yield` and `svc.room`. */
const HOST_FUNCTIONS = 2;

export interface InstrumentedModule {
  readonly bytes: Uint8Array;
  readonly layout: ModuleLayout;
}

/**
 * Instruments a module that `validateCanister` has accepted. Throws a ServerError `wasm-unsupported` or `wasm-limit`
 * for code that cannot be metered.
 */
export function instrument(module: WasmModule, options: InstrumentOptions = {}): InstrumentedModule {
  const buffer = new InstructionBuffer();
  const analysis = analyzeModule(module, buffer);
  const graph = callGraph(module, analysis);

  const imported = module.importedFunctionCount;
  const types = new FunctionTypes(module);
  // The host's functions come after the imports: the module's own move up, and the adapters come after those.
  const host = { yield: imported, room: imported + 1 };
  const firstAdded = module.functionTypes.length + HOST_FUNCTIONS;
  const callable = (index: number): number => (index < imported ? firstAdded + index : index + HOST_FUNCTIONS);
  const added = new AddedFunctions(types, firstAdded);
  const address = addressCode(module.pointerWidth);

  const fuelGlobals = new FuelGlobals(module.globals.length);
  const imports = addSystemCalls(added, module, fuelGlobals, host);
  const fuel = addFuelFunctions(added, address, fuelGlobals, host.yield);
  const journal = addJournalFunctions(added, address, fuelGlobals, host);
  const grow = addGrow(added, address, host);
  const globals = addGlobalFunctions(added, module.globals);
  const undo = addUndo(added, address, globals.load);
  const untestedStackBytes = (index: number): number => untestedBytesOf(graph, index - imported);
  const context: EntryContext = { globals, fuel: fuelGlobals, refill: fuel.refill, callable, untestedStackBytes };
  const entries = entryPoints(module);
  const exports: [string, number][] = [
    [EXPORT.INVOKE, addInvoke(added, context, entries)],
    [EXPORT.UNDO, undo],
    [EXPORT.TOUCH_RANGE, journal.touchRangeExport],
    [EXPORT.SAVE_GLOBALS, globals.save],
    [EXPORT.LOAD_GLOBALS, globals.load],
    [EXPORT.SETTLE, fuel.settle],
    [EXPORT.DELTA, addDelta(added, address)],
  ];
  const callback = addCallback(added, context, module);
  if (callback !== undefined) exports.push([EXPORT.CALLBACK, callback]);
  const candid = candidPointer(module);
  if (candid !== undefined)
    exports.push([EXPORT.CANDID_POINTER, addCandidPointer(added, context, candid.index, candid.type)]);

  const { journal: withJournal = true, depth: withDepth = true } = options;
  const touchRange = withJournal ? journal.touchRange : undefined;
  const rewriter = new BodyRewriter({
    module,
    analysis,
    graph,
    types,
    fuel,
    journal,
    bulk: new BulkFunctions({ added, address, chargeSize: fuel.chargeSize, touchRange, host }),
    grow,
    callable,
    withJournal,
    withDepth,
    testsEachCharge: module.customSections.some(({ name }) => name === FUEL_TESTS_SECTION),
  });
  const { bodies, hints, smallBodies } = rewriteBodies(module, rewriter, buffer);
  addSmallFunctions(added, smallBodies, module.bodyStart.length);

  const referenced = analysis.calls.referenced;
  return {
    bytes: encodeModule({ module, types, imports, added, bodies, hints, exports, fuelGlobals, callable, referenced }),
    layout: layoutOf(
      module,
      entries.map(({ name }) => name),
      globals,
      callback === undefined ? 0 : (module.tables[0]?.minimum ?? 0),
      candid !== undefined,
    ),
  };
}

/** Returns the guest stack that a body and the frames below it take without testing that it is there. */
function untestedBytesOf({ testsStack, frameBytes, untestedStackBytes }: CallGraph, body: number): number {
  if (body < 0 || testsStack[body] === 1) return 0;
  return numberAt(frameBytes, body, 'frame of body') + numberAt(untestedStackBytes, body, 'stack of body');
}

/** Returns the section of all instrumented bodies, the places of their unlikely branches, and how many are small. */
function rewriteBodies(
  module: WasmModule,
  rewriter: BodyRewriter,
  buffer: InstructionBuffer,
): { readonly bodies: ByteWriter; readonly hints: readonly [number, number[]][]; readonly smallBodies: number } {
  const imported = module.importedFunctionCount;
  const bodies = new ByteWriter(module.codeBytes * 2);
  const hints: [number, number[]][] = [];
  let smallBodies = 0;
  for (let body = 0; body < module.bodyStart.length; body++) {
    const places = rewriter.rewrite(body, buffer, bodies);
    if (rewriter.bodyBytes > BODY_BYTES_MAX) throw tooLarge(module, imported + body, rewriter.bodyBytes);
    if (bodies.length > BODIES_BYTES_MAX) throw allTooLarge();
    if (places.length > 0) hints.push([imported + HOST_FUNCTIONS + body, places]);
    if (isSmall(rewriter.bodyBytes)) smallBodies++;
  }
  return { bodies, hints, smallBodies };
}

function tooLarge(module: WasmModule, functionIndex: number, bytes: number): Error {
  const where = describeFunction(module, functionIndex);
  return refusal(
    'wasm-limit',
    `${where} has ${bytes} bytes when instrumented, at most ${BODY_BYTES_MAX} are possible; split the function`,
  );
}

function allTooLarge(): Error {
  return refusal(
    'wasm-limit',
    `its functions have more than ${BODIES_BYTES_MAX} bytes when instrumented, which is the most that is possible; make the module smaller`,
  );
}

function layoutOf(
  module: WasmModule,
  entries: readonly string[],
  globals: { readonly saved: ModuleLayout['globals']; readonly bytes: number },
  tableLength: number,
  hasCandidPointer: boolean,
): ModuleLayout {
  const memory = module.memories[0];
  const hostMaximum = HEAP_PAGES_MAX[module.pointerWidth];
  return {
    pointerWidth: module.pointerWidth,
    entries,
    heapPagesInitial: memory?.minimum ?? 0,
    heapPagesMax: memory === undefined ? 0 : Math.min(memory.maximum ?? hostMaximum, hostMaximum),
    tableLength,
    hasCandidPointer,
    data: module.data.flatMap((segment) => {
      const { offset, bytes } = segment;
      if (offset?.value === undefined || bytes.length === 0 || !dataFits(module, segment)) return [];
      return [{ offset: offset.value, bytes: bytes.slice() }];
    }),
    segmentTraps: segmentTraps(module),
    globals: globals.saved,
    globalsBytes: globals.bytes,
  };
}

/** Returns the exported function `get_candid_pointer`, if it returns one number and takes none. */
function candidPointer(module: WasmModule): { index: number; type: number } | undefined {
  const exported = module.exports.find(({ name, kind }) => kind === 'function' && name === 'get_candid_pointer');
  if (exported === undefined) return undefined;
  const { params, results } = typeOfFunction(module, exported.index);
  const [type] = results;
  if (params.length > 0 || results.length !== 1 || (type !== VALUE_TYPE.i32 && type !== VALUE_TYPE.i64))
    return undefined;
  return { index: exported.index, type };
}
