import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModuleLoader } from '../../../subsystems/execution/pool/module-loader.ts';

const MIB = 2 ** 20;
/** Maximum of processor time for which the main thread may be held. */
const SLICE_CPU_MS_MAX = 50;

/** Milliseconds of processor time that this thread has used. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

test('a large module is given to its thread in slices, without the room behind it, and stays with who gave it', async () => {
  await using loader = new AsyncDisposableStack();
  const modules = new ModuleLoader({ wasmStackBytes: 4 * MIB });
  loader.defer(() => modules.close());
  // As for an upload, the buffer is larger than the received bytes.
  const bytes = new Uint8Array(192 * MIB).subarray(0, 96 * MIB).fill(7, 0, 8);
  let [longestMs, beganMs, turns] = [0, cpuMs(), 0];
  const look = (): void => {
    const nowMs = cpuMs();
    longestMs = Math.max(longestMs, nowMs - beganMs);
    beganMs = nowMs;
    turns++;
    waiting = setImmediate(look);
  };
  let waiting = setImmediate(look);
  await assert.rejects(modules.load(bytes), /this is not a WebAssembly module/);
  clearImmediate(waiting);
  assert.ok(longestMs < SLICE_CPU_MS_MAX, `the longest of ${turns} turns took ${longestMs} ms of CPU`);
  assert.deepEqual([bytes.length, bytes[7], bytes[8]], [96 * MIB, 7, 0]);
});
