/** The units that were committed and are not in the tables, in order. */
import type { Connection } from './connection.ts';
import { corrupt } from './entries.ts';
import { CHUNK_BYTES, CHUNK_ROWS, SQL } from './schema.ts';

/** The database's answers about a namespace before its log is read. */
interface Expected {
  /** The newest unit in the tables: the log goes on from there, or from before. */
  readonly folded: number;
  /** The newest unit of all. */
  readonly last: number;
}

/**
 * Hands out what each transaction has committed, and tells how many bytes were read. Rejects with ServerError
 * `state-corrupt` where units are missing.
 */
export async function recoverLog(
  connection: Connection,
  namespace: string,
  expected: Expected,
  apply: (operations: Uint8Array) => Promise<void>,
  tell: (bytes: number) => void,
): Promise<void> {
  let after: [unit: string, piece: number] = ['0', -1];
  let last: number | undefined;
  let bytesRead = 0;
  let pieces: Buffer[] = [];
  const applyWhole = async (): Promise<void> => {
    const [first, ...more] = pieces;
    if (first !== undefined) await apply(more.length === 0 ? first : Buffer.concat(pieces));
    pieces = [];
  };
  for (;;) {
    const { rows } = await connection.query(SQL.log, [namespace, ...after]);
    let read = 0;
    for (const [unit, piece, until, bytes] of rows) {
      if (!(bytes instanceof Buffer)) throw corrupt('a row of svc_log has no bytes');
      read += bytes.length;
      if (Number(piece) === 0) {
        await applyWhole();
        // Units that the tables have already may be in the log still; then all of it is applied again, up to what the
        // tables lack.
        const isNext = last === undefined ? Number(unit) <= expected.folded + 1 : Number(unit) === last + 1;
        if (!isNext) throw corrupt(`svc_log has no unit ${(last ?? expected.folded) + 1} before unit ${String(unit)}`);
        last = Number(until);
      } else if (Number(piece) !== pieces.length)
        throw corrupt(`svc_log lacks a piece before piece ${String(piece)} of unit ${String(unit)}`);
      pieces.push(bytes);
      after = [String(unit), Number(piece)];
    }
    tell((bytesRead += read));
    if (rows.length < CHUNK_ROWS && read < CHUNK_BYTES) break;
  }
  await applyWhole();
  if ((last ?? expected.folded) !== expected.last)
    throw corrupt(`svc_log ends with unit ${last ?? 0}, and unit ${expected.last} was committed`);
}
