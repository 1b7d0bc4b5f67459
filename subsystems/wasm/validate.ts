/**
 * Rules that a canister's module must keep, beyond being valid WebAssembly (docs/modules.md, "What is checked").
 * Opcodes are checked by the walk over the code, here only if the module is invalid, and always by the instrumenter.
 */
import { at, messageOf } from '../../kernel/index.ts';
import { boundComplexity } from './complexity.ts';
import { ic0Signature } from './ic0-signatures.ts';
import { decodeBody, InstructionBuffer } from './instructions.ts';
import type { Export, WasmModule } from './module.ts';
import { formatFunctionType, hexByte, typeOfFunction, VALUE_TYPE } from './module.ts';
import { functionNameBytes } from './names.ts';
import { plain, quoted, refusal, shortened } from './refusal.ts';

const CODE_BYTES_MAX = 10 * 1024 * 1024;
const METHODS_MAX = 1000;
const METHOD_NAME_BYTES_MAX = 20_000;
const METADATA_SECTIONS_MAX = 16;
const METADATA_BYTES_MAX = 1024 * 1024;
const TABLE_ELEMENTS_MAX = 1_000_000;
const FUNCTION_NAME_BYTES_MAX = 1024 * 1024;
/** 65,535 pages in 32 bits: the journal's address arithmetic must not wrap at 4 GiB. */
const MEMORY_PAGES_MAX = { 32: 65_535, 64: 98_304 } as const;

const METHOD_PREFIXES = ['canister_update ', 'canister_query ', 'canister_composite_query '] as const;
const HOOKS = new Set([
  'canister_init',
  'canister_pre_upgrade',
  'canister_post_upgrade',
  'canister_inspect_message',
  'canister_heartbeat',
  'canister_global_timer',
  'canister_on_low_wasm_memory',
]);
const RESERVED_EXPORTS = new Set([
  'canister counter_instructions',
  'canister_start',
  'canister counter_dirty_pages',
  'canister counter_accessed_pages',
  'stable_memory',
  'stable_bytemap_memory',
]);

/** Refuses a module that no canister may be; the message names the thing and the place. */
export function validateCanister(module: WasmModule): void {
  limits(module);
  imports(module);
  memory(module);
  table(module);
  globals(module);
  exports(module);
  metadata(module);
  elements(module);
  data(module);
  boundComplexity(module);
  wellFormed(module);
}

function limits(module: WasmModule): void {
  if (module.codeBytes > CODE_BYTES_MAX)
    throw refusal(
      'wasm-limit',
      `the code section has ${module.codeBytes} bytes, at most ${CODE_BYTES_MAX} are allowed`,
    );
  const nameBytes = functionNameBytes(module);
  if (nameBytes > FUNCTION_NAME_BYTES_MAX) {
    throw refusal(
      'wasm-limit',
      `the function names have ${nameBytes} bytes, at most ${FUNCTION_NAME_BYTES_MAX} are allowed; strip the name section`,
    );
  }
}

function imports(module: WasmModule): void {
  for (const [index, { module: from, name, typeIndex }] of module.imports.entries()) {
    if (from.startsWith('wasi')) {
      throw refusal(
        'wasm-import',
        `the module imports ${plain(from)}.${plain(name)}: WASI does not exist in a canister; run wasi2ic on the module, which replaces these imports`,
      );
    }
    if (from !== 'ic0')
      throw refusal(
        'wasm-import',
        `the module imports ${plain(from)}.${plain(name)}: only functions of ic0 can be imported`,
      );
    const signature = ic0Signature(name);
    if (signature === undefined)
      throw refusal('wasm-import', `the module imports ic0.${plain(name)}, which does not exist`);
    if (signature.isOnly32Bit && module.pointerWidth === 64) {
      throw refusal(
        'wasm-import',
        `the module imports ic0.${plain(name)}, which exists only for 32-bit modules; this one has a 64-bit memory`,
      );
    }
    const valueType = (type: string) =>
      type === 'i32' || (module.pointerWidth === 32 && (type === 'I' || type === 'bits'))
        ? VALUE_TYPE.i32
        : VALUE_TYPE.i64;
    const expected = {
      params: signature.params.map(valueType),
      results: signature.result === undefined ? [] : [valueType(signature.result)],
    };
    const actual = module.types[typeIndex];
    if (actual === undefined || formatFunctionType(actual) !== formatFunctionType(expected)) {
      const has = actual === undefined ? 'no type' : shortened(formatFunctionType(actual));
      throw refusal(
        'wasm-import',
        `import ${index}, ic0.${name}, has type ${has}; in a ${module.pointerWidth}-bit module it must be ${formatFunctionType(expected)}`,
      );
    }
  }
}

function memory(module: WasmModule): void {
  const type = module.memories[0];
  if (type === undefined) return;
  const max = MEMORY_PAGES_MAX[module.pointerWidth];
  if (type.minimum > max)
    throw refusal('wasm-limit', `the memory begins with ${type.minimum} pages, at most ${max} are possible`);
  if (type.is64 && type.maximum !== undefined && type.maximum > max) {
    throw refusal('wasm-limit', `the memory's maximum is ${type.maximum} pages, at most ${max} are possible`);
  }
  if (type.maximum !== undefined && type.maximum < type.minimum) {
    throw refusal(
      'wasm-malformed',
      `the memory's maximum of ${type.maximum} pages is less than its minimum of ${type.minimum}`,
    );
  }
}

function table(module: WasmModule): void {
  const type = module.tables[0];
  if (type !== undefined && type.minimum > TABLE_ELEMENTS_MAX) {
    throw refusal('wasm-limit', `the table has ${type.minimum} elements, at most ${TABLE_ELEMENTS_MAX} are allowed`);
  }
}

