/** Value types by their byte in the binary format. */
export const VALUE_TYPE = {
  i32: 0x7f,
  i64: 0x7e,
  f32: 0x7d,
  f64: 0x7c,
  v128: 0x7b,
  funcref: 0x70,
  externref: 0x6f,
} as const;
export type ValueType = number;

export interface FunctionType {
  readonly params: readonly ValueType[];
  readonly results: readonly ValueType[];
}

export interface Limits {
  readonly is64: boolean;
  readonly minimum: number;
  readonly maximum: number | undefined;
}

export interface TableType extends Limits {
  readonly elementType: ValueType;
}

export type ExternalKind = 'function' | 'table' | 'memory' | 'global' | 'tag';

export interface Import {
  readonly module: string;
  readonly name: string;
  readonly kind: ExternalKind;
  /** Index of a function's type. */
  readonly typeIndex: number;
}

export interface Export {
  readonly name: string;
  readonly kind: ExternalKind;
  readonly index: number;
}

/** A constant expression of one instruction. */
export interface ConstantExpression {
  /** The expression's bytes with the final `end`. */
  readonly bytes: Uint8Array;
  /** The function whose reference it is, for `ref.func`. */
  readonly functionIndex: number | undefined;
  /** The number it is, unsigned, for `i32.const` and `i64.const`. */
  readonly value: number | undefined;
}

export interface Global {
  readonly type: ValueType;
  readonly isMutable: boolean;
  readonly initial: ConstantExpression;
}

/** An element segment, its items always function indices or expressions. */
export interface ElementSegment {
  readonly mode: 'active' | 'passive' | 'declarative';
  readonly elementType: ValueType;
  readonly table: number;
  /** Offset of an active segment. */
  readonly offset: ConstantExpression | undefined;
  readonly functions: Uint32Array | undefined;
  readonly expressions: readonly ConstantExpression[] | undefined;
}

export interface DataSegment {
  /** Offset of an active segment; undefined for a passive one. */
  readonly offset: ConstantExpression | undefined;
  readonly bytes: Uint8Array;
}

export interface CustomSection {
  readonly name: string;
  readonly content: Uint8Array;
}

/** A module's sections, decoded; function bodies stay bytes. */
export interface WasmModule {
  readonly bytes: Uint8Array;
  readonly types: readonly FunctionType[];
  readonly imports: readonly Import[];
  /** Type index of each function, imported ones first. */
  readonly functionTypes: Uint32Array;
  readonly importedFunctionCount: number;
  readonly tables: readonly TableType[];
  readonly memories: readonly Limits[];
  readonly globals: readonly Global[];
  readonly exports: readonly Export[];
  readonly start: number | undefined;
  readonly elements: readonly ElementSegment[];
  /** True if the module has a data count section. */
  readonly hasDataCount: boolean;
  /** First and behind-the-last byte of each body, locals included. */
  readonly bodyStart: Uint32Array;
  readonly bodyEnd: Uint32Array;
  readonly codeBytes: number;
  readonly data: readonly DataSegment[];
  readonly customSections: readonly CustomSection[];
  /** 64 if the memory is, else 32. */
  readonly pointerWidth: 32 | 64;
}

/** The type of a function by its index. */
export function typeOfFunction(module: WasmModule, functionIndex: number): FunctionType {
  const type = module.types[module.functionTypes[functionIndex] ?? -1];
  if (type === undefined) throw new Error(`function ${functionIndex} has no type`);
  return type;
}

const TYPE_NAMES = new Map<number, string>(Object.entries(VALUE_TYPE).map(([name, byte]) => [byte, name]));

/** `(i32, i64) -> (f32)` */
export function formatFunctionType(type: FunctionType): string {
  const list = (types: readonly ValueType[]) =>
    `(${types.map((byte) => TYPE_NAMES.get(byte) ?? hexByte(byte)).join(', ')})`;
  return `${list(type.params)} -> ${list(type.results)}`;
}

export function hexByte(byte: number): string {
  return `0x${byte.toString(16).padStart(2, '0')}`;
}

export function isValueType(byte: number): boolean {
  return TYPE_NAMES.has(byte);
}
