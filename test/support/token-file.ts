import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryDirectory } from './temporary-directory.ts';

/** Parts of a token's line that a test chooses. */
export interface ChosenToken {
  readonly may: readonly string[];
  readonly caller?: string;
}

/** Returns the hash that stands in a file for a secret. */
export function sha256Of(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

/** Writes a file of tokens, each with `secret-of-<name>` as its secret; returns its path. */
export async function writeTokens(tokens: Readonly<Record<string, ChosenToken>>, path?: string): Promise<string> {
  const file = path ?? join(await temporaryDirectory(), 'tokens.json');
  const lines = Object.entries(tokens).map(([name, line]) => [
    name,
    { sha256: sha256Of(`secret-of-${name}`), ...line },
  ]);
  await writeFile(file, JSON.stringify(Object.fromEntries(lines)), { mode: 0o600 });
  return file;
}

/** Returns the header that shows a token of such a file. */
export function showing(name: string): { readonly authorization: string } {
  return { authorization: `Bearer secret-of-${name}` };
}
