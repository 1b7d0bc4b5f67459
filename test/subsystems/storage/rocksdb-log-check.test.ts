import assert from 'node:assert/strict';
import { cp, readdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { findLogDamage } from '../../../subsystems/storage/rocksdb-log-check.ts';
import { RocksdbTables } from '../../../subsystems/storage/rocksdb-tables.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const VALUES = 20;

/**
 * Makes tables that were closed with everything in their own log; returns its path, and the end of the last write that
 * counts.
 */
async function filled(): Promise<{ directory: string; file: string; bytes: Buffer }> {
  const directory = await temporaryDirectory();
  const tables = await RocksdbTables.open(directory);
  for (let at = 0; at < VALUES; at++) {
    const value = new Uint8Array(at * 3000).fill(at);
    tables.write([{ family: 'heap', key: Uint8Array.of(at), value }], { isSynced: true });
  }
  tables.write([], { isSynced: false });
  await tables.close();
  const name = (await readdir(directory)).find((each) => each.endsWith('.log'));
  assert.ok(name);
  const file = join(directory, name);
  return { directory, file, bytes: await readFile(file) };
}

async function opened(directory: string): Promise<number> {
  const tables = await RocksdbTables.open(directory);
  try {
    return [...tables.range('heap', new Uint8Array(0), undefined)].length;
  } finally {
    await tables.close();
  }
}

suite("RocksDB's own log", () => {
  test('a flipped bit anywhere before its last record is found, nothing is opened and nothing changed', async () => {
    const { directory, file, bytes } = await filled();
    assert.equal(await findLogDamage(directory), undefined);
    const before = await readdir(directory);
    for (const at of [0, 3, 6, 30, 5000, 32_767, 32_768, 32_774, 40_000, bytes.length - 30]) {
      const flipped = Buffer.from(bytes);
      flipped.writeUInt8(flipped.readUInt8(at) ^ 1, at);
      await writeFile(file, flipped);
      const damage = await findLogDamage(directory);
      assert.ok(damage !== undefined && damage.byte <= at && damage.file === file, `byte ${at}`);
      await assert.rejects(opened(directory), { code: 'state-corrupt', message: /record at byte \d+ cannot be read/ });
      assert.deepEqual(await readFile(file), flipped);
      assert.deepEqual(await readdir(directory), before);
    }
    await writeFile(file, bytes);
    assert.equal(await opened(directory), VALUES);
  });

  test('an end that was not written wholly is no damage', async () => {
    const { directory, file, bytes } = await filled();
    for (const [missing, values] of [
      [10, VALUES],
      [40, VALUES - 1],
      [60_000, VALUES - 2],
    ] as const) {
      const copy = await temporaryDirectory();
      await cp(directory, copy, { recursive: true });
      await truncate(file.replace(directory, copy), bytes.length - missing);
      assert.equal(await findLogDamage(copy), undefined);
      assert.equal(await opened(copy), values);
      // A file system may have reserved more room than was written.
      const longer = await temporaryDirectory();
      await cp(directory, longer, { recursive: true });
      const torn = Buffer.concat([bytes.subarray(0, bytes.length - missing), Buffer.alloc(100_000)]);
      await writeFile(file.replace(directory, longer), torn);
      assert.equal(await findLogDamage(longer), undefined);
    }
  });
});
