/** What errors of the driver and the database mean, and their words. */
import { ServerError } from '../api/plugin.ts';
import { passwordsOf, placeOf } from './connection-url.ts';

export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** What it says, without the password. */
export function wordsOf(error: unknown, url: string): string {
  let words = error instanceof Error ? error.message : String(error);
  if (error instanceof AggregateError && words === '') words = [...new Set(error.errors.map(String))].join(', ');
  if (words === '') words = codeOf(error);
  for (const password of passwordsOf(url)) words = words.replaceAll(password, '***');
  return words.replaceAll(/\s+/g, ' ');
}

/** Classes of errors that no further try mends: the statement, the data or the rights are not what they should be. */
const LASTING = /^(?:0A|22|23|2[0-9BDF]|34|3D|3F|42|44)[0-9A-Z]{3}$/;
/** Of a database that has become a replica; another may be the first now. */
const READ_ONLY = '25006';

/** Whether it may be better in a while: connections, resources, restarts, conflicts (40001, 40P01). */
export function isTransient(error: unknown): boolean {
  if (error instanceof ServerError) return false;
  const code = codeOf(error);
  return code === READ_ONLY || !LASTING.test(code);
}

/** Why the server cannot start with this database, in one line, with what to do. */
export function startProblem(error: unknown, url: string): ServerError {
  if (error instanceof ServerError) return error;
  const place = placeOf(url);
  const words = wordsOf(error, url);
  const problem = `${place} ${problemOf(codeOf(error), words)}`;
  return new ServerError('unavailable', 'state-unwritable', problem, { cause: error });
}

function problemOf(code: string, words: string): string {
  switch (code) {
    case '28P01':
      return `refuses the password (${words}): correct it in storage.url, or in PGPASSWORD`;
    case '28000':
      return `refuses the user (${words}): correct user and sslmode in storage.url, or what pg_hba.conf allows`;
    case '3D000':
      return `is not there (${words}): make it with createdb, or correct storage.url`;
    case '42501':
      return `does not let this user make or use the tables (${words}): docs/postgres.md says what to grant`;
    case '53300':
      return `has no connection left (${words}): a server takes three, and one more for each backup; raise max_connections`;
    case '57P03':
      return `is starting or stopping (${words}): start svc when it takes connections`;
    case '25006':
      return `takes no writes (${words}): name the primary in storage.url, or add target_session_attrs to what stands before it`;
  }
  if (/CERT|SELF_SIGNED|ALTNAME|VERIFY/.test(code))
    return `has a certificate that is not trusted (${words}): name its authority with sslrootcert=FILE in storage.url`;
  if (/does not support SSL/.test(words))
    return `refuses TLS (${words}): turn it on there (ssl = on), or take sslmode out of storage.url if the network is under your control`;
  if (/password must be a/.test(words)) return 'asks for a password, and none is given: set PGPASSWORD';
  if (/\bopen '/.test(words))
    return `cannot be reached with this storage.url, which names a file that cannot be read (${words})`;
  if (/^E[A-Z]+$/.test(code) || /timeout|terminated|ended/.test(words))
    return `cannot be reached (${words}): is it running, and are host and port in storage.url right?`;
  return `cannot be used (${words})`;
}
