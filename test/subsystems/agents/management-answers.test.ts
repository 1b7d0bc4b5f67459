/** Answers of management calls are in the unit of the change: a crash between two units leaves both or none. */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { suite, test } from 'node:test';
import type { CallEnvelope } from '../../../subsystems/agents/envelope.ts';
import { KNOWN_MS, ManagementAnswers } from '../../../subsystems/agents/management-answers.ts';
import { type AcceptedCall, ManagementCalls } from '../../../subsystems/agents/management-calls.ts';
import { META, metaKey } from '../../../subsystems/storage/index.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { RecordedStorage } from '../../support/recorded-storage.ts';
import { Lives, WASM } from '../management/lives.ts';
import { base64, methods, OWNER, text } from '../management/management-bench.ts';

const MANAGEMENT = new Uint8Array();
const NOBODY = new Uint8Array(29);

function callsOf({ bench, storage }: Lives): ManagementCalls {
  const facade = { serves: () => false, readUserCall: () => assert.fail('nobody calls it') };
  const needs = { management: bench.management, facade, storage, clock: bench.clock };
  return new ManagementCalls(needs, { areAnonymous: false, principals: [], certifies: false });
}

function envelopeOf(number: number, method: string, argument: unknown): CallEnvelope {
  const bytes = methods.get(method)?.args.encode(Buffer.from(JSON.stringify([argument])), { lossless: false });
  assert.ok(bytes);
  const requestId = Buffer.alloc(32, number);
  const unsigned = { senderKey: undefined, signature: undefined, delegations: [], expiry: 0n };
  return { ...unsigned, type: 'call', canisterId: MANAGEMENT, method, argument: bytes, sender: OWNER, requestId };
}

async function accepted(
  calls: ManagementCalls,
  envelope: CallEnvelope,
  effectiveId: Uint8Array,
): Promise<AcceptedCall> {
  const call = await calls.call(envelope, {
    effectiveId,
    isOnSubnet: false,
    isTrusted: true,
    subnetId: NOBODY,
    changing: undefined,
  });
  assert.ok('result' in call, JSON.stringify(call));
  return call;
}

suite('answers of management calls', () => {
  test('after a crash at any unit, what was changed is answered and not changed again', async () => {
    const lives = new Lives();
    const canister = lives.bench.canister();
    const id = text(canister.id);
    const about = { canister_id: id };
    const code = { ...about, mode: { install: null }, wasm_module: base64(WASM), arg: '' };
    const steps: readonly (readonly [string, unknown])[] = [
      ['install_code', code],
      ['upload_chunk', { ...about, chunk: base64('chunk') }],
      ['update_settings', { ...about, settings: { compute_allocation: 7 } }],
      ['take_canister_snapshot', about],
      ['clear_chunk_store', about],
    ];
    // A row that the management canister itself stores with each change.
    const letters = new Set([META.settings, META.history].map((letter) => letter.charCodeAt(0)));
    const answerKey = (number: number): string =>
      Buffer.from(metaKey(META.userCall, Buffer.alloc(32, number))).toString('hex');
    for (const [index, [method, argument]] of steps.entries()) {
      const before = lives.storage.units.length;
      const { result } = await accepted(callsOf(lives), envelopeOf(index + 1, method, argument), canister.id);
      const answer = await result;
      assert.ok(answer instanceof Uint8Array, `${method}: ${JSON.stringify(answer)}`);
      await nextTurn();
      const own = (storage: RecordedStorage): string =>
        JSON.stringify(storage.entries('meta').filter(([key]) => letters.has(Number.parseInt(key.slice(0, 2), 16))));
      const last = lives.storage.units.length;
      const unchanged = own(lives.storage.restart(before));
      const final = own(lives.storage.restart(last));
      assert.notEqual(final, unchanged, method);
      for (let units = before; units <= last; units++) {
        const crashed = lives.storage.restart(units);
        const isAnswered = crashed.entries('meta').some(([key]) => key === answerKey(index + 1));
        const isChanged = own(crashed) === final;
        assert.equal(isAnswered, isChanged, `${method}: unit ${units} of ${last}`);
      }
      // The next process gives the answer that there is.
      const answers = new ManagementAnswers(lives.storage.restart(last), lives.bench.clock);
      await answers.open();
      assert.deepEqual(answers.find(Buffer.alloc(32, index + 1).toString('hex'))?.result, answer);
    }
  });

  test('an answer is forgotten after its time, on the disk as well', async () => {
    const storage = new RecordedStorage();
    const clock = new FakeClock();
    const answers = new ManagementAnswers(storage, clock);
    await answers.open();
    const id = '01'.repeat(32);
    const rejection = { code: 5, message: 'stopped while it …', errorCode: 'IC0511' };
    answers.keepChange(id, OWNER, MANAGEMENT, rejection);
    await nextTurn();
    const later = new ManagementAnswers(storage.restart(), clock);
    await later.open();
    assert.deepEqual(later.find(id)?.result, rejection);
    clock.advance(KNOWN_MS - 1);
    assert.deepEqual(answers.find(id)?.result, rejection);
    clock.advance(1);
    assert.equal(answers.find(id), undefined);
    await nextTurn();
    assert.deepEqual(storage.restart().entries('meta'), []);
  });

  test('changes beyond the bound are refused, and answers of reads make room', async () => {
    const answers = new ManagementAnswers(new RecordedStorage(), new FakeClock(), {
      changesMax: 2,
      readBytesMax: 5000,
    });
    await answers.open();
    const idOf = (number: number): string => Buffer.alloc(32, number).toString('hex');
    answers.keepChange(idOf(1), OWNER, MANAGEMENT, MANAGEMENT);
    answers.expectRoom(1);
    answers.keepChange(idOf(2), OWNER, MANAGEMENT, MANAGEMENT);
    assert.throws(() => answers.expectRoom(1), { code: 'agents-full', kind: 'unavailable' });
    for (let number = 3; number <= 6; number++) answers.keepRead(idOf(number), OWNER, MANAGEMENT, new Uint8Array(1000));
    assert.deepEqual(
      [3, 4, 5, 6].map((number) => answers.find(idOf(number)) !== undefined),
      [false, false, true, true],
    );
  });

  test('a stored answer that is damaged is named', async () => {
    const storage = new RecordedStorage();
    const answers = new ManagementAnswers(storage, new FakeClock());
    answers.keepChange('02'.repeat(32), OWNER, MANAGEMENT, MANAGEMENT);
    await nextTurn();
    const after = storage.restart();
    const [[key] = ['']] = after.entries('meta');
    after.damage('meta', key, Uint8Array.of(1, 2, 3));
    await assert.rejects(new ManagementAnswers(after, new FakeClock()).open(), {
      code: 'state-corrupt',
      message: new RegExp(key),
    });
  });
});
