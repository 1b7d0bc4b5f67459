import { ByteReader } from './bytes.ts';
import { decodeConstantExpression } from './constant-expression.ts';
import type {
  CustomSection,
  DataSegment,
  ElementSegment,
  Export,
  ExternalKind,
  FunctionType,
  Global,
  Import,
  Limits,
  TableType,
  ValueType,
  WasmModule,
} from './module.ts';
import { hexByte, isValueType, VALUE_TYPE } from './module.ts';
import { hex, plain, refusal } from './refusal.ts';

const MODULE_BYTES_MAX = 100 * 1024 * 1024;

/** Numbers of things beyond which a module is no program; they bound the memory that decoding takes. */
const COUNT_MAX = {
  /**
   * V8 keeps every different type of every module that the process ever saw, and ends the process at 2,000,000
   * (measured on Node 26: "too many canonicalized types"); an instrumented module has twice its own. Large programs
   * have some 2,000.
   */
  types: 5_000,
  /** V8's bound is 1000; the instrumenter adds two parameters and a result. */
  'parameters of a type': 998,
  'results of a type': 999,
  imports: 10_000,
  functions: 50_000,
  tables: 1,
  memories: 1,
  globals: 1000,
  exports: 60_000,
  'element segments': 50_000,
  elements: 1_000_000,
  'data segments': 100_000,
  'custom sections': 1000,
} as const;

/** Each byte is a value type or so, and becomes a number in several lists; the largest real section has some 10 KB. */
const TYPE_SECTION_BYTES_MAX = 2 * 1024 * 1024;

/** Section ids in the order in which they must come (12, data count, stands before 10, code). */
const SECTION_ORDER = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11] as const;
const SECTION_NAMES = [
  'custom',
  'type',
  'import',
  'function',
  'table',
  'memory',
  'global',
  'export',
  'start',
  'element',
  'code',
  'data',
  'data count',
  'tag',
] as const;
const EXTERNAL_KINDS: readonly ExternalKind[] = ['function', 'table', 'memory', 'global', 'tag'];

/** Decodes a module's sections; refuses what is malformed, what no canister may have, and what is too much. */
export function decodeModule(bytes: Uint8Array): WasmModule {
  return new ModuleDecoder(bytes).decode();
}

