/** Queries that wait for a certificate of their canister's data, in a real thread, with a certifier that tests hold. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { ExecutorPool } from '../../../subsystems/execution/pool/executor-pool.ts';
import { idToText, NO_FACTS, type Outcome } from '../../../subsystems/ic/index.ts';
import { NO_LISTENER, NO_LOADER } from '../../../subsystems/scheduler/canister-port.ts';
import { RoundScheduler } from '../../../subsystems/scheduler/round-scheduler.ts';
import { NoStorage } from '../../../subsystems/storage/no-storage.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { RecordingLogger } from '../../support/kernel.ts';
import { wat } from '../../support/wat.ts';
import { ANONYMOUS, POLICY, STACK_BYTES } from './engine-fixture.ts';

/** `ask` replies with the certificate, `set` certifies its argument. */
const MODULE = wat(`(module
  (import "ic0" "msg_arg_data_size" (func $size (result i32)))
  (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "certified_data_set" (func $set (param i32 i32)))
  (import "ic0" "data_certificate_size" (func $certificateSize (result i32)))
  (import "ic0" "data_certificate_copy" (func $certificateCopy (param i32 i32 i32)))
  (memory 1)
  (func (export "canister_update set")
    (call $copy (i32.const 0) (i32.const 0) (call $size))
    (call $set (i32.const 0) (call $size))
    (call $reply))
  (func (export "canister_query ask")
    (call $certificateCopy (i32.const 0) (i32.const 0) (call $certificateSize))
    (call $append (i32.const 0) (call $certificateSize))
    (call $reply)))`);

const idOf = (handle: number): Uint8Array => Uint8Array.of(0, 0, 0, 0, 0, 0, 0, handle, 1, 1);

interface Asked {
  readonly of: number;
  readonly data: string;
  answer(certificate: string): void;
  refuse(reason: string): void;
}

/** Two certified canisters in one thread. */
async function host(): Promise<{
  readonly clock: FakeClock;
  readonly ask: (handle: number) => Promise<string>;
  readonly set: (handle: number, data: string) => Promise<string>;
  /** Resolves when the thread asks for the next certificate. */
  readonly asked: () => Promise<Asked>;
}> {
  const clock = new FakeClock(1_000_000);
  const pool = new ExecutorPool(
    { policy: POLICY, clock, log: new RecordingLogger() },
    { executors: 1, wasmStackBytes: STACK_BYTES },
  );
  after(() => pool.close());
  const questions: Asked[] = [];
  let come: () => void = () => undefined;
  pool.certifiedBy({
    rootKey: () => Promise.reject(new Error('nobody reads the key here')),
    certify: (id, data) =>
      new Promise((resolve, reject) => {
        questions.push({
          of: id[7] ?? 0,
          data: Buffer.from(data).toString(),
          answer: (certificate) => resolve(Buffer.from(certificate)),
          refuse: (reason) => reject(new ServerError('unavailable', 'certificates-busy', reason)),
        });
        come();
      }),
  });
  const options = { heartbeatMs: 0, timerMs: 0, queryInstructionsMax: 1e9 };
  const scheduler = new RoundScheduler({ execution: pool, clock, storage: new NoStorage() }, options);
  scheduler.attachCanisters(NO_LOADER, NO_LISTENER);
  const module = await pool.prepare(MODULE);
  for (const handle of [0, 1]) {
    const facts = { ...NO_FACTS, isCertified: true };
    const spec = { id: idOf(handle), balance: POLICY.startingCycles, controllers: [], env: new Map(), facts };
    assert.equal(pool.create(spec), handle);
    scheduler.admit(handle, idToText(idOf(handle)));
    const change = { mode: 'install', argument: new Uint8Array(0), caller: ANONYMOUS } as const;
    assert.equal((await scheduler.change(handle, module, change)).step.fault, undefined);
  }
  const deliver = async (handle: number, kind: 'query' | 'update', method: string, argument: string): Promise<string> =>
    toldOf(await scheduler.deliver(handle, { kind, method, caller: ANONYMOUS, argument: Buffer.from(argument) }));
  return {
    clock,
    ask: (handle) => deliver(handle, 'query', 'ask', ''),
    set: (handle, data) => deliver(handle, 'update', 'set', data),
    asked: async () => {
      for (;;) {
        const question = questions.shift();
        if (question !== undefined) return question;
        await new Promise<void>((resolve) => (come = resolve));
      }
    },
  };
}

function toldOf(outcome: Outcome): string {
  return outcome.kind === 'reply' ? Buffer.from(outcome.data).toString() : `${outcome.kind}: ${outcome.message}`;
}

test('while a query waits, its canister stays as it is, and others go on', async () => {
  const { ask, set, asked } = await host();
  assert.equal(await set(0, 'old'), '');
  const ended: string[] = [];
  const query = ask(0).then((told) => ended.push(`query ${told}`));
  const question = await asked();
  assert.deepEqual([question.of, question.data], [0, 'old']);
  const update = set(0, 'new').then(() => ended.push('update'));
  const behind = ask(0).then((told) => ended.push(`behind ${told}`));
  assert.equal(await set(1, 'other'), '');
  const other = ask(1);
  const second = await asked();
  assert.deepEqual([second.of, second.data, ended], [1, 'other', []]);
  second.answer('of the other');
  assert.equal(await other, 'of the other');
  assert.deepEqual(ended, []);
  question.answer('of the old');
  await Promise.all([query, update]);
  const third = await asked();
  assert.equal(third.data, 'new');
  third.answer('of the new');
  await behind;
  assert.deepEqual(ended, ['query of the old', 'update', 'behind of the new']);
  assert.equal(await ask(0), 'of the new', 'nobody is asked again');
});

test('a refusal is for one query, and the next one asks again', async () => {
  const { clock, ask, asked } = await host();
  const refused = ask(0);
  (await asked()).refuse('so many are due');
  assert.match(await refused, /^trap: .*there is no certificate now: so many are due/);
  clock.advance(1);
  const query = ask(0);
  (await asked()).answer('later');
  assert.equal(await query, 'later');
});
