/** Messages to the user's terminal, apart from the log. */

/** Prints the problems of a command line or a configuration; returns the exit code. */
export async function refuse(problems: readonly string[]): Promise<number> {
  await tell([...problems, 'run svc --help for all flags']);
  return 2;
}

/** Prints the problems. They are made printable, because they may quote a file. */
export async function tell(problems: readonly string[]): Promise<void> {
  const { indented } = await import('./printable.ts');
  for (const problem of problems) process.stderr.write(`svc: ${indented(problem)}\n`);
}

export function hasColors(stream: NodeJS.WriteStream): boolean {
  return stream.isTTY && stream.hasColors();
}
