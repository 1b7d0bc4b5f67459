/** `storage.url`: checked before the driver has it, and never shown. */
import { ServerError } from '../api/plugin.ts';

const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];
const SSL_VALUES = ['true', '1', '0', 'no-verify'];
/**
 * Parameters of a URL that the driver reads. It ignores all others, also an `sslmode` that is misspelled, and would go
 * on without TLS.
 */
const URL_PARAMETERS = [
  'application_name',
  'client_encoding',
  'host',
  'lock_timeout',
  'options',
  'password',
  'port',
  'ssl',
  'sslcert',
  'sslkey',
  'sslmode',
  'sslnegotiation',
  'sslrootcert',
  'statement_timeout',
  'user',
  'uselibpqcompat',
];

/**
 * Returns the URL with that `sslmode`, if it says nothing of TLS. The driver reads PGSSLMODE by itself, and goes on
 * without TLS if it does not know the value, such as libpq's `allow`: so it is given the value that was checked.
 */
export function withSslMode(url: string, mode: string | undefined): string {
  if (mode === undefined || mode === '' || !URL.canParse(url)) return url;
  const { search, searchParams } = new URL(url);
  if (searchParams.has('sslmode') || searchParams.has('ssl')) return url;
  return `${url}${search === '' && !url.endsWith('?') ? '?' : '&'}sslmode=${encodeURIComponent(mode)}`;
}

/** Never shows it: there may be a password in it. */
export function checkedUrl(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed?.protocol !== 'postgres:' && parsed?.protocol !== 'postgresql:')
    throw badUrl(
      'is no URL like postgres://user:password@host:5432/database: correct it; in names and passwords, ' +
        'percent-encode the characters that have a meaning in URLs (@ : / ? # %)',
    );
  // A name that is not known may be a password that was not encoded.
  if ([...parsed.searchParams.keys()].some((name) => !URL_PARAMETERS.includes(name)))
    throw badUrl(
      `has a parameter behind ? that is not one of ${URL_PARAMETERS.join(', ')}: correct its name, or take it out`,
    );
  if (parsed.searchParams.getAll('sslmode').some((mode) => !SSL_MODES.includes(mode)))
    throw badUrl(`has a sslmode, of its own or of PGSSLMODE, that is none of ${SSL_MODES.join(', ')}: correct it`);
  if (parsed.searchParams.getAll('ssl').some((ssl) => !SSL_VALUES.includes(ssl)))
    throw badUrl(`has a parameter ssl that is none of ${SSL_VALUES.join(', ')}: take it out, and give a sslmode`);
  if (![parsed.username, parsed.password, parsed.hostname, parsed.pathname].every(isDecodable))
    throw badUrl('has a % that begins no percent-encoding: write it as %25');
  return url;
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

function badUrl(problem: string): ServerError {
  return new ServerError('invalid', 'state-unwritable', `storage.url ${problem}`);
}

/** Returns the place of the database, without user and password. */
export function placeOf(url: string): string {
  if (!URL.canParse(url)) return 'the database';
  const { host, pathname, searchParams } = new URL(url);
  const named = searchParams.get('host') ?? host;
  return `the database ${named === '' ? 'localhost (or PGHOST)' : named}${pathname}`;
}

/** Returns the passwords in a URL, as written and decoded: they are never shown. */
export function passwordsOf(url: string): readonly string[] {
  if (!URL.canParse(url)) return [];
  const { password, searchParams } = new URL(url);
  let plain = password;
  try {
    plain = decodeURIComponent(password);
  } catch {
    // A password that cannot be decoded is taken as it is.
  }
  return [password, plain, searchParams.get('password') ?? ''].filter((each) => each !== '');
}
