/** Query by which pages of actors' memory are read with COPY, which takes no parameters. */
import type { Family } from '../api/storage.ts';
import { familyNumber } from './schema.ts';

/** Pages of actors' memory that one answer has at most: 4 MiB. */
export const CHUNK_PAGES = 1024;

interface PageRange {
  readonly namespace: string;
  readonly family: Family;
  /** The first key that may come. */
  readonly from: Uint8Array;
  /** The first key that does not come; undefined: all. */
  readonly to: Uint8Array | undefined;
  /** The last key that came. */
  readonly after: Uint8Array | undefined;
}

/** Returns the query for keys and values of the next pages. */
export function readPages({ namespace, family, from, to, after }: PageRange): string {
  const start = after === undefined ? `key >= ${bytesLiteral(from)}` : `key > ${bytesLiteral(after)}`;
  const end = to === undefined ? '' : ` AND key < ${bytesLiteral(to)}`;
  return `SELECT key, value FROM svc_entries
    WHERE namespace = ${textLiteral(namespace)} AND family = ${familyNumber(family)} AND ${start}${end}
    ORDER BY key, piece LIMIT ${CHUNK_PAGES}`;
}

/**
 * Returns the text as it stands in a statement, whatever the session says of backslashes. A constant, since the
 * database does not look into the index with what a function returns.
 */
function textLiteral(text: string): string {
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}

function bytesLiteral(bytes: Uint8Array): string {
  return `decode('${Buffer.from(bytes).toString('hex')}', 'hex')`;
}
