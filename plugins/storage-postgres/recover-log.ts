/** The units that were committed and are not in the tables, in order. */
import type { Connection } from './connection.ts';
import { corrupt } from './entries.ts';
import { CHUNK_BYTES, CHUNK_ROWS, SQL } from './schema.ts';

/** Hands out what each transaction has committed; resolves to the newest unit, 0 if there is none. */
export async function recoverLog(
  connection: Connection,
  namespace: string,
  apply: (operations: Uint8Array) => Promise<void>,
): Promise<number> {
  let after: [unit: string, piece: number] = ['0', -1];
  let last = 0;
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
        if (last > 0 && Number(unit) !== last + 1)
          throw corrupt(`svc_log has no unit ${last + 1} before unit ${String(unit)}`);
        last = Number(until);
      } else if (Number(piece) !== pieces.length)
        throw corrupt(`svc_log lacks a piece before piece ${String(piece)} of unit ${String(unit)}`);
      pieces.push(bytes);
      after = [String(unit), Number(piece)];
    }
    if (rows.length < CHUNK_ROWS && read < CHUNK_BYTES) break;
  }
  await applyWhole();
  return last;
}
