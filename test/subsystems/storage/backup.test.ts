import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  BLOCK_BYTES_MAX,
  BLOCK_HEADER_BYTES,
  backupHeader,
  blockCrc,
  END,
  ENTRIES,
} from '../../../subsystems/storage/backup-format.ts';
import { BackupParser } from '../../../subsystems/storage/backup-parser.ts';
import { BackupReader } from '../../../subsystems/storage/backup.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { FORMAT as STATE_FORMAT } from '../../../subsystems/storage/format-steps.ts';
import { type Change, FAMILIES, type TableReader } from '../../../subsystems/storage/tables.ts';
import { backupOf, filledTables, sourceOf } from './backup-files.ts';

async function parsed(file: Uint8Array): Promise<{ tables: MemoryTables; parser: BackupParser; batches: number }> {
  const parser = new BackupParser(sourceOf(file));
  const tables = new MemoryTables();
  let batches = 0;
  for await (const changes of parser.changes()) {
    tables.write(changes, { isSynced: false });
    batches++;
  }
  return { tables, parser, batches };
}

function contentsOf(tables: TableReader): readonly string[] {
  return FAMILIES.flatMap((family) =>
    [...tables.range(family, new Uint8Array(0), undefined)].map(
      ([key, value]) => `${family} ${Buffer.from(key).toString('hex')} ${Buffer.from(value).toString('hex')}`,
    ),
  );
}

/** Makes a backup of blocks with right checksums and any contents. */
function forged(...blocks: readonly (readonly [kind: number, contents: Uint8Array])[]): Buffer {
  const { line, crc } = backupHeader(STATE_FORMAT, 0);
  const pieces: Uint8Array[] = [line];
  let previous = crc;
  for (const [kind, contents] of blocks) {
    const block = Buffer.alloc(BLOCK_HEADER_BYTES + contents.length);
    block.writeUInt32LE(contents.length, 4);
    block[8] = kind;
    block.set(contents, BLOCK_HEADER_BYTES);
    previous = blockCrc(block, previous);
    block.writeUInt32LE(previous, 0);
    pieces.push(block);
  }
  return Buffer.concat(pieces);
}

function entry(family: number, key: string, value: string, valueLength = value.length): Buffer {
  const header = Buffer.alloc(7);
  header[0] = family;
  header.writeUInt16LE(key.length, 1);
  header.writeUInt32LE(valueLength, 3);
  return Buffer.concat([header, Buffer.from(key), Buffer.from(value)]);
}

