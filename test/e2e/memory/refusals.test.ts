/** Messages that are refused memory, over and over: the thread serves others meanwhile. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { send } from '../../support/http-client.ts';
import { startServer } from '../../support/server.ts';
import { wat } from '../../support/wat.ts';

/** Has nearly all of the bound, and cannot be put to sleep, because its message goes on. */
const HOG = wat(`(module
  (memory 944)
  (func (export "canister_update fill")
    (memory.fill (i32.const 0) (i32.const 7) (i32.const 61865984))
    (loop $ever (br $ever))))`);
const NEIGHBOUR = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 1)
  (func (export "canister_update inc")
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
    (call $reply)))`);
/** Each update but `nothing` wants more memory than there is. */
const GREEDY = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "msg_arg_data_size" (func $size (result i32)))
  (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "stable64_grow" (func $grow64 (param i64) (result i64)))
  (import "ic0" "stable_grow" (func $grow (param i32) (result i32)))
  (import "ic0" "stable64_write" (func $write (param i64 i64 i64)))
  (memory 240)
  (func (export "canister_init") (drop (call $grow64 (i64.const 1))))
  (func (export "canister_update nothing") (call $reply))
  (func (export "canister_update grow_heap")
    (if (i32.ne (memory.grow (i32.const 640)) (i32.const -1)) (then unreachable))
    (call $reply))
  (func (export "canister_update grow_stable")
    (if (i32.ne (call $grow (i32.const 640)) (i32.const -1)) (then unreachable))
    (call $reply))
  (func (export "canister_update grow_stable64")
    (if (i64.ne (call $grow64 (i64.const 640)) (i64.const -1)) (then unreachable))
    (call $reply))
  (func (export "canister_update write_stable")
    (drop (call $grow (i32.const 192)))
    (call $write (i64.const 0) (i64.const 0) (i64.const 12582912))
    (call $reply))
  (func (export "canister_update touch")
    (memory.fill (i32.const 0) (i32.const 7) (i32.const 15728640))
    (call $reply))
  (func (export "canister_update copy") (local $at i32)
    (loop $more
      (call $copy (local.get $at) (i32.const 0) (call $size))
      (local.set $at (i32.add (local.get $at) (call $size)))
      (br_if $more (i32.lt_u (local.get $at) (i32.const 15000000))))
    (call $reply)))`);

/** Code whose heap there is no room for. */
const LARGE = wat('(module (memory 300))');
/** Makes a module whose upgrades keep the heap. */
function keeping(text: string): Uint8Array {
  const name = 'icp:private enhanced-orthogonal-persistence';
  const section = Buffer.from(`${String.fromCharCode(name.length)}${name}`, 'latin1');
  return Buffer.concat([wat(text), Buffer.of(0, section.length), section]);
}
/** Upgrades to these keep the heap: on a copy, since its maximum is another, or where it is, grown. */
const KEEPING = keeping('(module (memory 1 2000))');
const LARGER_COPY = keeping('(module (memory 300 1999))');
const LARGER = keeping('(module (memory 300 2000))');
/** An actor whose snapshot does not fit beside the others. */
const STORED = wat(`(module
  (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $write (param i64 i64 i64)))
  (memory 32)
  (func (export "canister_init")
    (drop (call $grow (i64.const 32)))
    (call $write (i64.const 0) (i64.const 0) (i64.const 2097152))))`);
const CHANGES: ReadonlyMap<string, readonly [path: string, wasm: Uint8Array]> = new Map([
  ['install', ['/install/new-', LARGE]],
  ['reinstall', ['/install/greedy-?mode=reinstall', LARGE]],
  ['upgrade', ['/upgrade/greedy-', LARGE]],
  ['upgrade that copies the heap', ['/upgrade/keeping-?force=true', LARGER_COPY]],
  ['upgrade that grows the heap', ['/upgrade/keeping-?force=true', LARGER]],
  ['snapshot load', ['/x/actors/stored-/snapshots/ID/load', new Uint8Array(0)]],
]);
const KINDS = ['grow_heap', 'grow_stable', 'grow_stable64', 'write_stable', 'touch', 'copy'];
const TRAPS: ReadonlySet<string> = new Set(['write_stable', 'touch', 'copy']);
const CLIENTS = 4;
const KIND_MS = 1500;
/** Calls of the neighbour beside refused messages, as a share of those beside messages that want nothing. */
const SHARE_MIN = 1 / 2;