function globals(module: WasmModule): void {
  for (const [index, { type }] of module.globals.entries()) {
    if (type < VALUE_TYPE.v128)
      throw refusal(
        'wasm-unsupported',
        `global ${index} has type ${hexByte(type)}; only numbers and v128 are supported`,
      );
  }
}

function exports(module: WasmModule): void {
  const methods = new Map<string, string>();
  const seen = new Set<string>();
  let nameBytes = 0;
  for (const exported of module.exports) {
    const { name, kind } = exported;
    if (seen.has(name)) throw refusal('wasm-malformed', `${quoted(name)} is exported twice`);
    seen.add(name);
    if (RESERVED_EXPORTS.has(name)) throw refusal('wasm-export', `the export name ${quoted(name)} is reserved`);
    if (kind !== 'function') continue;
    const prefix = METHOD_PREFIXES.find((candidate) => name.startsWith(candidate));
    if (prefix !== undefined) {
      const method = name.slice(prefix.length);
      const other = methods.get(method);
      if (other !== undefined)
        throw refusal('wasm-export', `method ${quoted(method)} is exported as ${other.trim()} and as ${prefix.trim()}`);
      methods.set(method, prefix);
      nameBytes += Buffer.byteLength(method);
    } else if (name.startsWith('canister_') && !HOOKS.has(name)) {
      throw refusal(
        'wasm-export',
        `the export ${quoted(name)} is neither a method nor a hook; names with canister_ are reserved`,
      );
    }
    if (prefix !== undefined || HOOKS.has(name)) entryType(module, exported);
  }
  if (methods.size > METHODS_MAX)
    throw refusal('wasm-limit', `the module exports ${methods.size} methods, at most ${METHODS_MAX} are allowed`);
  if (nameBytes > METHOD_NAME_BYTES_MAX)
    throw refusal(
      'wasm-limit',
      `the method names have ${nameBytes} bytes, at most ${METHOD_NAME_BYTES_MAX} are allowed`,
    );
}

function entryType(module: WasmModule, { name, index }: Export): void {
  if (index >= module.functionTypes.length)
    throw refusal('wasm-malformed', `${quoted(name)} exports function ${index}, which does not exist`);
  const type = typeOfFunction(module, index);
  if (type.params.length > 0 || type.results.length > 0) {
    throw refusal(
      'wasm-export',
      `${quoted(name)} (function ${index}) has type ${shortened(formatFunctionType(type))}; it must be () -> ()`,
    );
  }
}

function metadata(module: WasmModule): void {
  const visibility = new Map<string, string>();
  let bytes = 0;
  for (const { name, content } of module.customSections) {
    if (!name.startsWith('icp:')) continue;
    const match = /^icp:(public|private) (.*)$/s.exec(name);
    if (match === null)
      throw refusal(
        'wasm-unsupported',
        `custom section ${quoted(name)}: names with icp: must go on with "public " or "private "`,
      );
    const key = at(match, 2, 'group of the name');
    if (visibility.has(key)) throw refusal('wasm-unsupported', `metadata ${quoted(key)} stands in the module twice`);
    visibility.set(key, at(match, 1, 'group of the name'));
    bytes += Buffer.byteLength(key) + content.length;
  }
  if (visibility.size > METADATA_SECTIONS_MAX)
    throw refusal(
      'wasm-limit',
      `the module has ${visibility.size} icp: sections, at most ${METADATA_SECTIONS_MAX} are allowed`,
    );
  if (bytes > METADATA_BYTES_MAX)
    throw refusal('wasm-limit', `the icp: sections have ${bytes} bytes, at most ${METADATA_BYTES_MAX} are allowed`);
}

/**
 * Checks the offsets of element segments. Whether segments fit is known before anything runs, and does not belong to
 * validity: segment-bounds.ts.
 */
function elements(module: WasmModule): void {
  for (const [index, { mode, offset }] of module.elements.entries()) {
    if (mode === 'active' && offset?.value === undefined)
      throw refusal('wasm-unsupported', `element segment ${index}: its offset must be a constant`);
  }
}

function data(module: WasmModule): void {
  const opcode = module.pointerWidth === 64 ? 0x42 : 0x41;
  for (const [index, { offset }] of module.data.entries()) {
    if (offset === undefined) continue;
    if (offset.value === undefined || offset.bytes[0] !== opcode) {
      throw refusal(
        'wasm-unsupported',
        `data segment ${index}: its offset must be an ${module.pointerWidth === 64 ? 'i64' : 'i32'}.const`,
      );
    }
    if (module.memories.length === 0)
      throw refusal('wasm-malformed', `data segment ${index}: the module has no memory`);
  }
}

/** V8 is the judge of types; if it says no, our own walk may have the better explanation. */
function wellFormed(module: WasmModule): void {
  if (WebAssembly.validate(module.bytes)) return;
  const buffer = new InstructionBuffer();
  for (let body = 0; body < module.bodyStart.length; body++) decodeBody(module, body, buffer);
  const reason = whyInvalid(module.bytes);
  throw refusal('wasm-malformed', `invalid module: ${reason}`);
}

/** V8's words, without its own name in front. */
function whyInvalid(bytes: Uint8Array): string {
  try {
    return WebAssembly.Module.exports(new WebAssembly.Module(bytes)).length >= 0 ? 'it does not validate' : '';
  } catch (error) {
    return messageOf(error).replace(/^WebAssembly\.Module\(\): /, '');
  }
}
