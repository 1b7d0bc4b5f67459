import { BackupReader } from '../../../subsystems/storage/backup.ts';
import type { BackupSource } from '../../../subsystems/storage/backup-parser.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { type Change, FAMILIES, type Tables } from '../../../subsystems/storage/tables.ts';
import { seeded } from '../../support/seeded.ts';

const LARGE_BYTES = 2 * 2 ** 20;

/**
 * Returns some thousand entries in every family but `queue`, about 6 MiB: empty values, pages, a large one, keys of one
 * byte.
 */
export function someChanges(): readonly Change[] {
  const random = seeded(5);
  const changes: Change[] = [];
  for (const family of FAMILIES) {
    if (family === 'queue') continue;
    changes.push({ family, key: Uint8Array.of(0), value: new Uint8Array(0) });
    changes.push({ family, key: Uint8Array.of(255, 255), value: Uint8Array.of(1) });
    for (let number = 0; number < 500; number++) {
      const key = Buffer.alloc(14, 0x80);
      key.writeUInt32BE(number * 7, 10);
      const value = new Uint8Array(number % 10 === 0 ? 4096 : number % 50);
      for (let at = 0; at < value.length; at++) value[at] = random.below(256);
      changes.push({ family, key, value });
    }
  }
  const large = new Uint8Array(LARGE_BYTES);
  for (let at = 0; at < large.length; at += 3) large[at] = at;
  changes.push({ family: 'module', key: Buffer.from('large'), value: large });
  return changes;
}

export function filledTables(): MemoryTables {
  const tables = new MemoryTables();
  tables.write(someChanges(), { isSynced: false });
  return tables;
}

/** Returns the whole file. */
export function backupOf(tables: Tables, createdMs = 1_800_000_000_000): Buffer {
  const reader = new BackupReader(tables.snapshot(), { nowMs: () => createdMs });
  const pieces: Uint8Array[] = [];
  for (let piece = reader.next(); piece !== undefined; piece = reader.next()) pieces.push(piece);
  reader.close();
  return Buffer.concat(pieces);
}

export function sourceOf(file: Uint8Array): BackupSource {
  let at = 0;
  return {
    name: 'it',
    take(length) {
      const bytes = file.subarray(at, at + length);
      at += bytes.length;
      return Promise.resolve(bytes);
    },
  };
}
