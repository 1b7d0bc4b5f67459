import { createRequire } from 'node:module';

interface WabtModule {
  toBinary(options: { write_debug_names?: boolean }): { readonly buffer: Uint8Array };
  toText(options: { foldExprs?: boolean; inlineExport?: boolean }): string;
  generateNames(): void;
  applyNames(): void;
  destroy(): void;
}
interface Wabt {
  parseWat(file: string, source: string, features: typeof FEATURES): WabtModule;
  readWasm(bytes: Uint8Array, options: { readDebugNames?: boolean } & typeof FEATURES): WabtModule;
}

const FEATURES = {
  mutable_globals: true,
  sat_float_to_int: true,
  sign_extension: true,
  multi_value: true,
  bulk_memory: true,
  reference_types: true,
  simd: true,
  tail_call: true,
  memory64: true,
  multi_memory: true,
  annotations: false,
  code_metadata: false,
  gc: false,
} as const;

const load = createRequire(import.meta.url)('wabt') as () => Promise<Wabt>;
const wabt = await load();

/** Converts WebAssembly text to a binary. */
export function wat(source: string): Uint8Array {
  const module = wabt.parseWat('test.wat', source, FEATURES);
  try {
    return module.toBinary({ write_debug_names: false }).buffer;
  } finally {
    module.destroy();
  }
}

/** Converts a binary to text with one instruction a line. */
export function watOf(bytes: Uint8Array): string {
  // The bytes are copied: wabt reads the whole buffer of a view.
  const module = wabt.readWasm(bytes.slice(), { readDebugNames: false, ...FEATURES });
  try {
    return module.toText({ foldExprs: false, inlineExport: false });
  } finally {
    module.destroy();
  }
}
