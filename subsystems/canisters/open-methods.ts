/**
 * Open methods: those of an actor that answer requests without the token. The manifest and the operator name them; they
 * are kept with the actor's identity, and what a change of code takes away is closed in the same unit.
 *
 * Main thread: sets of names, and the rules for them.
 */
import { type Logger, ServerError } from '../../kernel/index.ts';
import type { CandidInterface } from '../codec/index.ts';
import type { ModuleInfo } from '../execution/index.ts';
import { isInternalMethod, methodMissing, type OpenMethods, quotedName } from './index.ts';

/** Prefix of what the system calls; a method may have such a name, and strangers have no business there. */
const SYSTEM_PREFIX = 'canister_';
/** Names that a line of the log shows. */
const SHOWN_NAMES_MAX = 10;

/** As it is stored. */
export interface StoredOpenMethods {
  readonly names: readonly string[];
  readonly isOfManifest: boolean;
}

/** Nothing is open: the same object for all actors but a few. */
export const NO_OPEN_METHODS: OpenMethods = Object.freeze({ names: new Set<string>(), isOfManifest: false });

/** The code that names are checked against. */
interface CheckedCode {
  readonly name: string;
  readonly module: ModuleInfo | undefined;
  readonly candid: CandidInterface | undefined;
}

/** A canister whose methods are opened. To set them stores them, and tells who watches. */
interface OpenableCanister extends CheckedCode {
  openMethods: OpenMethods;
}

/** Returns the names as a set; NO_OPEN_METHODS where there is nothing to know. */
export function openMethodsOf({ names, isOfManifest }: StoredOpenMethods): OpenMethods {
  return names.length === 0 && !isOfManifest ? NO_OPEN_METHODS : { names: new Set(names), isOfManifest };
}

/** Returns what is stored with the identity: nothing where nothing is open, so that it stays as it was. */
export function openMethodsToStore({ names, isOfManifest }: OpenMethods): { readonly openMethods?: StoredOpenMethods } {
  return names.size === 0 && !isOfManifest ? {} : { openMethods: { names: [...names], isOfManifest } };
}

/** Returns true if stored open methods have the type that they should have; without any they have. */
export function areOpenMethods(stored: unknown): stored is StoredOpenMethods | undefined {
  if (stored === undefined) return true;
  if (typeof stored !== 'object' || stored === null) return false;
  const { names, isOfManifest } = stored as Partial<StoredOpenMethods>;
  return Array.isArray(names) && names.every((name) => typeof name === 'string') && typeof isOfManifest === 'boolean';
}

/**
 * Opens these methods of an actor, and closes all others. Throws ServerError `bad-public`, which names the first one
 * that cannot be open; nothing has changed then.
 */
export function openMethods(record: OpenableCanister, names: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    const fault = seen.has(name) ? `${quotedName(name)} is there twice: name it once` : faultOf(record, name);
    if (fault !== undefined) throw new ServerError('invalid', 'bad-public', fault);
    seen.add(name);
  }
  setOpenMethods(record, { names: seen, isOfManifest: false });
}

/**
 * Has an actor's open methods follow the manifest, at a start: undefined if it says nothing of them, and then those
 * that it opened once are closed. What cannot be open stays closed, with a warning.
 */
export function followManifest(
  record: OpenableCanister,
  wanted: readonly string[] | undefined,
  log: Pick<Logger, 'announce'>,
): void {
  const before = record.openMethods;
  if (wanted === undefined && !before.isOfManifest) return;
  const names = new Set<string>();
  for (const name of wanted ?? []) {
    const fault = faultOf(record, name);
    if (fault === undefined) names.add(name);
    else log.announce(`WARNING "public" of ${record.name}: ${fault}; it stays closed`);
  }
  const isOfManifest = wanted !== undefined;
  const isSame = names.size === before.names.size && [...names].every((name) => before.names.has(name));
  if (isSame && isOfManifest === before.isOfManifest) return;
  setOpenMethods(record, { names, isOfManifest });
  if (!isSame)
    log.announce(`open methods of ${record.name}, by the manifest: ${shown(names)}; before: ${shown(before.names)}`);
}

/**
 * Returns the open methods that the code leaves, the same object if it leaves all. Tells what is closed, and which
 * queries have become updates.
 */
export function openUnder(
  open: OpenMethods,
  { name, module, candid }: CheckedCode,
  before: ModuleInfo | undefined,
  log: Pick<Logger, 'announce'>,
): OpenMethods {
  if (open.names.size === 0) return open;
  const left = new Set<string>();
  const gone = new Set<string>();
  for (const method of open.names) {
    const isLeft = faultOf({ name, module, candid }, method) === undefined;
    (isLeft ? left : gone).add(method);
    const writesNow = module?.methods.get(method) === 'update' && before?.methods.get(method) !== 'update';
    if (isLeft && writesNow && before?.methods.has(method) === true)
      log.announce(
        `WARNING the open method ${quotedName(method)} of ${name} was a query and is an update now: it stays open, and ` +
          'who has no token can change the state by it',
      );
  }
  if (gone.size === 0) return open;
  log.announce(`open methods of ${name} that its code does not have any more are closed: ${shown(gone)}`);
  return openMethodsOf({ names: [...left], isOfManifest: open.isOfManifest });
}

function setOpenMethods(record: OpenableCanister, { names, isOfManifest }: OpenMethods): void {
  record.openMethods = openMethodsOf({ names: [...names], isOfManifest });
}

/** Returns why a method cannot be open; undefined: it can. */
function faultOf({ name, module, candid }: CheckedCode, method: string): string | undefined {
  if (isInternalMethod(method) || method.startsWith(SYSTEM_PREFIX))
    return `${quotedName(method)} is an internal method, which nobody can call without the token: leave it out`;
  if (module?.methods.has(method) !== true) return methodMissing({ name, module }, method).message;
  if (candid === undefined || candid.methods.has(method)) return undefined;
  return `the interface of ${name} does not have ${quotedName(method)}: GET /candid/${name}`;
}

function shown(names: ReadonlySet<string>): string {
  if (names.size === 0) return 'none';
  const first = [...names].slice(0, SHOWN_NAMES_MAX).map(quotedName).join(', ');
  return names.size > SHOWN_NAMES_MAX ? `${first} and ${names.size - SHOWN_NAMES_MAX} more` : first;
}
