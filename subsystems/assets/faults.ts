import { ServerError } from '../../kernel/index.ts';

/** A file was another one when it was read again: the whole is to be read anew. */
export class FileChanged extends Error {
  /** The file's path. */
  readonly path: string;

  constructor(path: string) {
    super(`${path} changes while it is read`);
    this.path = path;
  }
}

/** Returns the error for a folder that cannot be served; the reason names the file. */
export function folderFault(reason: string, cause?: unknown): ServerError {
  return new ServerError('invalid', 'assets-folder', reason, { cause });
}

/** Returns the error for `_headers` or `_redirects`, with the faults of all lines. */
export function rulesFault(file: string, faults: readonly string[]): ServerError {
  const shown = faults.slice(0, FAULTS_SHOWN_MAX);
  const left = faults.length - shown.length;
  const lines = shown.map((fault) => `  ${fault}`);
  if (left > 0) lines.push(`  … and ${left} more`);
  return new ServerError('invalid', 'assets-rules', [`${file} cannot be used:`, ...lines].join('\n'));
}
const FAULTS_SHOWN_MAX = 20;