class ModuleDecoder {
  readonly #bytes: Uint8Array;
  #types: FunctionType[] = [];
  readonly #imports: Import[] = [];
  readonly #functionTypes: number[] = [];
  #importedFunctions = 0;
  #tables: TableType[] = [];
  #memories: Limits[] = [];
  #globals: Global[] = [];
  #exports: Export[] = [];
  #start: number | undefined;
  #elements: ElementSegment[] = [];
  #elementCount = 0;
  #dataCount: number | undefined;
  #bodyStart = new Uint32Array(0);
  #bodyEnd = new Uint32Array(0);
  #codeBytes = 0;
  #data: DataSegment[] = [];
  readonly #customSections: CustomSection[] = [];

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  decode(): WasmModule {
    this.#header();
    const top = new ByteReader(this.#bytes, 'module', 8);
    let last = -1;
    while (!top.isAtEnd) {
      const at = top.position;
      const id = top.byte();
      const name = SECTION_NAMES[id];
      if (name === undefined) top.fail(`unknown section ${id}`, at);
      const length = top.u32();
      const start = top.position;
      if (length > top.end - start)
        top.fail(`the ${name} section says ${length} bytes, ${top.end - start} are left`, at);
      top.position = start + length;
      const section = new ByteReader(this.#bytes, `${name} section`, start, top.position);
      if (id !== 0) {
        const order = SECTION_ORDER.indexOf(id as (typeof SECTION_ORDER)[number]);
        if (id === 13)
          throw refusal('wasm-unsupported', `exception handling is not supported: tag section at offset ${hex(at)}`);
        if (order <= last) top.fail(`the ${name} section is out of order or repeated`, at);
        last = order;
      }
      this.#section(id, section);
      if (!section.isAtEnd) section.fail('the section is longer than its content');
    }
    return this.#finish();
  }

  #header(): void {
    const bytes = this.#bytes;
    if (bytes.length > MODULE_BYTES_MAX)
      throw refusal('wasm-limit', `the module has ${bytes.length} bytes, at most ${MODULE_BYTES_MAX} are allowed`);
    if (bytes[0] !== 0 || bytes[1] !== 0x61 || bytes[2] !== 0x73 || bytes[3] !== 0x6d) {
      throw refusal(
        'wasm-malformed',
        bytes.length < 4
          ? `this is not a WebAssembly module: it has only ${bytes.length} bytes`
          : 'this is not a WebAssembly module: it does not begin with 00 61 73 6d',
      );
    }
    if (bytes[4] === 0x0d || bytes[6] === 1)
      throw refusal(
        'wasm-unsupported',
        'this is a WebAssembly component and not a core module; build for wasm32-unknown-unknown',
      );
    if (bytes[4] !== 1 || bytes[5] !== 0 || bytes[6] !== 0 || bytes[7] !== 0)
      throw refusal('wasm-malformed', 'unknown version of the binary format at offset 0x4');
  }

  #section(id: number, r: ByteReader): void {
    switch (id) {
      case 0:
        if (this.#customSections.length >= COUNT_MAX['custom sections'])
          throw tooMany('custom sections', this.#customSections.length + 1);
        this.#customSections.push({ name: r.name(), content: r.take(r.end - r.position) });
        return;
      case 1:
        if (r.end - r.position > TYPE_SECTION_BYTES_MAX) {
          throw refusal(
            'wasm-limit',
            `the type section has ${r.end - r.position} bytes, at most ${TYPE_SECTION_BYTES_MAX} are allowed`,
          );
        }
        this.#types = vector(r, 'types', () => functionType(r));
        return;
      case 2:
        vector(r, 'imports', () => this.#import(r));
        return;
      case 3:
        vector(r, 'functions', () => this.#functionTypes.push(this.#typeIndex(r)));
        return;
      case 4:
        this.#tables = vector(r, 'tables', () => tableType(r));
        return;
      case 5:
        this.#memories = vector(r, 'memories', () => limits(r));
        return;
      case 6:
        this.#globals = vector(r, 'globals', () => {
          const type = valueType(r);
          return { type, isMutable: mutability(r), initial: decodeConstantExpression(r) };
        });
        return;
      case 7:
        this.#exports = vector(r, 'exports', () => ({ name: r.name(), kind: externalKind(r), index: r.u32() }));
        return;
      case 8:
        this.#start = r.u32();
        return;
      case 9:
        this.#elements = vector(r, 'element segments', () => this.#elementSegment(r));
        return;
      case 10:
        this.#code(r);
        return;
      case 11:
        this.#data = vector(r, 'data segments', () => dataSegment(r));
        return;
      default:
        this.#dataCount = r.u32();
    }
  }

  #import(r: ByteReader): void {
    const at = r.position;
    const module = r.name();
    const name = r.name();
    const kind = externalKind(r);
    let typeIndex = -1;
    if (kind === 'function') {
      typeIndex = this.#typeIndex(r);
      this.#functionTypes.push(typeIndex);
      this.#importedFunctions++;
    } else {
      const hint =
        kind === 'tag'
          ? 'exception handling is not supported'
          : 'a canister defines its own and imports only functions of ic0';
      throw refusal(
        'wasm-import',
        `the module imports the ${kind} ${plain(module)}.${plain(name)} (offset ${hex(at)}): ${hint}`,
      );
    }
    this.#imports.push({ module, name, kind, typeIndex });
  }

  #typeIndex(r: ByteReader): number {
    const at = r.position;
    const index = r.u32();
    if (index >= this.#types.length) r.fail(`type ${index} does not exist, there are ${this.#types.length}`, at);
    return index;
  }

  #elementSegment(r: ByteReader): ElementSegment {
    const at = r.position;
    const flags = r.u32();
    if (flags > 7) r.fail(`unknown element segment flags ${flags}`, at);
    const mode = (flags & 1) === 0 ? 'active' : (flags & 2) === 0 ? 'passive' : 'declarative';
    const table = mode === 'active' && (flags & 2) !== 0 ? r.u32() : 0;
    const offset = mode === 'active' ? decodeConstantExpression(r) : undefined;
    let elementType: ValueType = VALUE_TYPE.funcref;
    if ((flags & 3) !== 0) {
      if ((flags & 4) !== 0) elementType = referenceType(r);
      else if (r.byte() !== 0) r.fail('the elements are not functions', r.position - 1);
    }
    const count = r.u32();
    this.#elementCount += count;
    if (this.#elementCount > COUNT_MAX.elements) throw tooMany('elements', this.#elementCount);
    if (count > r.end - r.position) r.fail(`${count} elements do not fit into ${r.end - r.position} bytes`, at);
    if ((flags & 4) === 0) {
      const functions = new Uint32Array(count);
      for (let i = 0; i < count; i++) functions[i] = r.u32();
      return { mode, elementType, table, offset, functions, expressions: undefined };
    }
    const expressions = Array.from({ length: count }, () => decodeConstantExpression(r));
    return { mode, elementType, table, offset, functions: undefined, expressions };
  }

  #code(r: ByteReader): void {
    this.#codeBytes = r.end - r.position;
    const count = vectorLength(r, 'functions');
    this.#bodyStart = new Uint32Array(count);
    this.#bodyEnd = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
      const length = r.u32();
      this.#bodyStart[i] = r.position;
      r.take(length);
      this.#bodyEnd[i] = r.position;
    }
  }

  #finish(): WasmModule {
    const defined = this.#functionTypes.length - this.#importedFunctions;
    if (defined !== this.#bodyStart.length) {
      throw refusal(
        'wasm-malformed',
        `the function section declares ${defined} functions, the code section has ${this.#bodyStart.length}`,
      );
    }
    if (this.#dataCount !== undefined && this.#dataCount !== this.#data.length) {
      throw refusal(
        'wasm-malformed',
        `the data count section says ${this.#dataCount} segments, the data section has ${this.#data.length}`,
      );
    }
    return {
      bytes: this.#bytes,
      types: this.#types,
      imports: this.#imports,
      functionTypes: Uint32Array.from(this.#functionTypes),
      importedFunctionCount: this.#importedFunctions,
      tables: this.#tables,
      memories: this.#memories,
      globals: this.#globals,
      exports: this.#exports,
      start: this.#start,
      elements: this.#elements,
      hasDataCount: this.#dataCount !== undefined,
      bodyStart: this.#bodyStart,
      bodyEnd: this.#bodyEnd,
      codeBytes: this.#codeBytes,
      data: this.#data,
      customSections: this.#customSections,
      pointerWidth: this.#memories[0]?.is64 === true ? 64 : 32,
    };
  }
}

