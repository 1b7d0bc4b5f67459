/** Warns of what does not keep a server from starting, and will disappoint later. */
import { accessSync, constants, statSync } from 'node:fs';
import type { CheckerPlaces } from '../subsystems/compatibility/find-checker.ts';
import { warningsOfAgents } from './agents.ts';
import type { ParsedFlags } from './parse-flags.ts';
import type { AgentsSection } from './schema.ts';

interface Circumstances {
  /** True if what actors are is stored. */
  readonly isKept: boolean;
  readonly agentMode: AgentsSection['mode'];
  /** True if requests need a token. */
  readonly hasToken: boolean;
}

/**
 * Warns of flags that have no effect beside others. They are not refused: neither flag's documentation says that it
 * needs another.
 */
export function flagWarnings(parsed: ParsedFlags, { isKept, agentMode, hasToken }: Circumstances): readonly string[] {
  const { flags, given, disabled } = parsed;
  const warnings: string[] = [];
  const warnOf = (name: keyof typeof flags, isIdle: boolean, why: string): void => {
    if (given.has(name) && isIdle) warnings.push(`--${name} has no effect ${why}`);
  };
  warnOf('snapshot-below', !isKept, 'without --state DIR: everything lives in memory');
  warnOf('replay-budget-secs', flags['snapshot-below'] === 0, 'beside --snapshot-below 0: only the log is kept');
  for (const name of ['archive-secs', 'archive-days', 'archive-bytes'] as const)
    warnOf(name, flags.archive === undefined, 'without --archive DIR');
  warnOf('timeline-bytes', flags.timeline === 0, 'without --timeline SECONDS');
  warnOf('outcall-timeout-secs', disabled.has('outcalls'), 'beside --no-outcalls: every outcall is refused');
  warnOf('outcalls-deny-private', flags['outcalls-replay'] !== undefined, 'beside --outcalls-replay: nothing is sent');
  warnOf('browser-guard', hasToken, 'where requests need a token: no page of another site has it');
  return [...warnings, ...warningsOfAgents(parsed, agentMode)];
}

/**
 * Warns of a program that cannot compare stable signatures, since no upgrade that changes them is done then. It may be
 * put in its place while the server runs, so it does not keep the server from starting.
 */
export function checkerWarnings({ program, besideServer }: Omit<CheckerPlaces, 'searchPath'>): readonly string[] {
  const then =
    'until then upgrades that change stable variables count as not comparable, and no other compiler is asked';
  if (program !== undefined) {
    const fault = programFault(program);
    return fault === undefined
      ? []
      : [`SVC_BIN (${program}) ${fault}: let it name a Motoko compiler (moc), or unset it; ${then}`];
  }
  if (besideServer === undefined || statSync(besideServer, { throwIfNoEntry: false })?.isFile() !== true) return [];
  const fault = programFault(besideServer);
  return fault === undefined
    ? []
    : [`the moc beside the server (${besideServer}) ${fault}: chmod +x, or remove it; ${then}`];
}

/** Returns why a file cannot be run, as far as that is seen without running it. */
function programFault(file: string): string | undefined {
  try {
    const status = statSync(file);
    if (!status.isFile()) return status.isDirectory() ? 'is a folder' : 'is not a regular file';
    if (status.size === 0) return 'is empty';
    accessSync(file, constants.X_OK);
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return 'is not there';
    return code === 'EACCES' ? 'may not be run by this process' : `cannot be run: ${(error as Error).message}`;
  }
}
