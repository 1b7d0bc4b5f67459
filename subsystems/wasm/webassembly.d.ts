/**
 * The part of the WebAssembly JavaScript API that this server uses. TypeScript has it only in its browser libraries,
 * which would bring `window` and a thousand other names with them; memory64's `address` is in none of them.
 */
declare namespace WebAssembly {
  interface ModuleExportDescriptor {
    readonly name: string;
    readonly kind: 'function' | 'global' | 'memory' | 'table' | 'tag';
  }
  interface ModuleImportDescriptor extends ModuleExportDescriptor {
    readonly module: string;
  }
  class Module {
    constructor(bytes: Uint8Array | ArrayBuffer);
    static exports(module: Module): ModuleExportDescriptor[];
    static imports(module: Module): ModuleImportDescriptor[];
    static customSections(module: Module, name: string): ArrayBuffer[];
  }
  type ImportValue = ((...args: never[]) => unknown) | Memory | Global | Table;
  class Instance {
    constructor(module: Module, imports?: Readonly<Record<string, Readonly<Record<string, ImportValue>>>>);
    readonly exports: Record<string, unknown>;
  }
  /** Numbers of pages: BigInt where `address` is `i64`. */
  interface MemoryDescriptor {
    readonly initial: number | bigint;
    readonly maximum?: number | bigint;
    readonly shared?: boolean;
    readonly address?: 'i32' | 'i64';
  }
  class Memory {
    constructor(descriptor: MemoryDescriptor);
    readonly buffer: ArrayBuffer;
    grow(pages: number | bigint): number | bigint;
  }
  class Global {
    constructor(descriptor: { readonly value: string; readonly mutable?: boolean }, value?: unknown);
    value: unknown;
  }
  class Table {
    constructor(descriptor: {
      readonly element: string;
      readonly initial: number | bigint;
      readonly maximum?: number | bigint;
      readonly address?: 'i32' | 'i64';
    });
    readonly length: number | bigint;
    get(index: number | bigint): unknown;
    set(index: number | bigint, value?: unknown): void;
  }
  class RuntimeError extends Error {}
  class CompileError extends Error {}
  class LinkError extends Error {}
  function validate(bytes: Uint8Array | ArrayBuffer): boolean;
}
