/**
 * The verdict of the server that took a request, as it is told to the owner of the actor: who asks and what they may
 * do, in a header of a connection between servers. Tokens stay where they were shown. The owner believes the verdict,
 * and checks the scopes that it names.
 */
import { type Grant, Scopes } from '../../auth/index.ts';

export const VERDICT_HEADER = 'svc-link-verdict';
export const CLIENT_HEADER = 'svc-link-client';
/** Grants that are kept read: those of streams have to be the same object each time. */
const GRANTS_MAX = 10_000;
const WHOLE = 'whole';
const STRANGER = 'stranger';

/** `whole`: everything; `stranger`: what needs no token. */
type Verdict = typeof WHOLE | typeof STRANGER | Grant;

interface WrittenGrant {
  readonly name: string;
  readonly may: readonly string[];
  readonly caller: string | null;
  readonly takesNoClaim: boolean;
}

export function writeVerdict(verdict: Verdict): string {
  if (typeof verdict === 'string') return verdict;
  const { name, scopes, caller, takesNoClaim = false } = verdict;
  const written: WrittenGrant = {
    name,
    may: scopes.texts,
    caller: caller === undefined ? null : Buffer.from(caller).toString('hex'),
    takesNoClaim,
  };
  return Buffer.from(JSON.stringify(written)).toString('base64url');
}

/** Reads verdicts of other servers of this service, which have proven to be that. */
export class Verdicts {
  readonly #grants = new Map<string, Grant>();

  /** Returns undefined for what is no verdict. */
  read(text: string): Verdict | undefined {
    if (text === WHOLE || text === STRANGER) return text;
    const known = this.#grants.get(text);
    if (known !== undefined) return known;
    const grant = readGrant(text);
    if (grant === undefined) return undefined;
    if (this.#grants.size >= GRANTS_MAX) this.#grants.clear();
    this.#grants.set(text, grant);
    return grant;
  }
}

function readGrant(text: string): Grant | undefined {
  try {
    const { name, may, caller, takesNoClaim } = JSON.parse(Buffer.from(text, 'base64url').toString()) as WrittenGrant;
    return {
      name,
      scopes: new Scopes(may),
      caller: caller === null ? undefined : Buffer.from(caller, 'hex'),
      // The server that took the request ends its answer when the rights are over.
      isOver: false,
      takesNoClaim,
    };
  } catch {
    return undefined;
  }
}
