/**
 * What `[moc] args` in a project's `mops.toml` says of a compilation. Taken are the flags that say what a source means (the mode of
 * persistence) and which warnings there are; no other, because those read files, write them, or make something else than a module.
 */
import { ServerError } from '../../../kernel/index.ts';
import type { Persistence } from '../moc-protocol.ts';

export interface CompilerArgs {
  /** As the compiler takes them, `-W=M0223` as one. */
  readonly flags: readonly string[];
  /** Undefined: nothing is said of it. */
  readonly persistence: Persistence | undefined;
}

export const NO_ARGS: CompilerArgs = { flags: [], persistence: undefined };

const PERSISTENCE: ReadonlyMap<string, Persistence> = new Map([
  ['--enhanced-orthogonal-persistence', 'enhanced'],
  ['--legacy-persistence', 'classical'],
]);
export const WARNINGS_ARE_ERRORS = '-Werror';
export const WARNINGS_ARE_HIDDEN = '--hide-warnings';
const ALONE = new Set(['--default-persistent-actors', WARNINGS_ARE_HIDDEN, WARNINGS_ARE_ERRORS]);
const WITH_CODES = new Set(['-A', '-W', '-E']);
const CODES = /^M\d{4}(?:,M\d{4})*$/u;
/** The only collector that there is with enhanced persistence. */
const INCREMENTAL_GC = '--incremental-gc';
const TAKEN = [...ALONE, ...[...WITH_CODES].map((flag) => `${flag}=M0000`), ...PERSISTENCE.keys(), INCREMENTAL_GC];

/** `file` is what errors call the manifest. Throws ServerError `mops-invalid`, which names the flag. */
export function compilerArgsOf(args: readonly string[], file: string): CompilerArgs {
  const flags: string[] = [];
  let persistence: Persistence | undefined;
  let isIncremental = false;
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? '';
    const mode = PERSISTENCE.get(arg);
    if (mode !== undefined) {
      if (persistence !== undefined && persistence !== mode) throw refused(file, arg, 'contradicts the one before it');
      persistence = mode;
    } else if (ALONE.has(arg)) flags.push(arg);
    else if (arg === INCREMENTAL_GC) isIncremental = true;
    else {
      const [name = '', ...rest] = arg.split('=');
      if (!WITH_CODES.has(name))
        throw refused(
          file,
          arg,
          `is not one that is taken here; those are ${TAKEN.join(', ')}; remove it, or compile elsewhere and name the module with \`wasm\``,
        );
      const codes = rest.length === 0 ? (args[++at] ?? '') : rest.join('=');
      if (!CODES.test(codes)) throw refused(file, arg, 'needs codes of warnings, such as M0194,M0217');
      flags.push(`${name}=${codes}`);
    }
  }
  if (isIncremental && persistence === 'classical')
    throw refused(file, INCREMENTAL_GC, 'is not taken with --legacy-persistence, whose collector is another');
  return { flags, persistence };
}

function refused(file: string, arg: string, why: string): ServerError {
  const shown = JSON.stringify(arg.slice(0, 100));
  return new ServerError('invalid', 'mops-invalid', `cannot use ${file}: ${shown} in [moc] args ${why}`);
}
