/** Memory of a deleted actor goes back to the machine, and none is kept, whatever the others of its thread do. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { send } from '../../support/http-client.ts';
import { startServer } from '../../support/server.ts';
import { wat } from '../../support/wat.ts';

const MIB = 2 ** 20;
const LARGE = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 3200)
  (func (export "canister_update fill") (memory.fill (i32.const 0) (i32.const 7) (i32.const 209715200)) (call $reply)))`);
/** Leaves a heap of 12 MiB, hardly any of it touched, with each message. */
const GROWING = wat(`(module
  (memory 1)
  (func (export "canister_update grow") (drop (memory.grow (i32.const 190))) unreachable))`);

test('200 MiB go back while messages of others leave heaps without end, and those keep no address space', async (t) => {
  const args = ['--executors', '1', '--no-storage', '--cycles', '0'];
  const server = await startServer(t, { args, manifest: JSON.stringify({ actors: {} }) });
  const install = async (name: string, wasm: Uint8Array): Promise<void> =>
    assert.equal((await server.post(`/install/${name}`, wasm)).status, 200);
  const spareBytes = async (): Promise<number> =>
    Number(/^svc_memory_kind_bytes\{kind="spare"\} (\S+)$/m.exec((await server.get('/metrics')).body)?.[1]);
  await install('large', LARGE);
  assert.equal((await server.post('/call/large/fill')).status, 200);
  for (let n = 0; n < 8; n++) await install(`growing-${n}`, GROWING);
  let isOver = false;
  const flood = Array.from({ length: 64 }, async (_, n) => {
    while (!isOver) assert.equal((await server.post(`/call/growing-${n % 8}/grow`)).status, 400);
  });
  await sleep(1000);
  assert.equal((await send(server.origin, 'DELETE', '/actors/large?force=true')).status, 200);
  const untilMs = performance.now() + 20_000;
  let spare = await spareBytes();
  for (; spare > 50 * MIB && performance.now() < untilMs; spare = await spareBytes()) await sleep(100);
  const status = readFileSync(`/proc/${server.process.pid}/status`, 'utf8');
  const addressGib = Number(/^VmSize:\s+(\d+)/m.exec(status)?.[1]) / 2 ** 20;
  isOver = true;
  await Promise.all(flood);
  assert.ok(spare <= 50 * MIB, `${spare / MIB} MiB are still there`);
  // At most some hundred heaps of 16 GiB are garbage.
  assert.ok(addressGib < 16_000, `${addressGib} GiB of address space`);
});
