/** Notes what the state of a running server is, for comparison with what an archive brings back. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ReadableBackup } from '../../../subsystems/storage/backup-file.ts';
import { LAST_UNIT_KEY, lastUnitOf } from '../../../subsystems/storage/last-unit.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { hashOf } from '../../subsystems/archive/archived-state.ts';

export interface Noted {
  readonly unit: number;
  readonly hash: string;
}

/** Takes a backup of a server, and resolves with its newest unit and the hash of all rows. */
export async function note(origin: string, folder: string): Promise<Noted> {
  const response = await fetch(`${origin}/backup`);
  assert.equal(response.status, 200);
  const file = join(folder, 'noted.backup');
  await writeFile(file, new Uint8Array(await response.arrayBuffer()));
  const tables = new MemoryTables();
  for await (const changes of new ReadableBackup(file).changes())
    tables.write(
      changes.map(({ family, key, value }) => ({ family, key: key.slice(), value: value?.slice() })),
      { isSynced: false },
    );
  return { unit: lastUnitOf(tables.get('meta', LAST_UNIT_KEY)), hash: hashOf(tables) };
}
