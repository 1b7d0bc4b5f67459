/** Meanings of errors of the driver and the database, and their words. */
import { ServerError } from '../api/plugin.ts';
import { passwordsOf, placeOf } from './connection-url.ts';

export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** The connection broke, or was not made: what was sent last may have been done, or not. Its code is the cause's. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
  readonly code: string;

  constructor(cause: unknown) {
    super(plainWordsOf(cause), { cause });
    this.code = codeOf(cause);
  }
}

function plainWordsOf(error: unknown): string {
  const words = error instanceof Error ? error.message : String(error);
  if (error instanceof AggregateError && words === '') return [...new Set(error.errors.map(String))].join(', ');
  return words === '' ? codeOf(error) : words;
}

/** Returns the error's words without the password. */
export function wordsOf(error: unknown, url: string): string {
  let words = plainWordsOf(error);
  for (const password of passwordsOf(url)) words = words.replaceAll(password, '***');
  return words.replaceAll(/\s+/g, ' ');
}

/** The codes that the database itself gives: of five, the first two are the class. */
const SQL_STATE = /^(?:[0-9][0-9A-Z]|F0|HV|P0|XX)[0-9A-Z]{3}$/;
/**
 * Classes of connections, conflicts (40001, 40P01), resources, objects that somebody else uses, restarts and operators,
 * and the system below.
 */
const TRANSIENT_CLASSES = /^(?:08|40|53|55|57|58)/;
/**
 * Codes of a database that has become a replica, because another may be the first now, and of a transaction that waited
 * for this process, which was stopped for a while: that does not mean that somebody else wants the namespace.
 */
const TRANSIENT: ReadonlySet<string> = new Set(['25006', '25P03', '25P04']);
/** A page, an index or a file of the database is not what it was: the same again at each try. */
const DAMAGED: ReadonlySet<string> = new Set(['XX001', 'XX002', '58P01']);

/**
 * Classes of the errors with which the database ends the connection for good: a client that is refused is refused
 * again.
 */
const REFUSED_CLASSES = /^(?:28|3D|42)/;

/** The connection is gone with it, as poolers tell it with XX000: what is behind it may be there again soon. */
function isFatal(error: unknown): boolean {
  const severity = error instanceof Error && 'severity' in error ? error.severity : undefined;
  return severity === 'FATAL' || severity === 'PANIC';
}

export function isFromDatabase(error: unknown): boolean {
  return SQL_STATE.test(codeOf(error));
}

/** The database answers, and does not do what was asked for. */
export function isRefusal(error: unknown): boolean {
  return isFromDatabase(error) && !isFatal(error);
}

export function isDamage(error: unknown): boolean {
  return DAMAGED.has(codeOf(error));
}

/**
 * Returns true if the error may be gone in a while. Unknown errors do not count as transient: a bug or a limit would be
 * tried for ever, and all would wait.
 */
export function isTransient(error: unknown): boolean {
  if (error instanceof ConnectionLost) return true;
  const code = codeOf(error);
  if (!SQL_STATE.test(code) || DAMAGED.has(code)) return false;
  return TRANSIENT_CLASSES.test(code) || TRANSIENT.has(code) || (isFatal(error) && !REFUSED_CLASSES.test(code));
}

/** Something of it cannot be read any more. */
export function damaged(error: unknown, url: string): ServerError {
  const problem = `${placeOf(url)} is damaged (${wordsOf(error, url)}): mend it there, or restore a backup`;
  return new ServerError('unavailable', 'state-corrupt', problem, { cause: error });
}

/** Returns the error that says in one line why the server cannot start with this database, and what to do. */
export function startProblem(error: unknown, url: string): ServerError {
  if (error instanceof ServerError) return error;
  if (isDamage(error)) return damaged(error, url);
  const place = placeOf(url);
  const words = wordsOf(error, url);
  const problem = `${place} ${problemOf(codeOf(error), words, error instanceof ConnectionLost)}`;
  return new ServerError('unavailable', 'state-unwritable', problem, { cause: error });
}

function problemOf(code: string, words: string, isLost: boolean): string {
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
  if (isLost) return `cannot be reached (${words}): is it running, and are host and port in storage.url right?`;
  return `cannot be used (${words})`;
}
