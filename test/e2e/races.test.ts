/** Concurrent life-cycle requests: whatever their order, each gets a sensible answer, and the server goes on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startServer } from '../support/server.ts';
import { wat } from '../support/wat.ts';

const SLOW = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 1)
  (func $slow (param $i i32) (loop $l (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1))))))
  (func (export "canister_init") (call $slow (i32.const 800000000)))
  (func (export "canister_heartbeat"))
  (func (export "canister_query slow") (call $slow (i32.const 800000000)) (call $reply))
  (func (export "canister_query quick") (call $reply))
  (func (export "canister_update note") (call $reply)))`);

test('an actor that is stopped and deleted while it is being installed', async (t) => {
  const server = await startServer(t, { manifest: '{"actors":{}}', args: ['--heartbeat-ms', '5'] });
  const installing = server.post('/install/one', SLOW);
  while (!(await server.fetch('/actors').then((response) => response.text())).includes('one')) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const stopping = await server.post('/stop/one');
  assert.equal(stopping.status, 200);
  const removing = server.fetch('/actors/one', { method: 'DELETE' });
  const upgrading = server.post('/upgrade/one', SLOW);
  assert.equal((await installing).status, 200);
  assert.equal((await removing).status, 200);
  assert.equal((await upgrading).status, 404);
  assert.equal((await server.post('/call/one/note')).status, 404);
});

test('an actor that is deleted while queries of it execute and wait', async (t) => {
  const server = await startServer(t, { manifest: '{"actors":{}}', args: ['--executors', '1'] });
  assert.equal((await server.post('/install/one', SLOW)).status, 200);
  assert.equal((await server.post('/install/two', SLOW)).status, 200);
  const slow = server.post('/query/one/slow');
  const waiting = Array.from({ length: 300 }, () => server.post('/query/one/quick'));
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal((await server.post('/stop/one')).status, 200);
  assert.equal((await server.fetch('/actors/one', { method: 'DELETE' })).status, 200);
  assert.equal((await slow).status, 200, 'what executes goes on');
  for (const { status } of await Promise.all(waiting)) assert.ok(status < 501, `status ${status}`);
  assert.equal((await server.post('/query/two/quick')).status, 200);
});
