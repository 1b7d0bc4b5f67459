/** Encodes the instrumented module. */
import {
  ByteWriter,
  type ConstantExpression,
  elementsFit,
  type ElementSegment,
  type Global,
  OP,
  VALUE_TYPE,
  type WasmModule,
} from '../wasm/index.ts';
import { HEAP_PAGES_MAX, IMPORT, IMPORT_MODULE, CONTROL } from './abi/index.ts';
import { WASM_PAGE_BYTES } from '../ic/index.ts';
import type { AddedFunctions } from './added-functions.ts';
import { unsigned } from './assembler.ts';
import { functionNames } from './function-names.ts';
import type { FuelGlobals } from './metering/fuel.ts';
import type { FunctionTypes } from './function-types.ts';
import { roomType } from './journal/growth.ts';
import type { AdaptedImport } from './system-calls.ts';

const SECTION = {
  CUSTOM: 0,
  TYPE: 1,
  IMPORT: 2,
  FUNCTION: 3,
  TABLE: 4,
  GLOBAL: 6,
  EXPORT: 7,
  ELEMENT: 9,
  CODE: 10,
  DATA: 11,
  DATA_COUNT: 12,
} as const;
const KIND = { FUNCTION: 0, MEMORY: 2 } as const;
const HAS_MAXIMUM = 1;
const IS_64 = 4;
const PASSIVE = 1;
const DECLARATIVE = 3;

interface EncodeInput {
  readonly module: WasmModule;
  readonly types: FunctionTypes;
  readonly imports: readonly AdaptedImport[];
  readonly added: AddedFunctions;
  /** The module's own functions as `vec(code)` without the count. */
  readonly bodies: ByteWriter;
  /** Function indices with the places of unlikely branches, relative to the body. */
  readonly hints: readonly (readonly [number, readonly number[]])[];
  readonly exports: readonly (readonly [string, number])[];
  readonly fuelGlobals: FuelGlobals;
  readonly callable: (functionIndex: number) => number;
  /** Functions to which the code takes a reference; they must be declared. */
  readonly referenced: Iterable<number>;
}

