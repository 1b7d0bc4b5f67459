/**
 * One run of the Motoko compiler.
 *
 * The npm package holds moc translated to JavaScript, with all its state in module variables: the virtual files, the
 * flags, and counters for generated names that never go back. Two compilations in one instance would therefore
 * disturb each other: the second module differs in some bytes from what it would be alone, and an enhanced actor
 * after a classical one ends in `Fatal error (exit 1)`. So what a compilation leaves behind, and what reading imports
 * does, is taken back (moc-state.ts), and the next one finds an instance as if new: the bytes are a function of the
 * source, which upgrades rely on to tell whether a module changed. An instance that the compiler gave up in is not
 * used again.
 *
 * The instance lives in a bare V8 context: it has JavaScript's own objects and a text codec, but no `process`, no
 * `require`, no network. What it can read is exactly the files it is given.
 */
import { getCompileCacheDir } from 'node:module';
import { getHeapStatistics } from 'node:v8';
import vm from 'node:vm';
import { CORE_ROOT } from './core-package.ts';
import type { Diagnostic } from './diagnostics.ts';
import { ExactEncoder } from './exact-encoder.ts';
import { MOC_MEMORY_MB } from './moc-protocol.ts';
import type {
  Compilation,
  CompileRequest,
  ImportsRequest,
  MocRequest,
  MocResponse,
  ParsedImport,
  SourceParts,
  StableRequest,
  WarmRequest,
} from './moc-protocol.ts';
import { MocState, type ShownState } from './moc-state.ts';
import type { Position } from './text-lines.ts';
import { loadProgram, type Program } from './program-code.ts';

/** The part of the compiler's face that is used here. */
interface Moc {
  saveFile(path: string, content: string): unknown;
  addPackage(name: string, folder: string): unknown;
  /** Sets the folder in which `<principal>.did` lies for each imported actor. */
  setCandidPath(folder: string): unknown;
  setActorAliases(aliases: readonly (readonly [name: string, principal: string])[]): unknown;
  gcFlags(flag: string): unknown;
  setPublicMetadata(names: readonly string[]): unknown;
  setExtraFlags(flags: readonly string[]): unknown;
  compileWasm(mode: 'ic', main: string): unknown;
  parseMotoko(recovers: boolean, text: string): unknown;
  /** Takes names of files. */
  stableCompatible(before: string, after: string): unknown;
}

const ERROR_SEVERITY = 1;
/** Folder beside the project's own files, whose paths are relative and hold no colon there. */
export const INTERFACES_ROOT = 'canister:';
const STACK_OVERFLOW = 'Stack_overflow';
/** Compilations after which V8 has compiled most of the code that they run. */
const WARM_COMPILATIONS = 3;
/** No compilation is begun ahead after that. */
const WARMING_MS_MAX = 2500;
/** An instance behind which so much is in memory is not used again. */
const HEAP_BYTES_MAX = (MOC_MEMORY_MB / 2) * 2 ** 20;
const BEFORE = 'before.most';
const AFTER = 'after.most';

/** The program in a context of its own. */
interface Instance {
  readonly program: string;
  readonly moc: Moc;
  /** Undefined if the program's state is not known. */
  readonly shown: ShownState | undefined;
}

/** An instance that can be made as if new again. */
interface ReusableInstance extends Instance {
  /** Undefined if the instance cannot be made as if new. */
  readonly state: MocState | undefined;
  /**
   * True if the instance has read texts since it was as if new. The next reading sees nothing of what this leaves
   * behind.
   */
  hasRead: boolean;
}

/** The instance for the next compilation, and for what is read before. */
let spare: ReusableInstance | undefined;
/** The instance that has compiled, with what the compilation has left. */
let used: ReusableInstance | undefined;
let program: (Program & { readonly file: string }) | undefined;
/** Compilations of this process so far: V8 keeps what it has compiled for all instances of a program. */
let compilations = 0;

/**
 * The instance that compares signatures; a comparison leaves nothing behind that another one could see, so one instance
 * does them all.
 */
let comparing: Instance | undefined;

/** `begun` is told when the compiler is loaded and begins to compare. */
export function runMoc(request: MocRequest, begun: () => void = () => undefined): MocResponse {
  switch (request.kind) {
    case 'compile':
      return compile(request);
    case 'stable':
      return compare(request, begun);
    case 'imports':
      return readImports(request);
    case 'warm':
      spare = warmInstance(request);
      return { kind: 'warm' };
  }
}

/** Returns an instance that is as if new, and used by nobody else. */
function takeInstance(file: string): ReusableInstance {
  const instance = spareOf(file);
  spare = undefined;
  if (!instance.hasRead) return instance;
  if (instance.state === undefined) return reusable(file);
  instance.state.restore();
  instance.hasRead = false;
  return instance;
}

