/** References that mean a canister: its name, the hex form of its id, or its principal. */
import { ServerError } from '../../kernel/index.ts';
import { principalFromText } from './principal.ts';

/** docs/running.md, "Names and ids". */
const NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;
/** An id of ten bytes: 20 digits; with the checksum it is 23 letters in groups of five. */
const HEX_ID = /^[0-9a-f]{20}$/;
const PRINCIPAL_ID = /^(?:[a-z2-7]{5}-){4}[a-z2-7]{3}$/;

/** Returns true if a canister may have this name. */
export function isCanisterName(text: string): boolean {
  return NAME.test(text);
}

/**
 * Returns the id that a reference is the hex form or the principal of, exactly as they are written here; undefined: it
 * is neither, and may be a name.
 */
export function idOfReference(text: string): Uint8Array | undefined {
  if (HEX_ID.test(text)) return Buffer.from(text, 'hex');
  if (!PRINCIPAL_ID.test(text)) return undefined;
  try {
    return principalFromText(text);
  } catch (error) {
    if (error instanceof ServerError) return undefined;
    throw error;
  }
}