function tooMany(what: keyof typeof COUNT_MAX, count: number): Error {
  return refusal('wasm-limit', `the module has ${count} ${what}, at most ${COUNT_MAX[what]} are allowed`);
}

function vectorLength(r: ByteReader, what: keyof typeof COUNT_MAX): number {
  const at = r.position;
  const count = r.u32();
  if (count > COUNT_MAX[what]) throw tooMany(what, count);
  if (count > r.end - r.position) r.fail(`${count} ${what} do not fit into ${r.end - r.position} bytes`, at);
  return count;
}

function vector<T>(r: ByteReader, what: keyof typeof COUNT_MAX, item: () => T): T[] {
  const count = vectorLength(r, what);
  const items: T[] = [];
  for (let i = 0; i < count; i++) items.push(item());
  return items;
}

function valueType(r: ByteReader): ValueType {
  const byte = r.byte();
  if (!isValueType(byte))
    throw refusal(
      'wasm-unsupported',
      `${r.what}: value type ${hexByte(byte)} at offset ${hex(r.position - 1)} is not supported`,
    );
  return byte;
}

function referenceType(r: ByteReader): ValueType {
  const type = valueType(r);
  if (type !== VALUE_TYPE.funcref && type !== VALUE_TYPE.externref)
    r.fail('a reference type is needed', r.position - 1);
  return type;
}

function functionType(r: ByteReader): FunctionType {
  const form = r.byte();
  if (form !== 0x60)
    throw refusal(
      'wasm-unsupported',
      `type section: type form ${hexByte(form)} at offset ${hex(r.position - 1)} (garbage collection proposal) is not supported`,
    );
  const params = vector(r, 'parameters of a type', () => valueType(r));
  return { params, results: vector(r, 'results of a type', () => valueType(r)) };
}

function limits(r: ByteReader): Limits {
  const at = r.position;
  const flags = r.byte();
  if ((flags & 2) !== 0)
    throw refusal('wasm-unsupported', `${r.what}: shared memory (threads) at offset ${hex(at)} is not supported`);
  if (flags > 7)
    throw refusal('wasm-unsupported', `${r.what}: limits of kind ${flags} at offset ${hex(at)} are not supported`);
  const minimum = r.u64();
  return { is64: (flags & 4) !== 0, minimum, maximum: (flags & 1) !== 0 ? r.u64() : undefined };
}

function tableType(r: ByteReader): TableType {
  if (r.bytes[r.position] === 0x40)
    throw refusal(
      'wasm-unsupported',
      `table section: a table with an initialiser at offset ${hex(r.position)} is not supported`,
    );
  const elementType = referenceType(r);
  return { elementType, ...limits(r) };
}

function mutability(r: ByteReader): boolean {
  const byte = r.byte();
  if (byte > 1) r.fail(`unknown mutability ${byte}`, r.position - 1);
  return byte === 1;
}

function externalKind(r: ByteReader): ExternalKind {
  const byte = r.byte();
  return EXTERNAL_KINDS[byte] ?? r.fail(`unknown kind ${byte}`, r.position - 1);
}

function dataSegment(r: ByteReader): DataSegment {
  const at = r.position;
  const flags = r.u32();
  if (flags > 2) r.fail(`unknown data segment flags ${flags}`, at);
  if (flags === 2 && r.u32() !== 0)
    throw refusal(
      'wasm-unsupported',
      `data section: a segment for a second memory at offset ${hex(at)} is not supported`,
    );
  const offset = flags === 1 ? undefined : decodeConstantExpression(r);
  return { offset, bytes: r.take(r.u32()) };
}