function spareOf(file: string): ReusableInstance {
  return spare?.program === file ? spare : reusable(file);
}

/** Returns an instance whose program V8 has compiled well, because it has compiled a few times. */
function warmInstance({ program: file, like }: WarmRequest): ReusableInstance {
  const instance = takeInstance(file);
  const { moc, state } = instance;
  if (like === undefined || state === undefined) return instance;
  try {
    const endMs = performance.now() + WARMING_MS_MAX;
    while (compilations < WARM_COMPILATIONS && performance.now() < endMs) {
      const { kind } = compileIn(moc, like);
      if (kind === 'crashed') return reusable(file);
      state.restore();
      if (kind !== 'compiled') break;
    }
    return instance;
  } catch {
    // The compiler has overflowed its stack, for example: what it has left behind is not known.
    return reusable(file);
  }
}

function compare({ program: file, before, after }: StableRequest, begun: () => void): MocResponse {
  if (comparing?.program !== file) comparing = instantiate(file);
  begun();
  const { moc } = comparing;
  moc.saveFile(BEFORE, before);
  moc.saveFile(AFTER, after);
  try {
    const result = moc.stableCompatible(BEFORE, AFTER);
    if (!Array.isArray(field(result, 'diagnostics'))) return { kind: 'crashed', reason: 'it returned no diagnostics' };
    return { kind: 'compared', diagnostics: arrayOf(field(result, 'diagnostics')).map(readDiagnostic) };
  } catch (thrown) {
    comparing = undefined;
    return { kind: 'crashed', reason: reasonOf(thrown) };
  }
}

/** Gives it all that a source needs. */
function give(moc: Moc, { files, blobs, packages, actors }: SourceParts): void {
  const given = new Map(files);
  for (const { principal, candid } of actors) given.set(`${INTERFACES_ROOT}/${interfaceFile(principal)}`, candid);
  for (const [path, content] of given) moc.saveFile(path, content);
  for (const [path, bytes] of blobs) moc.saveFile(path, ExactEncoder.textFor(bytes));
  ExactEncoder.forgetAll();
  // A mapped package without files is an error for the compiler, even if nothing imports it.
  if ([...given.keys()].some((path) => path.startsWith(`${CORE_ROOT}/`))) moc.addPackage('core', CORE_ROOT);
  for (const [name, folder] of packages) moc.addPackage(name, folder);
  moc.setCandidPath(INTERFACES_ROOT);
  moc.setActorAliases(actors.flatMap(({ name, principal }) => (name === undefined ? [] : [[name, principal]])));
}

function compile(request: CompileRequest): MocResponse {
  const instance = takeInstance(request.program);
  const response = compileIn(instance.moc, request);
  if (response.kind !== 'crashed') used = instance;
  return response;
}

/** Makes an instance that has compiled as if new, in some 25 ms. To be called when an answer has left. */
export function reset(): void {
  const instance = used;
  used = undefined;
  // The remains of a large project become garbage only when this is done: another instance is made instead, so that the
  // next answer does not pay for it.
  if (instance?.state === undefined || getHeapStatistics().used_heap_size > HEAP_BYTES_MAX) return;
  try {
    instance.state.restore();
    spare = instance;
  } catch {
    // Nobody knows what it is then.
  }
}

function compileIn(moc: Moc, compilation: Compilation): MocResponse {
  give(moc, compilation);
  if (compilation.persistence === 'classical') moc.gcFlags('classicOP');
  if (compilation.collector !== undefined) moc.gcFlags(compilation.collector);
  try {
    if (compilation.publicMetadata.length > 0) moc.setPublicMetadata(compilation.publicMetadata);
    for (const flag of compilation.flags) {
      const refused = refusedFlag(moc, flag);
      if (refused !== undefined) return refused;
    }
    const response = readResult(moc.compileWasm('ic', compilation.main));
    if (response.kind === 'compiled') compilations++;
    return response;
  } catch (thrown) {
    return { kind: 'crashed', reason: reasonOf(thrown) };
  }
}

/** Sets a flag; undefined: the compiler takes it. */
function refusedFlag(moc: Moc, flag: string): MocResponse | undefined {
  try {
    moc.setExtraFlags([flag]);
    return undefined;
  } catch (thrown) {
    return { kind: 'crashed', reason: reasonOf(thrown), flag };
  }
}

function readImports({ program: file, texts }: ImportsRequest): MocResponse {
  const instance = spareOf(file);
  instance.hasRead = true;
  spare = undefined;
  try {
    const imports = texts.map((source) => importsIn(field(instance.moc.parseMotoko(false, source), 'code')));
    spare = instance;
    return { kind: 'imports', imports };
  } catch (thrown) {
    return { kind: 'crashed', reason: reasonOf(thrown) };
  }
}

/**
 * Imports are declarations of the program itself: `LetD` with an `ImportE` on its right side, within `@` nodes, which
 * say where it begins, and, behind a comment that documents it, a `*` node.
 */
