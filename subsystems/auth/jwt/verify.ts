/** Verifies one JWT. Loaded with the first token that has to be: a server without `--jwt-issuer` never loads it. */
import { decodeJwt, decodeProtectedHeader, errors, jwtVerify } from 'jose';
import { ALGORITHM_NAMES, type IssuerKey, type IssuerKeys } from './issuer-keys.ts';

/** Seconds by which clocks may differ. */
const LEEWAY_S = 60;

export interface Expected {
  readonly audience: string;
  /** The `typ` of the header; undefined: whatever it is. */
  readonly typ: string | undefined;
  /** Keys by issuer. */
  readonly issuers: ReadonlyMap<string, IssuerKeys>;
}

/** A token that was verified. */
export interface Verified {
  readonly issuer: string;
  readonly subject: string;
  readonly key: IssuerKey;
  /** Milliseconds since 1970 from which it is void, leeway included. */
  readonly endMs: number;
}

/** Resolves with who it is, or with the reason why it is nobody: short, of ASCII, without quotes. Never rejects. */
export async function verify(token: string, expected: Expected, nowMs: number): Promise<Verified | string> {
  try {
    const { iss: issuer } = decodeJwt(token);
    const { alg = '', kid } = decodeProtectedHeader(token);
    if (!ALGORITHM_NAMES.includes(alg)) return 'its algorithm is none of RS256, ES256 and EdDSA';
    const keys = issuer === undefined ? undefined : expected.issuers.get(issuer);
    if (issuer === undefined || keys === undefined) return 'its issuer is not one of this server';
    const key = await keys.find(typeof kid === 'string' ? kid : undefined, alg);
    if (typeof key === 'string') return key;
    const { payload } = await jwtVerify(token, key.key, {
      algorithms: [alg],
      issuer,
      audience: expected.audience,
      clockTolerance: LEEWAY_S,
      requiredClaims: ['exp', 'sub'],
      currentDate: new Date(nowMs),
      ...(expected.typ === undefined ? {} : { typ: expected.typ }),
    });
    const { sub: subject, exp = 0 } = payload;
    // Two subjects must never become one: half a character would be hashed as U+FFFD. (What is no UTF-8 is malformed.)
    if (typeof subject !== 'string' || subject === '' || !subject.isWellFormed()) return 'its subject is no text';
    return { issuer, subject, key, endMs: (exp + LEEWAY_S) * 1000 };
  } catch (error) {
    return reasonOf(error);
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'it has expired';
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'its signature is wrong';
  if (error instanceof errors.JWTClaimValidationFailed) {
    if (error.claim === 'aud') return 'its audience is not this server';
    if (error.claim === 'nbf') return 'it is not valid yet';
    if (error.claim === 'typ') return 'its typ is not the one that is asked for';
    if (error.claim === 'exp' || error.claim === 'sub') return `it lacks a valid ${error.claim}`;
  }
  return 'it is malformed';
}
