/** The row of the newest unit that the tables have: in every storage and in backups, 8 bytes, big-endian. */
import { ServerError } from '../../kernel/index.ts';
import { META, metaKey } from './keyspace.ts';
import type { Change } from './tables.ts';

export const LAST_UNIT_KEY: Uint8Array = metaKey(META.unit);

export function lastUnitChange(unit: number): Change {
  const value = new Uint8Array(8);
  new DataView(value.buffer).setBigUint64(0, BigInt(unit));
  return { family: 'meta', key: LAST_UNIT_KEY, value };
}

/** Returns the unit of that row, 0 if there is none. Throws ServerError `state-corrupt` if the row has no number. */
export function lastUnitOf(value: Uint8Array | undefined): number {
  if (value === undefined) return 0;
  if (value.length !== 8)
    throw new ServerError(
      'unavailable',
      'state-corrupt',
      `the row meta/U, the newest unit, has ${value.length} bytes instead of 8`,
    );
  return Number(new DataView(value.buffer, value.byteOffset).getBigUint64(0));
}