export function encodeModule(input: EncodeInput): Uint8Array {
  const { module } = input;
  const out = new ByteWriter(module.bytes.length * 2 + 4096);
  out.put([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
  vector(out, SECTION.TYPE, input.types.encode());
  section(out, SECTION.IMPORT, imports(input));
  vector(out, SECTION.FUNCTION, functionTypes(input));
  if (module.tables.length > 0)
    vector(
      out,
      SECTION.TABLE,
      // Limits have no maximum: tables never grow, and a maximum beyond 2^53 would be rounded.
      module.tables.map((table) => [table.elementType, ...limits({ ...table, maximum: undefined })]),
    );
  vector(out, SECTION.GLOBAL, [...module.globals.map(global), ...input.fuelGlobals.encode()]);
  section(out, SECTION.EXPORT, exports(input));
  // A segment that does not fit becomes passive, because instantiation would fail; the host reports it from the layout.
  const elements = module.elements.map((segment) =>
    element(
      elementsFit(module, segment) ? segment : { ...segment, mode: 'passive', offset: undefined },
      input.callable,
    ),
  );
  const declared = [...input.referenced].map(input.callable);
  if (declared.length > 0) elements.push([DECLARATIVE, 0, ...unsigned(declared.length), ...declared.flatMap(unsigned)]);
  if (elements.length > 0) vector(out, SECTION.ELEMENT, elements);
  if (module.hasDataCount) section(out, SECTION.DATA_COUNT, Uint8Array.from(unsigned(module.data.length)));
  if (input.hints.length > 0) section(out, SECTION.CUSTOM, branchHints(input.hints));
  code(out, input);
  if (module.hasDataCount) section(out, SECTION.DATA, data(module));
  section(out, SECTION.CUSTOM, functionNames(module, input.callable));
  return out.written().slice();
}

function section(out: ByteWriter, id: number, content: Uint8Array): void {
  out.byte(id);
  out.unsigned(content.length);
  out.append(content);
}

function vector(out: ByteWriter, id: number, items: readonly (readonly number[])[]): void {
  const content = new ByteWriter();
  content.unsigned(items.length);
  for (const item of items) content.put(item);
  section(out, id, content.written());
}

function limits({ is64, minimum, maximum }: { is64: boolean; minimum: number; maximum: number | undefined }): number[] {
  const flags = (maximum === undefined ? 0 : HAS_MAXIMUM) | (is64 ? IS_64 : 0);
  return [flags, ...unsigned(minimum), ...(maximum === undefined ? [] : unsigned(maximum))];
}

/**
 * Encodes the imports. The heap is imported with the host's maximum, not the module's, so that any heap of this width
 * links, even that of another module after an upgrade. The module's own maximum applies to the memory, which the host
 * makes.
 */
function imports({ module, types, imports: adapted }: EncodeInput): Uint8Array {
  const out = new ByteWriter();
  out.unsigned(adapted.length + 4);
  for (const { name, typeIndex } of adapted) {
    out.name('ic0');
    out.name(name);
    out.byte(KIND.FUNCTION);
    out.unsigned(typeIndex);
  }
  out.name(IMPORT_MODULE);
  out.name(IMPORT.YIELD);
  out.byte(KIND.FUNCTION);
  out.unsigned(types.index([], []));
  out.name(IMPORT_MODULE);
  out.name(IMPORT.ROOM);
  out.byte(KIND.FUNCTION);
  out.unsigned(roomType(types));
  const is64 = module.pointerWidth === 64;
  const minimum = module.memories[0]?.minimum ?? 0;
  out.name(IMPORT_MODULE);
  out.name(IMPORT.MEMORY);
  out.byte(KIND.MEMORY);
  out.put(limits({ is64, minimum, maximum: HEAP_PAGES_MAX[module.pointerWidth] }));
  out.name(IMPORT_MODULE);
  out.name(IMPORT.CONTROL);
  out.byte(KIND.MEMORY);
  out.put(limits({ is64: false, minimum: Math.ceil(CONTROL.PRE_IMAGES / WASM_PAGE_BYTES), maximum: undefined }));
  return out.written();
}

function functionTypes({ module, types, added }: EncodeInput): number[][] {
  const own = Array.from(module.functionTypes.subarray(module.importedFunctionCount), (type) =>
    unsigned(types.widened(type)),
  );
  return [...own, ...added.all.map(({ typeIndex }) => unsigned(typeIndex))];
}

function global({ type, isMutable, initial }: Global): number[] {
  return [type, isMutable ? 1 : 0, ...initial.bytes];
}

function exports({ exports: list }: EncodeInput): Uint8Array {
  const out = new ByteWriter();
  out.unsigned(list.length);
  for (const [name, index] of list) {
    out.name(name);
    out.byte(KIND.FUNCTION);
    out.unsigned(index);
  }
  return out.written();
}

type Callable = (functionIndex: number) => number;

function element(segment: ElementSegment, callable: Callable): number[] {
  const { mode, functions, expressions, elementType, table, offset } = segment;
  const hasExpressions = functions === undefined;
  const hasTable = mode === 'active' && (table !== 0 || elementType !== VALUE_TYPE.funcref);
  const flags =
    (mode === 'active' ? (hasTable ? 2 : 0) : mode === 'passive' ? PASSIVE : DECLARATIVE) | (hasExpressions ? 4 : 0);
  const out = [flags];
  if (hasTable) out.push(...unsigned(table));
  if (offset !== undefined) out.push(...offset.bytes);
  if ((flags & 3) !== 0) out.push(hasExpressions ? elementType : 0);
  if (functions !== undefined) {
    out.push(...unsigned(functions.length));
    for (const index of functions) for (const byte of unsigned(callable(index))) out.push(byte);
  } else {
    out.push(...unsigned(expressions?.length ?? 0));
    for (const item of expressions ?? []) for (const byte of expression(item, callable)) out.push(byte);
  }
  return out;
}

function expression({ bytes, functionIndex }: ConstantExpression, callable: Callable): number[] {
  return functionIndex === undefined ? [...bytes] : [OP.REF_FUNC, ...unsigned(callable(functionIndex)), OP.END];
}

/** Encodes the hints. Each one says that the branch is not taken: one byte, 0. */
function branchHints(hints: EncodeInput['hints']): Uint8Array {
  const out = new ByteWriter(1 << 14);
  out.name('metadata.code.branch_hint');
  out.unsigned(hints.length);
  for (const [functionIndex, places] of hints) {
    out.unsigned(functionIndex);
    out.unsigned(places.length);
    for (const place of places) {
      out.unsigned(place);
      out.byte(1);
      out.byte(0);
    }
  }
  return out.written();
}

function code(out: ByteWriter, { module, bodies, added }: EncodeInput): void {
  const tail = new ByteWriter(4096);
  for (const { body } of added.all) {
    tail.unsigned(body.length);
    tail.put(body);
  }
  const count = unsigned(module.bodyStart.length + added.all.length);
  out.byte(SECTION.CODE);
  out.unsigned(count.length + bodies.length + tail.length);
  out.put(count);
  out.append(bodies.written());
  out.append(tail.written());
}

/** Encodes active segments as empty passive ones: an active segment is empty after instantiation, and indices stay. */
function data({ data: segments }: WasmModule): Uint8Array {
  const out = new ByteWriter();
  out.unsigned(segments.length);
  for (const { offset, bytes } of segments) {
    out.byte(PASSIVE);
    out.unsigned(offset === undefined ? bytes.length : 0);
    if (offset === undefined) out.append(bytes);
  }
  return out.written();
}
