/** Flags that ask for something other than a server: what contradicts them. */
import { resolve } from 'node:path';
import type { FlagName } from './flags.ts';
import type { ParsedFlags } from './parse-flags.ts';
import type { ConfiguredPlugin } from './plugin-options.ts';
import type { ServerConfig } from './schema.ts';

/** `--replay`: the messages of a capsule are executed again, and nothing is served. */
export interface ReplayRequest {
  readonly kind: 'replay';
  /** Absolute path of the capsule. */
  readonly file: string;
  /** Absolute path of the profile that is written; undefined: none is. */
  readonly profile: string | undefined;
  readonly log: { readonly isJson: boolean; readonly isVerbose: boolean };
  readonly execution: Pick<ServerConfig['execution'], 'wasmStackBytes' | 'memoryBytes'>;
  /** The server's version and build. */
  readonly version: string;
}

/** The program, and the directory that relative paths start from. */
interface Program {
  readonly version: string;
  readonly build: string;
  readonly directory: string;
}

/** Flags that a replay takes. Prices and limits are those of the capsule, and it has no other part of a server. */
const OF_REPLAYS: ReadonlySet<FlagName> = new Set(['replay', 'profile', 'log-json', 'memory-bytes']);

/** Returns what `--replay` asks for, or the problems of its command line. */
export function replayRequest(
  { flags, variables, given, disabled, problems }: ParsedFlags,
  file: string,
  program: Program,
): ReplayRequest | { readonly kind: 'refused'; readonly problems: readonly string[] } {
  const others = [
    // Parts that are turned off are given with their dashes.
    ...[...given].filter((name) => !OF_REPLAYS.has(name) && !name.startsWith('--')).map((name) => `--${name}`),
    ...[...disabled].map((part) => `--no-${part}`),
  ];
  const refused = others.map((flag) => `--replay executes the messages of its file and nothing else: drop ${flag}`);
  if (problems.length + refused.length > 0) return { kind: 'refused', problems: [...problems, ...refused] };
  return {
    kind: 'replay',
    file: resolve(program.directory, file),
    profile: flags.profile === undefined ? undefined : resolve(program.directory, flags.profile),
    log: { isJson: flags['log-json'], isVerbose: false },
    execution: { wasmStackBytes: variables.SVC_WASM_STACK, memoryBytes: flags['memory-bytes'] },
    version: versionText(program),
  };
}

/** Returns the version and the build, by which replays tell servers apart. */
export function versionText({ version, build }: Pick<Program, 'version' | 'build'>): string {
  return `${version} (${build})`;
}

/** Refuses what contradicts a task that serves nothing. */
export function checkTask({ flags }: ParsedFlags, loaded: readonly ConfiguredPlugin[]): string[] {
  const problems: string[] = [];
  if (flags.check && flags['restore-archive'] !== undefined)
    problems.push('--check and --restore-archive contradict each other: a check changes nothing');
  if (flags.profile !== undefined) problems.push('--profile needs --replay FILE: servers answer profiles themselves');
  if (!flags.capacity) return problems;
  if (flags.check) problems.push('--capacity and --check are two tasks: choose one');
  if (flags.restore !== undefined)
    problems.push('--capacity and --restore contradict each other: what is measured is an empty server');
  if (flags['restore-archive'] !== undefined || flags.archive !== undefined)
    problems.push('--capacity has no archive: drop --archive and --restore-archive');
  if (loaded.length > 0) problems.push("--capacity measures the server's own parts: drop --plugin");
  return problems;
}
