import assert from 'node:assert/strict';
import { test } from 'node:test';
import { evenColumns } from '../../../../subsystems/inspector/page/even-columns.ts';

test('tiles have as few rows as their width allows, and no last row of one where three columns have room', () => {
  for (let count = 1; count <= 30; count++) {
    for (let most = 0; most <= 30; most++) {
      const columns = evenColumns(count, most);
      const told = `${count} tiles, ${most} columns: ${columns}`;
      assert.ok(columns >= 2 && columns <= Math.max(2, most), told);
      assert.ok(columns === 2 || count % columns !== 1, told);
      const isForced = Math.ceil(count / columns) > Math.ceil(count / Math.max(2, most));
      // A row more is taken only where fewer would leave one tile alone.
      if (isForced) assert.equal(count % Math.ceil(count / Math.ceil(count / Math.max(2, most))), 1, told);
    }
  }
  assert.deepEqual(
    [11, 12, 13].map((count) => evenColumns(count, 5)),
    [4, 4, 5],
  );
});
