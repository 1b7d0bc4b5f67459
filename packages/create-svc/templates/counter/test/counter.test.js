import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startServer } from './server.js';

test('a counter counts, and a message that traps leaves no trace', async (t) => {
  const { call } = await startServer(t);
  assert.deepEqual(await call('call-json/counter/inc'), [1]);
  assert.deepEqual(await call('call-json/counter/add', 41), [42]);
  await assert.rejects(call('call-json/counter/boom'), /400/);
  assert.deepEqual(await call('query-json/counter/get'), [42]);
});
