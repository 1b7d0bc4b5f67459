import { createHash, randomBytes } from 'node:crypto';
import { TOKEN_NAME } from './token-file.ts';

/** Bits that nobody can guess, and no two servers share. */
const SECRET_BYTES = 32;

/**
 * Returns a new token and its line for the file of `--tokens`, as text to print: it may do nothing until somebody
 * writes scopes into `may`. Returns undefined if the name is none.
 */
export function newTokenText(name: string): string | undefined {
  if (!TOKEN_NAME.test(name)) return undefined;
  const token = `svc_${randomBytes(SECRET_BYTES).toString('base64url')}`;
  const sha256 = createHash('sha256').update(token).digest('hex');
  const line = `${JSON.stringify(name)}: ${JSON.stringify({ sha256, may: [] })}`;
  return `token  ${token}\nline   ${line}\n`;
}
