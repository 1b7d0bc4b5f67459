import { ByteReader } from './bytes.ts';
import { formatFunctionType, typeOfFunction, type WasmModule } from './module.ts';
import { quoted, shortened } from './refusal.ts';

/** A function's name for messages: its export, else what the name section says. */
function nameOfFunction(module: WasmModule, functionIndex: number): string | undefined {
  const exported = module.exports.find(({ kind, index }) => kind === 'function' && index === functionIndex);
  return exported?.name ?? nameInSection(module, functionIndex);
}

/** `function 12 "inc"`, or with its type where it has no name. */
export function describeFunction(module: WasmModule, functionIndex: number): string {
  const name = nameOfFunction(module, functionIndex);
  if (name !== undefined) return `function ${functionIndex} ${quoted(name)}`;
  return `function ${functionIndex} ${shortened(formatFunctionType(typeOfFunction(module, functionIndex)))}`;
}

const FUNCTION_NAMES = 1;

/** The name section is only a hint: whatever is wrong with it, there is just no name. */
function nameInSection(module: WasmModule, functionIndex: number): string | undefined {
  try {
    const r = functionNames(module);
    if (r === undefined) return undefined;
    for (let count = r.u32(); count > 0; count--) {
      const index = r.u32();
      if (index === functionIndex) return r.name();
      r.take(r.u32());
    }
  } catch {
    return undefined;
  }
  return undefined;
}

/** Returns what the name section tells by function index, up to the first entry that is malformed. */
export function namesInSection(module: WasmModule): ReadonlyMap<number, string> {
  const names = new Map<number, string>();
  try {
    const r = functionNames(module);
    for (let count = r?.u32() ?? 0; r !== undefined && count > 0; count--) {
      const index = r.u32();
      names.set(index, r.name());
    }
  } catch {
    // The entries before it are as good as they were.
  }
  return names;
}

/** Size of the functions' names in the name section. */
export function functionNameBytes(module: WasmModule): number {
  try {
    const r = functionNames(module);
    return r === undefined ? 0 : r.end - r.position;
  } catch {
    return 0;
  }
}

/** The subsection with the functions' names. */
function functionNames(module: WasmModule): ByteReader | undefined {
  const section = module.customSections.find(({ name }) => name === 'name');
  if (section === undefined) return undefined;
  const r = new ByteReader(section.content, 'name section');
  while (!r.isAtEnd) {
    const id = r.byte();
    const length = r.u32();
    if (id === FUNCTION_NAMES)
      return new ByteReader(section.content, 'name section', r.position, Math.min(r.end, r.position + length));
    r.take(length);
  }
  return undefined;
}
