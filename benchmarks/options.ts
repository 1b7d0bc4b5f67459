/** Reads the options of a benchmark's command line, or reports their mistakes with a list of the valid ones. */
import { basename } from 'node:path';
import { inspect, parseArgs, type ParseArgsOptionsConfig } from 'node:util';

type Values<T extends ParseArgsOptionsConfig> = ReturnType<typeof parseArgs<{ options: T }>>['values'];

/** Exit code of a command line that cannot be obeyed. */
const BAD_USAGE = 2;

/** Reason why a benchmark cannot run with its options: printed in one line, without a stack. */
export class Refusal extends Error {}

/** Returns the options that were given; refuses those that are not known. */
export function optionsOf<const T extends ParseArgsOptionsConfig>(
  options: T,
  args: readonly string[] = process.argv.slice(2),
): Values<T> {
  try {
    return parseArgs({ options, args: [...args] }).values;
  } catch (error) {
    const [reason = ''] = (error as Error).message.split(/\. |\n/);
    const known = Object.keys(options).map((option) => `--${option}`);
    return refuse(`${reason}; ${known.length === 0 ? 'it takes none' : `there are ${known.join(' ')}`}`);
  }
}

/** Ends the benchmark with exit code 2 and a line on stderr, after everything that it has started was stopped. */
export function refuse(reason: string): never {
  throw new Refusal(reason);
}

process.once('uncaughtException', (error) => {
  if (!(error instanceof Refusal)) {
    process.stderr.write(`${inspect(error)}\n`);
    process.exit(1);
  }
  process.stderr.write(`${basename(process.argv[1] ?? '', '.bench.ts')}: ${error.message}\n`);
  process.exit(BAD_USAGE);
});