function importsIn(tree: unknown): readonly ParsedImport[] | null {
  if (tree === null || tree === undefined) return null;
  const found: ParsedImport[] = [];
  for (const documented of arrayOf(field(tree, 'args'))) {
    const declaration = inside(documented, ['*']);
    const [start] = arrayOf(field(declaration, 'args'));
    const [, line, byte] = arrayOf(field(start, 'args')).map(Number);
    const right = inside(arrayOf(field(inside(declaration, ['@']), 'args'))[1], ['@', '*']);
    const [url] = arrayOf(field(right, 'args'));
    if (field(right, 'name') === 'ImportE' && typeof url === 'string')
      found.push({ url: decoded(url), line: natural(line), byte: natural(byte) });
  }
  return found;
}

/** The node inside of nodes that only add something to it: `@` its place, `*` the comment in front of it. */
function inside(node: unknown, wrappers: readonly string[]): unknown {
  let inner = node;
  while (wrappers.includes(text(field(inner, 'name')))) inner = arrayOf(field(inner, 'args')).at(-1);
  return inner;
}

/** The compiler's texts may be UTF-8 that was read as bytes (`mo:⛔`). */
function decoded(raw: string): string {
  if (!/[\u0080-\u00ff]/u.test(raw) || /[^\u0000-\u00ff]/u.test(raw)) return raw;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(raw, 'latin1'));
  } catch {
    return raw;
  }
}

/** Makes the next process's first compilation faster; takes a tenth of a second, once. */
export function keepProgram(): void {
  program?.keep();
}

/** The file of an imported actor's interface, as diagnostics name it. */
export function interfaceFile(principal: string): string {
  return `${principal}.did`;
}

function reusable(file: string): ReusableInstance {
  const instance = instantiate(file);
  const { shown } = instance;
  return { ...instance, state: shown && new MocState(shown), hasRead: false };
}

function instantiate(file: string): Instance {
  if (program?.file !== file) program = { file, ...loadProgram(file, getCompileCacheDir()) };
  const context = vm.createContext(vm.constants.DONT_CONTEXTIFY);
  Object.assign(context, { TextDecoder, TextEncoder: ExactEncoder });
  const module: { exports: { Motoko?: Moc; state?: ShownState } } = { exports: {} };
  const run = program.script.runInContext(context) as (module: object) => void;
  run(module);
  const { Motoko: moc, state } = module.exports;
  if (moc === undefined) throw new TypeError('the npm package motoko exports no compiler');
  return { program: file, moc, shown: state };
}

/**
 * Returns the compiler's result, checked field by field: the compiler's interface is not typed and may change between
 * releases.
 */
function readResult(result: unknown): MocResponse {
  const diagnostics = arrayOf(field(result, 'diagnostics')).map(readDiagnostic);
  const code = field(result, 'code');
  if (code === null || code === undefined) return { kind: 'refused', diagnostics };
  const wasm = field(code, 'wasm');
  const stable = field(code, 'stable');
  if (!ArrayBuffer.isView(wasm)) return { kind: 'crashed', reason: 'it returned neither a module nor a diagnostic' };
  return {
    kind: 'compiled',
    // A copy, made in this context and exactly as long as the module, so that it can be handed over.
    wasm: new Uint8Array(wasm.buffer, wasm.byteOffset, wasm.byteLength).slice(),
    candid: text(field(code, 'candid')),
    stableTypes: typeof stable === 'string' ? stable : null,
    diagnostics,
  };
}

function readDiagnostic(raw: unknown): Diagnostic {
  const range = field(raw, 'range');
  return {
    file: text(field(raw, 'source')),
    start: readPosition(field(range, 'start')),
    end: readPosition(field(range, 'end')),
    severity: field(raw, 'severity') === ERROR_SEVERITY ? 'error' : 'warning',
    category: text(field(raw, 'category')),
    code: text(field(raw, 'code')),
    message: text(field(raw, 'message')),
  };
}

function readPosition(raw: unknown): Position {
  return { line: natural(field(raw, 'line')), byte: natural(field(raw, 'character')) };
}

/** OCaml exceptions arrive as arrays, `[248, "Stack_overflow", -9]` or `[0, [248, "Module.Exit", 3], "message"]`. */
function reasonOf(thrown: unknown): string {
  const words = (Array.isArray(thrown) ? thrown.flat() : [thrown]).filter((part) => typeof part === 'string');
  if (words.includes(STACK_OVERFLOW) || thrown instanceof RangeError) return STACK_OVERFLOW;
  return words.length > 0 ? words.join(': ') : String(thrown);
}

export function isStackOverflow(reason: string): boolean {
  return reason === STACK_OVERFLOW || reason.includes('Maximum call stack');
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

function arrayOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function natural(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.floor(value) : 0;
}
