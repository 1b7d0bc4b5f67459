/** Canisters of a whole host without its HTTP server: the stored calls, and the notices of changes. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Canisters } from '../../../subsystems/canisters/index.ts';
import { recordOf } from '../../../subsystems/canisters/canister-record.ts';
import type { Outcome } from '../../../subsystems/ic/index.ts';
import { Scheduler } from '../../../subsystems/scheduler/index.ts';
import type { RoundScheduler } from '../../../subsystems/scheduler/round-scheduler.ts';
import { ManagementBackend } from '../../../subsystems/management/index.ts';
import { collectGarbage } from '../../../subsystems/threads/index.ts';
import { hostOf } from '../../support/host-kernel.ts';
import { startKernel } from '../../support/kernel.ts';
import { compileMotoko } from '../../support/motoko.ts';

const ANONYMOUS = Uint8Array.of(4);
const SOURCE = `persistent actor {
  var isReleased = false;
  public func nothing() : async () {};
  public query func number() : async Nat { 1 };
  public query func fall() : async () { assert false };
  public func release() : async () { isReleased := true };
  public func hold(_ : Blob) : async () { while (not isReleased) { await nothing() } };
}`;
/** Returns `DIDL` with a blob of zeros. */
function blobOf(bytes: number): Uint8Array {
  const head = [0x44, 0x49, 0x44, 0x4c, 1, 0x6d, 0x7b, 1, 0];
  const length = [0x80 | (bytes & 127), 0x80 | ((bytes >> 7) & 127), bytes >> 14];
  const message = new Uint8Array(head.length + length.length + bytes);
  message.set([...head, ...length]);
  return message;
}
const NO_ARGUMENTS = Uint8Array.of(0x44, 0x49, 0x44, 0x4c, 0, 0);

suite('canisters of a host', () => {
  test('a repeat that waits keeps nothing of its argument, and watchers are told of changed settings', async (t) => {
    const { plugins, config } = await hostOf(['--executors', '1', '--heartbeat-ms', '0'], import.meta.dirname);
    const kernel = await startKernel(t, plugins, {
      config,
      disabled: new Set(['manifest', 'compiler']),
    });
    const canisters = kernel.get(Canisters);
    const { wasm } = await compileMotoko(SOURCE);
    const canister = await canisters.install('it', wasm, { argument: undefined, caller: ANONYMOUS });
    const call = (method: string, argument: Uint8Array, idempotencyKey?: string): Promise<Outcome> =>
      canisters.call(canister, {
        kind: 'update',
        method,
        caller: ANONYMOUS,
        argument,
        addressedBy: 'name',
        idempotencyKey,
      });

    const outcomes = [call('hold', blobOf(100_000), 'k')];
    const arguments_ = Array.from({ length: 3 }, () => {
      const argument = blobOf(100_000);
      outcomes.push(call('hold', argument, 'k'));
      return new WeakRef(argument);
    });
    const isKept = (): boolean => arguments_.some((argument) => argument.deref() !== undefined);
    for (let turn = 0; turn < 100 && isKept(); turn++) {
      await nextTurn();
      collectGarbage('full');
    }
    assert.ok(!isKept(), 'the arguments can be collected');

    let changes = 0;
    const told = (): void => void changes++;
    using _watching = canisters.watch(canister, { changed: told, codeChanged: told, removed: told });
    const backend = kernel.get(ManagementBackend);
    const { version } = recordOf(canister);
    // Both happen in one turn: no message ends meanwhile.
    changes = 0;
    backend.configure(recordOf(canister), {});
    assert.deepEqual([recordOf(canister).version, changes], [version + 1, 1]);

    await call('release', NO_ARGUMENTS);
    assert.deepEqual(
      (await Promise.all(outcomes)).map(({ kind, isRepeat = false }) => [kind, isRepeat]),
      [false, true, true, true].map((isRepeat) => ['reply', isRepeat]),
    );

    // A message counts once, without its repeats, and not at all if no method took it.
    const counts = (): readonly number[] => [canister.messages, canister.traps];
    assert.deepEqual(counts(), [2, 0]);
    await call('nothing', NO_ARGUMENTS);
    assert.equal((await canisters.ask(canister, 'number', ANONYMOUS, NO_ARGUMENTS)).kind, 'reply');
    assert.equal((await canisters.ask(canister, 'fall', ANONYMOUS, NO_ARGUMENTS)).kind, 'trap');
    assert.deepEqual(counts(), [5, 1]);
    await backend.stop(recordOf(canister));
    assert.equal((await call('nothing', NO_ARGUMENTS)).kind, 'reject');
    assert.deepEqual(counts(), [6, 1], 'a stopped actor answers, too');
    const drained = (kernel.get(Scheduler) as RoundScheduler).drain();
    assert.equal((await call('nothing', NO_ARGUMENTS)).kind, 'unavailable');
    await drained;
    assert.deepEqual(counts(), [6, 1]);
  });
});
