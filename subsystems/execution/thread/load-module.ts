/**
 * Module worker: turns bytes of a module into code that can run. Touches the cache on disk and V8's compiler; runs
 * nothing but `get_candid_pointer`.
 */
import { isDeepStrictEqual } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { messageOf, ServerError } from '../../../kernel/index.ts';
import { type InstrumentedModule, instrument } from '../../instrument/index.ts';
import { decodeModule, type FunctionType, validateCanister, type WasmModule } from '../../wasm/index.ts';
import type { CodeCaches } from './code-caches.ts';
import { ControlMemory } from '../memory/control-memory.ts';
import type { MethodKind } from '../../ic/index.ts';
import type { ModuleInfo } from '../index.ts';
import { Instance } from '../engine/instance.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import type { LoadedModule } from '../pool/module-loader.ts';

/** Larger modules are no programs (docs/modules.md). */
const MODULE_BYTES_MAX = 100 * 1024 * 1024;
/** `get_candid_pointer` only returns an address. */
const CANDID_POINTER_INSTRUCTIONS = 10_000_000;
/** The instructions above would suffice to touch 6 GiB. */
const CANDID_POINTER_PAGES = 4096;

const METHOD_PREFIXES: readonly (readonly [string, MethodKind])[] = [
  ['canister_update ', 'update'],
  ['canister_query ', 'query'],
  ['canister_composite_query ', 'composite_query'],
];

interface LoadOptions {
  readonly wasmStackBytes: number;
  /** Cache of instrumented modules. */
  readonly cache?: Pick<CodeCaches, 'read' | 'write' | 'readInfo' | 'writeInfo'> | undefined;
  /** Called with the reason if a module could not be kept. */
  readonly notKept?: (reason: unknown) => void;
  /** Called with the module's types just before V8 sees them. */
  readonly compiling?: (types: readonly FunctionType[]) => void;
}

/** Turns bytes of a module as uploaded into code that can run. Throws a ServerError that says what is wrong. */
export function loadModule(uploaded: Uint8Array, hash: string, options: LoadOptions): LoadedModule {
  const bytes = unpacked(uploaded);
  const module = decodeModule(bytes);
  validateCanister(module);
  const instrumented =
    options.cache?.read(hash, (reason) => options.notKept?.(reason)) ?? instrumentAndKeep(module, hash, options);
  options.compiling?.(module.types);
  const code: InstrumentedCode = {
    module: new WebAssembly.Module(instrumented.bytes),
    layout: instrumented.layout,
  };
  const methods = new Map<string, MethodKind>();
  for (const exported of code.layout.entries) {
    for (const [prefix, kind] of METHOD_PREFIXES) {
      if (exported.startsWith(prefix)) methods.set(exported.slice(prefix.length), kind);
    }
  }
  const metadata = metadataOf(module);
  const info: ModuleInfo = {
    hash,
    pointerWidth: code.layout.pointerWidth,
    methods,
    entries: new Map(code.layout.entries.map((exported, entry) => [exported, entry])),
    globals: code.layout.globals,
    globalsBytes: code.layout.globalsBytes,
    metadata,
    candid: textOf(metadata, 'candid:service') ?? candidFromPointer(code, options.wasmStackBytes),
    candidArgs: textOf(metadata, 'candid:args'),
  };
  keepInfo(info, code, options);
  return { info, code };
}

/**
 * Keeps the facts that the next start needs before it loads the module. Keeps nothing if `get_candid_pointer` gave no
 * text: it may give one with another stack size.
 */
function keepInfo(info: ModuleInfo, { layout }: InstrumentedCode, { cache, notKept }: LoadOptions): void {
  if (layout.hasCandidPointer && info.candid === undefined) return;
  if (cache === undefined || isDeepStrictEqual(cache.readInfo(info.hash), info)) return;
  const reason = cache.writeInfo(info);
  if (reason !== undefined) notKept?.(reason);
}

function instrumentAndKeep(module: WasmModule, hash: string, { cache, notKept }: LoadOptions): InstrumentedModule {
  const instrumented = instrument(module);
  const reason = cache?.write(hash, instrumented);
  if (reason !== undefined) notKept?.(reason);
  return instrumented;
}

function unpacked(uploaded: Uint8Array): Uint8Array {
  if (uploaded[0] !== 0x1f || uploaded[1] !== 0x8b) return uploaded;
  try {
    return gunzipSync(uploaded, { maxOutputLength: MODULE_BYTES_MAX });
  } catch (error) {
    const tooLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
    const reason = tooLarge ? `it unpacks to more than ${MODULE_BYTES_MAX} bytes` : messageOf(error);
    throw new ServerError('invalid', 'module-gzip-bad', `the gzip file cannot be unpacked: ${reason}`, {
      cause: error,
    });
  }
}

type Metadata = ModuleInfo['metadata'];

/** Returns the contents of the sections `icp:public <name>` and `icp:private <name>`. */
function metadataOf(module: WasmModule): Metadata {
  const metadata = new Map<string, { readonly isPublic: boolean; readonly content: Uint8Array }>();
  for (const { name, content } of module.customSections) {
    const match = /^icp:(public|private) (.*)$/s.exec(name);
    if (match?.[2] === undefined) continue;
    metadata.set(match[2], { isPublic: match[1] === 'public', content: content.slice() });
  }
  return metadata;
}

function textOf(metadata: Metadata, name: string): string | undefined {
  const section = metadata.get(name);
  return section === undefined ? undefined : Buffer.from(section.content).toString('utf8');
}

/**
 * Returns, for Rust modules without metadata, the text that `get_candid_pointer` points to, from an instance that is
 * thrown away.
 */
function candidFromPointer(code: InstrumentedCode, stackBytes: number): string | undefined {
  if (!code.layout.hasCandidPointer) return undefined;
  const control = new ControlMemory({ stackBytes, journalBytesMax: 1 << 20 });
  control.message.touchedPagesMax = CANDID_POINTER_PAGES;
  return Instance.create(code, trappingImports(code.module), control).candidText(CANDID_POINTER_INSTRUCTIONS);
}

function trappingImports(module: WebAssembly.Module): Record<string, () => never> {
  const imports: Record<string, () => never> = {};
  for (const { module: from, name, kind } of WebAssembly.Module.imports(module)) {
    if (from !== 'ic0' || kind !== 'function') continue;
    imports[name] = () => {
      throw new Error(`get_candid_pointer may not call ic0.${name}`);
    };
  }
  return imports;
}
