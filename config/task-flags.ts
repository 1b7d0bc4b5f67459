/** Flags that ask for something other than a server: what contradicts them. */
import type { ParsedFlags } from './parse-flags.ts';
import type { ConfiguredPlugin } from './plugin-options.ts';

/** Refuses what contradicts a task that serves nothing. */
export function checkTask({ flags }: ParsedFlags, loaded: readonly ConfiguredPlugin[]): string[] {
  const problems: string[] = [];
  if (flags.check && flags['restore-archive'] !== undefined)
    problems.push('--check and --restore-archive contradict each other: a check changes nothing');
  if (!flags.capacity) return problems;
  if (flags.check) problems.push('--capacity and --check are two tasks: choose one');
  if (flags.restore !== undefined)
    problems.push('--capacity and --restore contradict each other: what is measured is an empty server');
  if (flags['restore-archive'] !== undefined || flags.archive !== undefined)
    problems.push('--capacity has no archive: drop --archive and --restore-archive');
  if (loaded.length > 0) problems.push("--capacity measures the server's own parts: drop --plugin");
  return problems;
}
