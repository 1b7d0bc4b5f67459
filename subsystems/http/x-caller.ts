import type { IncomingMessage } from 'node:http';
import { messageOf, ServerError } from '../../kernel/index.ts';
import { ANONYMOUS, principalFromText } from '../ic/index.ts';

/** Principals kept parsed. A host is called by few programs; each entry is below 200 bytes. */
const REMEMBERED_MAX = 4096;
/** A principal has at most 63 characters: what is longer is not even looked at. */
const TEXT_LENGTH_MAX = 63;

/** Throws ServerError `claims-refused` if a request claims a caller where that is refused (`--no-claims`). */
export function refuseClaim({ headers }: Pick<IncomingMessage, 'headers'>): void {
  if (headers['x-caller'] === undefined) return;
  const text =
    'header x-caller: this server runs with --no-claims and takes no caller at its word; leave the header out, and ' +
    'prove who calls with a JWT, a token that has a caller, or a signature at /api';
  throw new ServerError('forbidden', 'claims-refused', text);
}

/** Reads `x-caller` headers: a claim, not authenticated, but it must be a principal. */
export class CallerClaims {
  /** True if none is taken (`--no-claims`). */
  readonly areRefused: boolean;
  readonly #remembered = new Map<string, Uint8Array>();

  constructor(areRefused = false) {
    this.areRefused = areRefused;
  }

  /** The caller that a header claims; anonymous without one. Throws ServerError `invalid`. */
  callerOf(header: string | string[] | undefined): Uint8Array {
    if (header === undefined) return ANONYMOUS;
    const text = String(header);
    const known = this.#remembered.get(text);
    if (known !== undefined) return known;
    const principal = parsed(text);
    if (this.#remembered.size >= REMEMBERED_MAX) this.#remembered.clear();
    this.#remembered.set(text, principal);
    return principal;
  }
}

function parsed(text: string): Uint8Array {
  const refused = (reason: string, cause?: unknown): ServerError =>
    new ServerError('invalid', 'bad-caller', `header x-caller: ${reason}`, { cause });
  if (text.length > TEXT_LENGTH_MAX) throw refused(`${text.length} characters are too many for a principal`);
  try {
    return principalFromText(text);
  } catch (error) {
    throw refused(messageOf(error), error);
  }
}