test('messages that are refused memory over and over leave the thread to others', async (t) => {
  const args = ['--executors', '1', '--no-storage', '--memory-bytes', '67108864', '--cycles', '0'];
  const server = await startServer(t, { args, manifest: JSON.stringify({ actors: {} }) });
  const install = async (name: string, wasm: Uint8Array): Promise<void> => {
    const { status, body } = await server.post(`/install/${name}`, wasm);
    assert.equal(status, 200, body);
  };
  await install('hog', HOG);
  await install('neighbour', NEIGHBOUR);
  const snapshots: string[] = [];
  for (let n = 0; n < CLIENTS; n++) {
    await install(`greedy-${n}`, GREEDY);
    await install(`keeping-${n}`, KEEPING);
    await install(`stored-${n}`, STORED);
    const { body } = await server.post(`/x/actors/stored-${n}/snapshots`);
    snapshots.push((JSON.parse(body) as { id: string }).id);
    assert.equal((await server.post(`/install/stored-${n}?mode=reinstall`, KEEPING)).status, 200);
  }
  const filling = server.post('/call/hog/fill');
  while (!/^svc_memory_bytes 6[0-9]{7}$/m.test((await server.get('/metrics')).body));

  const ask = async (kind: string, n: number): Promise<void> => {
    const change = CHANGES.get(kind);
    const [path, sent] = change ?? [`/call/greedy-/${kind}`, new Uint8Array(65_536)];
    const at = path.replace('-', `-${n}`).replace('ID', snapshots[n] ?? '');
    const { status, body } = await server.post(at, sent);
    const expected = change === undefined ? (TRAPS.has(kind) ? 400 : 200) : 503;
    assert.equal(status, expected, `${kind}: ${body}`);
    if (expected !== 200) assert.match(body, /--memory-bytes/, kind);
  };
  /** Returns the calls of the neighbour that are answered beside messages of this kind. */
  const answersBeside = async (kind: string): Promise<number> => {
    const untilMs = performance.now() + KIND_MS;
    const refused = Array.from({ length: CLIENTS }, async (_, n) => {
      let count = 0;
      for (; performance.now() < untilMs; count++) await ask(kind, n);
      return count;
    });
    let answers = 0;
    let slowestMs = 0;
    for (; performance.now() < untilMs; answers++) {
      const beganMs = performance.now();
      const { status, body } = await server.post('/call/neighbour/inc');
      assert.equal(status, 200, body);
      slowestMs = Math.max(slowestMs, performance.now() - beganMs);
    }
    const refusals = (await Promise.all(refused)).reduce((sum, each) => sum + each, 0);
    t.diagnostic(`${kind}: ${refusals} ended, ${answers} calls of the neighbour, ${slowestMs.toFixed(0)} ms at most`);
    return answers;
  };
  const answersMin = SHARE_MIN * (await answersBeside('nothing'));
  for (const kind of [...KINDS, ...CHANGES.keys()]) {
    const answers = await answersBeside(kind);
    assert.ok(answers >= answersMin, `beside ${kind}: ${answers} answers, of at least ${answersMin}`);
  }
  assert.equal((await send(server.origin, 'DELETE', '/actors/hog?force=true')).status, 200);
  await filling;
});

test(
  'a change of code that waits for memory ends when its actor is deleted by force',
  { timeout: 60_000 },
  async (t) => {
    const args = ['--executors', '1', '--no-storage', '--memory-bytes', '67108864', '--cycles', '0'];
    const server = await startServer(t, { args, manifest: JSON.stringify({ actors: {} }) });
    assert.equal((await server.post('/install/neighbour', NEIGHBOUR)).status, 200);
    const names = ['one', 'two', 'three'];
    const counts = { changed: 0, refused: 0 };
    for (let round = 0; round < 20; round++) {
      // Together they have most of the memory, so the new heap of any has no room beside the old one.
      for (const name of names) assert.equal((await server.post(`/install/${name}`, LARGE)).status, 200);
      const path = (name: string): string => (round % 2 === 0 ? `/upgrade/${name}` : `/install/${name}?mode=reinstall`);
      const changes = names.map((name) => server.post(path(name), LARGE));
      await sleep(3 + round);
      const deletions = names.map((name) => send(server.origin, 'DELETE', `/actors/${name}?force=true`));
      for (const { status } of await Promise.all(changes)) counts[status === 200 ? 'changed' : 'refused']++;
      for (const { status } of await Promise.all(deletions)) assert.equal(status, 200);
      assert.equal((await server.post('/call/neighbour/inc')).status, 200);
    }
    assert.ok(counts.refused > 20, JSON.stringify(counts));
  },
);