suite('backup', () => {
  test('what the tables know of the log beside them is left out', async () => {
    const tables = new MemoryTables();
    const rows = ['K', 'L', 'L0', 'U'].map(
      (key) => ({ family: 'meta', key: Buffer.from(key), value: Buffer.from(key) }) as const,
    );
    tables.write(rows, { isSynced: false });
    const { tables: restored, parser } = await parsed(backupOf(tables));
    const keys = [...restored.range('meta', new Uint8Array(0), undefined)].map(([key]) => Buffer.from(key).toString());
    assert.deepEqual(keys, ['K', 'L0', 'U']);
    assert.equal(parser.entries, 3);
  });

  test('thousands of entries, empty and large ones among them, come back as they were', async () => {
    const tables = filledTables();
    const file = backupOf(tables);
    const { tables: restored, parser, batches } = await parsed(file);
    assert.deepEqual(contentsOf(restored), contentsOf(tables));
    assert.equal(parser.entries, contentsOf(tables).length);
    assert.equal(parser.bytes, file.length);
    assert.ok(batches > 3);
  });

  test('an empty state has a backup too', async () => {
    const { tables, parser } = await parsed(backupOf(new MemoryTables()));
    assert.deepEqual(contentsOf(tables), []);
    assert.equal(parser.entries, 0);
  });

  test('a piece is about a mebibyte, however large a value is, and what is written meanwhile is not in it', async () => {
    const tables = filledTables();
    const before = contentsOf(tables);
    const reader = new BackupReader(tables.snapshot());
    const pieces: Uint8Array[] = [];
    for (let piece = reader.next(); piece !== undefined; piece = reader.next()) {
      assert.ok(piece.length <= BLOCK_BYTES_MAX + 256);
      pieces.push(piece);
      const added: Change = { family: 'blob', key: Buffer.from(`new ${pieces.length}`), value: Buffer.from('x') };
      tables.write([added, { family: 'module', key: Buffer.from('large'), value: undefined }], { isSynced: false });
    }
    reader.close();
    assert.deepEqual(contentsOf((await parsed(Buffer.concat(pieces))).tables), before);
  });

  test('a reader that is closed, early or twice, lets its snapshot go once and hands nothing out', () => {
    const tables = filledTables();
    let disposed = 0;
    const snapshot = tables.snapshot();
    const reader = new BackupReader({
      get: (family, key) => snapshot.get(family, key),
      getMany: (family, keys) => snapshot.getMany(family, keys),
      range: (family, from, to) => snapshot.range(family, from, to),
      [Symbol.dispose]: () => void disposed++,
    });
    assert.ok(reader.next());
    reader.close();
    reader.close();
    assert.equal(disposed, 1);
    assert.equal(reader.next(), undefined);
  });

  test('its first line says for people what it is', () => {
    const [line = ''] = backupOf(new MemoryTables(), Date.UTC(2026, 10, 21, 8, 30))
      .toString('latin1')
      .split('\n', 1);
    assert.match(line, /^svc-backup 1 state 3 2026-11-21T08:30:00\.000Z [0-9a-f]{8}$/);
  });

  test('it may come in pieces of any size', async () => {
    const tables = filledTables();
    const file = backupOf(tables);
    for (const most of [1000, 65_536, 99_999]) {
      let at = 0;
      const trickle = {
        name: 'it',
        take: async (length: number) => {
          const parts: Uint8Array[] = [];
          for (let left = length; left > 0 && at < file.length;) {
            const part = file.subarray(at, at + Math.min(left, most));
            parts.push(part);
            at += part.length;
            left -= part.length;
          }
          return Buffer.concat(parts);
        },
      };
      const parser = new BackupParser(trickle);
      let entries = 0;
      for await (const changes of parser.changes()) entries += changes.length;
      assert.equal(entries, parser.entries);
    }
  });
});

