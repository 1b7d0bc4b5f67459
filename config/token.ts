/**
 * Finds the bearer token: `--auth-token`, then `--auth-token-file`, then `SVC_TOKEN`, then `SVC_TOKEN_FILE`, then
 * `auth-token-file` of the file of `--config`. Messages never show the token, because they may end up in a log.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { resolve } from 'node:path';
import type { ParsedFlags } from './parse-flags.ts';

/** A secret as it was given, or the reasons why it cannot be had. */
interface FoundSecret {
  /** Undefined: none is required, or there is a problem. */
  readonly secret: string | undefined;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** Largest token that a request can carry: Node reads 16 KiB of headers, the other headers among them. */
const TOKEN_BYTES_MAX = 8192;
const OTHERS_READ = 0o004;

/** Reads the token; `directory` is where relative paths start. */
export function readToken({ flags, sources }: ParsedFlags, directory: string): FoundSecret {
  const file = flags['auth-token-file'];
  const token = flags['auth-token'];
  if (sources.get('auth-token') === '--auth-token' && sources.get('auth-token-file') === '--auth-token-file')
    return problem('--auth-token and --auth-token-file contradict each other: drop one of them');
  if (token !== undefined) return checked(token, sources.get('auth-token') ?? '--auth-token');
  if (file === undefined) return { secret: undefined, problems: [], warnings: [] };
  const name = `${sources.get('auth-token-file') ?? '--auth-token-file'} (${file})`;
  return readSecretFile(resolve(directory, file), name, 'token');
}

/** Reads a secret from a file; `name` is what messages call the file, `kind` what it holds. */
export function readSecretFile(path: string, name: string, kind: 'token' | 'key'): FoundSecret {
  let descriptor: number | undefined;
  try {
    // A pipe without a writer would be waited for: it is opened without waiting, and refused below.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const status = fstatSync(descriptor);
    if (status.isDirectory()) return problem(`${name} is a directory: name the file in it that holds the ${kind}`);
    if (!status.isFile()) return problem(`${name} is not a regular file: write the ${kind} into one`);
    const content = Buffer.alloc(TOKEN_BYTES_MAX + 2);
    const length = readSync(descriptor, content);
    const token = content.toString('latin1', 0, length).replace(/\n$/, '');
    if (token === '') return problem(`${name} is empty: write the ${kind} into it`);
    if (token.length > TOKEN_BYTES_MAX)
      return problem(
        `${name} has ${status.size} bytes, and ` +
          `${kind === 'token' ? 'no request carries a token of' : 'a key has no'} more than ${TOKEN_BYTES_MAX}`,
      );
    const found = checked(token, name);
    if ((status.mode & OTHERS_READ) === 0 || found.problems.length > 0) return found;
    const mode = (status.mode & 0o777).toString(8);
    return { ...found, warnings: [`${name} can be read by every user of this machine (mode ${mode}): chmod 600`] };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return problem(`${name} cannot be read: ${code === 'ENOENT' ? `there is no such file (${path})` : message}`);
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

function checked(token: string, name: string): FoundSecret {
  // Node decodes header values as Latin-1 and removes outer blanks, so any other token would never match.
  if (/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(token)) return { secret: token, problems: [], warnings: [] };
  return problem(
    `${name} holds a token that no HTTP header can carry: use visible ASCII characters, without line breaks or outer spaces`,
  );
}

function problem(text: string): FoundSecret {
  return { secret: undefined, problems: [text], warnings: [] };
}
