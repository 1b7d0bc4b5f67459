/** Flags for users who log in somewhere else (`docs/jwt.md`), and the section of the configuration that they make. */
import { text } from './flag.ts';
import type { JwtSection } from './schema.ts';

/** The flags, by their long names. */
export const JWT_FLAGS = {
  'jwt-issuer': text({
    group: 'auth',
    placeholder: 'URL',
    defaultValue: undefined,
    isRepeatable: true,
    summary:
      'Take JWTs of this issuer (OpenID Connect), with its iss to the letter; needs --jwt-audience and --jwt-may. May be ' +
      'repeated (docs/jwt.md).',
  }),
  'jwt-audience': text({
    group: 'auth',
    placeholder: 'TEXT',
    defaultValue: undefined,
    summary: 'The aud that a JWT has to have, alone or in its list.',
  }),
  'jwt-keys': text({
    group: 'auth',
    placeholder: 'FILE',
    defaultValue: undefined,
    summary:
      "File of the issuer's public keys (a JWKS), read again at SIGHUP; without it they are fetched, as the issuer's " +
      'metadata says.',
  }),
  'jwt-may': text({
    group: 'auth',
    placeholder: 'SCOPES',
    defaultValue: undefined,
    isRepeatable: true,
    summary: 'Scopes of everybody who has a valid JWT, such as call:shop,query:shop. May be repeated.',
  }),
  'jwt-typ': text({
    group: 'auth',
    placeholder: 'TYP',
    defaultValue: undefined,
    summary: 'The typ that the header of a JWT has to have, such as at+jwt, which refuses ID tokens.',
  }),
} as const;

type JwtValues = Readonly<Record<keyof typeof JWT_FLAGS, string | undefined>>;

const OTHERS = ['jwt-audience', 'jwt-keys', 'jwt-may', 'jwt-typ'] as const;

/** Returns one sentence for each problem with the flags. */
export function checkJwt(flags: JwtValues): string[] {
  const issuers = listOf(flags['jwt-issuer']);
  if (issuers.length === 0)
    return OTHERS.filter((name) => flags[name] !== undefined).map((name) => `--${name} needs --jwt-issuer URL`);
  const problems: string[] = [];
  if (flags['jwt-audience'] === undefined)
    problems.push('--jwt-issuer needs --jwt-audience TEXT: without it, tokens for other services would get in here');
  if (listOf(flags['jwt-may']).length === 0)
    problems.push(
      '--jwt-issuer needs --jwt-may SCOPES: an issuer may let the whole world in, and actors that were written for the ' +
        'holder of one token check nobody; name what its users may do, such as --jwt-may call:shop,query:shop,watch:shop',
    );
  if (flags['jwt-keys'] !== undefined && issuers.length > 1)
    problems.push('--jwt-keys goes with one --jwt-issuer: with several, the key of one could sign for another');
  for (const issuer of issuers) {
    if (issuers.indexOf(issuer) !== issuers.lastIndexOf(issuer)) problems.push(`--jwt-issuer ${issuer} is there twice`);
    if (!isIssuer(issuer, flags['jwt-keys'] !== undefined))
      problems.push(
        `--jwt-issuer ${issuer} is no https address (http is for this machine, or beside --jwt-keys): ` +
          'write the iss of its tokens to the letter',
      );
  }
  return problems;
}

/** Returns the section of the flags; undefined without an issuer. `keysFile` is an absolute path. */
export function jwtOf(flags: JwtValues, keysFile: string | undefined): JwtSection | undefined {
  const issuers = listOf(flags['jwt-issuer']);
  if (issuers.length === 0) return undefined;
  const { 'jwt-audience': audience = '', 'jwt-typ': typ } = flags;
  return { issuers, audience, keysFile, may: listOf(flags['jwt-may']), typ };
}

function listOf(value: string | undefined): string[] {
  return value?.split(/[\s,]+/).filter((each) => each !== '') ?? [];
}

function isIssuer(issuer: string, hasKeys: boolean): boolean {
  if (!URL.canParse(issuer)) return false;
  const { protocol, hostname } = new URL(issuer);
  if (protocol === 'https:') return true;
  return protocol === 'http:' && (hasKeys || /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname));
}