suite('a backup that is not as it was made', () => {
  test('cut off anywhere, it is refused', async () => {
    const file = backupOf(filledTables());
    const cuts = new Set([1, 5, 10, 11, 20, 50, 59, 60, 61, 62, 69, 70, 71, 72, 1000]);
    for (let cut = 4096; cut < file.length; cut += 211_111) cuts.add(cut);
    for (let back = 1; back < 140; back++) cuts.add(file.length - back);
    for (const cut of cuts) {
      await assert.rejects(parsed(file.subarray(0, cut)), (error: Error & { code: string }) => {
        assert.equal(error.code, 'backup-truncated', `cut at ${cut}: ${error.message}`);
        assert.match(error.message, new RegExp(`ends at byte ${cut},`));
        return true;
      });
    }
  });

  test('with a bit flipped anywhere, it is refused, and the message names the block', async () => {
    const file = backupOf(filledTables());
    const lineEnd = file.indexOf('\n') + 1;
    const positions = new Set(Array.from({ length: lineEnd + 30 }, (_, at) => at));
    for (let at = 4099; at < file.length; at += 231_113) positions.add(at);
    for (let back = 1; back < 120; back++) positions.add(file.length - back);
    for (const at of positions) {
      const damaged = Buffer.from(file);
      damaged[at] = (damaged[at] ?? 0) ^ (1 << (at % 8));
      await assert.rejects(parsed(damaged), (error: Error & { code: string }) => {
        const codes = at < 11 ? ['backup-foreign'] : ['backup-damaged', 'backup-truncated'];
        assert.ok(codes.includes(error.code), `flipped at ${at}: ${error.code}: ${error.message}`);
        const start = Number(/at byte (\d+)(?:;|:)/.exec(error.message)?.[1]);
        if (at >= 11) assert.ok(start <= at && at - start < BLOCK_BYTES_MAX + 20, `flipped at ${at}: ${error.message}`);
        return true;
      });
    }
  });

  test('a foreign file, an empty one and one that only begins like a backup are told apart', async () => {
    const said = async (file: Uint8Array): Promise<string> => {
      const error = await parsed(file).then(
        () => assert.fail('accepted'),
        (thrown: Error & { code: string }) => thrown,
      );
      return `${error.code}: ${error.message}`;
    };
    assert.equal(
      await said(Buffer.from('PK\u0003\u0004 something else')),
      'backup-foreign: it is not a backup of this server: it does not begin with "svc-backup"',
    );
    assert.equal(await said(Buffer.alloc(0)), 'backup-foreign: it is not a backup of this server: it is empty');
    assert.match(await said(Buffer.from('svc-backup is a fine thing\n')), /^backup-damaged: .* byte 0/);
    assert.match(await said(Buffer.from(`svc-backup 1 ${'x'.repeat(1000)}`)), /^backup-damaged: .*does not end/);
  });

  test('one of a newer version is refused with both numbers', async () => {
    await assert.rejects(parsed(Buffer.from('svc-backup 2 has another first line\n')), {
      code: 'backup-newer',
      message: 'it was made by a newer version: it has backup format 2, this version reads 1',
    });
    await assert.rejects(parsed(Buffer.from(backupHeader(7, 0).line)), {
      code: 'backup-newer',
      message: 'it was made by a newer version: it has state format 7, this version reads 3',
    });
    await assert.rejects(parsed(Buffer.from(backupHeader(0, 0).line)), { code: 'backup-damaged' });
  });

  test('one of an older state is refused with both numbers', async () => {
    await assert.rejects(parsed(Buffer.from(backupHeader(1, 0).line)), {
      code: 'backup-older',
      message: 'it was made by an older version: it has state format 1, this version reads 2 to 3',
    });
  });

  test('something after the end is refused', async () => {
    const file = backupOf(new MemoryTables());
    await assert.rejects(parsed(Buffer.concat([file, Buffer.from('\n')])), {
      code: 'backup-damaged',
      message: `it is damaged at byte ${file.length}: something follows the end of the backup`,
    });
    await assert.rejects(parsed(Buffer.concat([file, file])), { code: 'backup-damaged' });
  });

  test('blocks that are missing, doubled or exchanged are refused where they are', async () => {
    const file = backupOf(filledTables());
    const starts = [file.indexOf('\n') + 1];
    for (let at = starts[0] ?? 0; at < file.length; starts.push(at)) {
      at += BLOCK_HEADER_BYTES + file.readUInt32LE(at + 4);
    }
    const [head, ...blocks] = [0, ...starts].map((start, index) => file.subarray(start, starts[index]));
    assert.ok(head && blocks.length > 4);
    const [first, second, third, ...rest] = blocks.slice(0, -1);
    assert.ok(first && second && third);
    for (const arranged of [
      [second, third, ...rest],
      [first, third, ...rest],
      [first, third, second, ...rest],
      [first, first, second, third, ...rest],
      [first, second, third, ...rest.slice(0, -2), ...rest.slice(-1)],
    ]) {
      await assert.rejects(parsed(Buffer.concat([head, ...arranged])), { code: 'backup-damaged' });
    }
  });

  test('hostile contents under right checksums are refused, and lengths are not believed', async () => {
    const nothing = Buffer.alloc(1 + 8 * FAMILIES.length + 32, 0);
    nothing[0] = FAMILIES.length;
    const cases: readonly (readonly [RegExp, Buffer])[] = [
      [/a value has 4294967295 bytes/, forged([ENTRIES, entry(0, 'a', '', 0xffff_ffff)])],
      [/no family 7/, forged([ENTRIES, entry(7, 'a', '')])],
      [/out of order/, forged([ENTRIES, Buffer.concat([entry(0, 'b', ''), entry(0, 'a', '')])])],
      [/out of order/, forged([ENTRIES, Buffer.concat([entry(0, 'b', ''), entry(0, 'b', '')])])],
      [/out of order/, forged([ENTRIES, Buffer.concat([entry(2, 'b', ''), entry(1, 'c', '')])])],
      [/last entry is cut off/, forged([ENTRIES, entry(0, 'a', 'some', 1000)], [END, nothing])],
      [/1 entries of meta instead of 0/, forged([ENTRIES, entry(0, 'a', 'some')], [END, nothing])],
      [/checksum of the whole file/, forged([END, nothing])],
      [/end is damaged/, forged([END, Buffer.alloc(5, 255)])],
      [/a block is damaged/, forged([3, Buffer.alloc(5)])],
      [/a block is damaged/, forged([ENTRIES, Buffer.alloc(0)])],
      [/a block is damaged/, forged([ENTRIES, Buffer.alloc(BLOCK_BYTES_MAX + 1)])],
    ];
    for (const [message, file] of cases) await assert.rejects(parsed(file), { code: 'backup-damaged', message });
  });
});
