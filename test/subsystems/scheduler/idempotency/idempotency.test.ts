import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ServerError } from '../../../../kernel/index.ts';
import { idToText, type Outcome, type Step } from '../../../../subsystems/ic/index.ts';
import { openKey, scopedKey } from '../../../../subsystems/scheduler/index.ts';
import { Idempotency } from '../../../../subsystems/scheduler/idempotency/idempotency.ts';
import type { Asked, UnderWay } from '../../../../subsystems/scheduler/idempotency/canister-keys.ts';
import { applyWriteBatch } from '../../../../subsystems/storage/write-batch.ts';
import { callOf, idOf, REPLY, STEP } from '../held-execution.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { RecordedStorage } from '../../../support/recorded-storage.ts';
import { ANONYMOUS, KeyedHost, type Told } from './keyed-host.ts';

const replyOf = (data: Uint8Array): Step => ({ ...STEP, answer: { kind: 'reply', data } });
const faultOf = (kind: 'trap' | 'outOfCycles' | 'unavailable'): Step => ({
  ...STEP,
  fault: { kind, code: kind === 'unavailable' ? 2 : 5, message: `a ${kind}` },
});
const HELLO = Buffer.from('hello');
const inMemory = { storage: undefined } as const;

function toldData({ outcome }: Told): string {
  assert.equal(outcome?.kind, 'reply', JSON.stringify(outcome));
  return Buffer.from(outcome.data).toString();
}

function codeOf({ refusal, outcome }: Told): string {
  assert.ok(refusal instanceof ServerError, `${String(refusal)}, told ${JSON.stringify(outcome)}`);
  return refusal.code;
}

/** Makes one call under that key, executed to its end with this step. */
async function executed(host: KeyedHost, key: string, step: Step, handle = 0): Promise<Told> {
  const told = host.call(key, { handle });
  host.execution.endOne(step);
  await host.settle();
  return told;
}

for (const [where, options] of [
  ['with the state', {}],
  ['in memory', inMemory],
] as const) {
  test(`${where}: a call that comes again with its key is answered, and not executed`, async () => {
    const host = new KeyedHost(options);
    const first = await executed(host, 'k', replyOf(HELLO));
    const again = host.call('k');
    await host.settle();
    assert.deepEqual([toldData(first), toldData(again)], ['hello', 'hello']);
    assert.deepEqual([first.outcome?.isRepeat, again.outcome?.isRepeat], [undefined, true]);
    assert.equal(host.executions, 1);
    assert.equal(host.scheduler.idempotency.repeats, 1);
  });

  test(`${where}: a repeat while the first is under way waits for it`, async () => {
    const host = new KeyedHost(options);
    const first = host.call('k');
    const again = [host.call('k'), host.call('k')];
    await host.settle();
    assert.deepEqual(
      again.map(({ outcome }) => outcome),
      [undefined, undefined],
    );
    host.execution.endOne(replyOf(HELLO));
    await host.settle();
    assert.deepEqual([first, ...again].map(toldData), ['hello', 'hello', 'hello']);
    assert.equal(host.executions, 1);
  });

  test(`${where}: only so many repeats wait for one answer, and the others are told to come later`, async () => {
    const host = new KeyedHost(options);
    const first = host.call('k');
    const again = Array.from({ length: 101 }, () => host.call('k'));
    await host.settle();
    assert.deepEqual(
      again.map(({ refusal }) => refusal === undefined),
      again.map((_, at) => at < 100),
    );
    assert.equal(codeOf(again[100] ?? first), 'idempotency-busy');
    assert.equal(host.call('other').refusal, undefined, 'each key has its own');
    host.execution.endOne(replyOf(HELLO));
    await host.settle();
    assert.deepEqual(new Set([first, ...again.slice(0, 100)].map(toldData)), new Set(['hello']));
    // These calls come while the row of the answer is read.
    const late = Array.from({ length: 103 }, () => host.call('k'));
    await host.settle();
    assert.deepEqual([toldData(late[0] ?? first), codeOf(late[102] ?? first)], ['hello', 'idempotency-busy']);
  });

  test(`${where}: another method or another argument under a key is refused, before and after the answer`, async () => {
    const host = new KeyedHost(options);
    host.call('k');
    const others = { 'another method': { method: 'q' }, 'another argument': { argument: Uint8Array.of(2) } };
    for (const moment of ['before', 'after']) {
      for (const [what, changed] of Object.entries(others)) {
        const other = host.call('k', changed);
        await host.settle();
        assert.equal(codeOf(other), 'idempotency-key-reused', `${what}, ${moment}`);
        assert.match(String(other.refusal), new RegExp(what));
      }
      host.execution.endOne(replyOf(HELLO));
      await host.settle();
    }
    assert.equal(host.executions, 1);
  });

  test(`${where}: an answer is heard by the call that was executed, and by no repeat of it`, async () => {
    const host = new KeyedHost(options);
    const calls = Array.from({ length: 3 }, () => host.call('k'));
    await host.settle();
    host.execution.endOne(replyOf(HELLO));
    await host.settle();
    calls.push(host.call('k'));
    await host.settle();
    assert.deepEqual(
      calls.map((told) => [told.heard, told.outcome?.isRepeat === true]),
      [
        [1, false],
        [0, true],
        [0, true],
        [0, true],
      ],
    );
  });

  test(`${where}: a key belongs to its actor and its caller`, async () => {
    const host = new KeyedHost(options);
    // Caller and key together are the same bytes.
    host.call('k');
    host.call('k', { handle: 1 });
    host.call('k', { caller: Uint8Array.of(4, 0x6b) });
    host.call('kk', { caller: Uint8Array.of(4) });
    host.execution.endAll();
    await host.settle();
    assert.deepEqual([host.executions, host.keys], [4, 4]);
  });

  test(`${where}: rejects and traps are kept, what was never executed is not`, async () => {
    const host = new KeyedHost(options);
    const reject: Step = { ...STEP, answer: { kind: 'reject', code: 4, message: 'no' } };
    for (const [key, step, outcome] of [
      ['rejects', reject, 'reject'],
      ['traps', faultOf('trap'), 'trap'],
      ['silent', STEP, 'noReply'],
    ] as const) {
      const first = await executed(host, key, step);
      const again = host.call(key);
      await host.settle();
      assert.deepEqual([first.outcome?.kind, again.outcome?.kind, again.outcome?.isRepeat], [outcome, outcome, true]);
    }
    assert.equal(host.executions, 3);
    for (const kind of ['outOfCycles', 'unavailable'] as const) {
      const first = await executed(host, kind, faultOf(kind));
      const again = await executed(host, kind, replyOf(HELLO));
      assert.deepEqual([first.outcome?.kind, toldData(again), again.outcome?.isRepeat], [kind, 'hello', undefined]);
    }
    await host.scheduler.stop(0);
    const stopped = host.call('stopped');
    await host.settle();
    assert.match(stopped.outcome?.kind === 'reject' ? stopped.outcome.message : '', /is stopped/);
    const kept = host.call('unavailable');
    await host.settle();
    assert.equal(toldData(kept), 'hello', 'a stopped actor answers what it has answered before');
    host.scheduler.start(0);
    assert.equal(toldData(await executed(host, 'stopped', replyOf(HELLO))), 'hello');
  });

  test(`${where}: keys of tokens with scopes belong to their holder and caller, and are known as long as others`, async () => {
    const host = new KeyedHost({ ...options, idempotencySecs: 1000 });
    const key = scopedKey('shop', 'k');
    await executed(host, key, replyOf(HELLO));
    host.call(scopedKey('web', 'k'));
    host.call(key, { caller: Uint8Array.of(4, 0x6b) });
    host.execution.endAll();
    await host.settle();
    assert.equal(host.executions, 3);
    host.clock.advance(900_000);
    const kept = host.call(key);
    await host.settle();
    assert.deepEqual([kept.outcome?.isRepeat, host.executions], [true, 3]);
    host.clock.advance(200_000);
    await host.settle();
    assert.equal(host.keys, 0);
  });

  test(`${where}: keys expire after their answer, and their rows with them`, async () => {
    const host = new KeyedHost({ ...options, idempotencySecs: 10 });
    await executed(host, 'k', replyOf(HELLO));
    host.clock.advance(9_900);
    const kept = host.call('k');
    await host.settle();
    assert.equal(kept.outcome?.isRepeat, true);
    host.clock.advance(1_200);
    await host.settle();
    assert.deepEqual({ ...host.scheduler.idempotency }, { keys: 0, bytes: 0, repeats: 1 });
    assert.deepEqual([host.rows, host.clock.pending], [0, 0]);
    assert.equal((await executed(host, 'k', replyOf(HELLO))).outcome?.isRepeat, undefined);
    assert.equal(host.executions, 2);
  });

  test(`${where}: at the bound a new key is refused, no living one is forgotten, and expired ones make room`, async () => {
    const host = new KeyedHost({ ...options, idempotencySecs: 10, keyBounds: { keysMax: 6, bytesMax: 1 << 20 } });
    const call = async (key: string, handle: number): Promise<Told> => {
      const told = host.call(key, { handle });
      host.execution.endOne(replyOf(HELLO));
      await host.settle();
      return told;
    };
    for (const key of ['a', 'b', 'c']) await call(key, 0);
    const own = await call('d', 0);
    assert.equal(codeOf(own), 'idempotency-full');
    assert.match(String(own.refusal), /the actor knows 3 of at most 3 idempotency keys/);
    for (const key of ['a', 'b']) await call(key, 1);
    host.call('under way', { handle: 2 });
    const all = await call('d', 1);
    assert.match(String(all.refusal), /the server knows 6 of at most 6 idempotency keys/);
    for (const key of ['a', 'b', 'c']) assert.equal((await call(key, 0)).outcome?.isRepeat, true);
    host.clock.advance(11_100);
    assert.equal(toldData(await call('d', 0)), 'hello');
    assert.equal(host.keys, 1);
  });

  test(`${where}: keys of clients without the token have a tenth, and take no room from others`, async () => {
    const keyBounds = { keysMax: 40, bytesMax: 1 << 20 };
    let host = new KeyedHost({ ...options, idempotencySecs: 10, keyBounds });
    const call = (key: string, handle = 0): Promise<Told> => executed(host, key, replyOf(HELLO), handle);
    for (const key of ['a', 'b']) assert.equal(toldData(await call(openKey(key))), 'hello');
    assert.match(
      String((await call(openKey('c'))).refusal),
      /the actor knows 2 of at most 2 idempotency keys of clients without the token/,
    );
    assert.equal((await call('a')).outcome?.isRepeat, undefined, 'the same key with the token is another');
    for (const key of ['a', 'b']) assert.equal((await call(openKey(key))).outcome?.isRepeat, true);
    await call(openKey('a'), 1);
    host.call(openKey('under way'), { handle: 1 });
    const full = async (): Promise<void> =>
      assert.match(
        String((await call(openKey('d'), 2)).refusal),
        /the server knows 4 of at most 4 idempotency keys of clients without the token/,
      );
    await full();
    for (let n = 0; n < 15; n++) assert.equal(toldData(await call(`k${n}`)), 'hello');
    await full();
    host.execution.endOne(replyOf(HELLO));
    await host.settle();
    if (host.storage !== undefined) {
      host = await host.restart();
      await full();
      assert.equal((await call(openKey('a'))).outcome?.isRepeat, true);
    }
    host.scheduler.withdraw(1);
    assert.equal(toldData(await call(openKey('d'), 2)), 'hello', 'a deleted actor gives its room back');
    host.clock.advance(11_100);
    await host.settle();
    for (const key of ['x', 'y']) assert.equal(toldData(await call(openKey(key))), 'hello', 'what expires does, too');
    assert.equal(codeOf(await call(openKey('z'))), 'idempotency-full');
  });

  test(`${where}: bytes of answers are bounded, also those that are larger than was to be expected`, async () => {
    const host = new KeyedHost({ ...options, keyBounds: { keysMax: 1000, bytesMax: 40_000 } });
    const large = replyOf(new Uint8Array(15_000));
    for (const key of ['a', 'b', 'c', 'd']) host.call(key);
    for (let n = 0; n < 4; n++) host.execution.endOne(large);
    await host.settle();
    const [second, third, fourth] = ['b', 'c', 'd'].map((key) => host.call(key));
    await host.settle();
    assert.equal(second?.outcome?.kind, 'reply');
    for (const unkept of [third, fourth]) {
      assert.equal(unkept?.outcome?.kind, 'reject');
      assert.match(unkept.outcome.message, /was executed, and its answer of 15000 bytes was not kept/);
      assert.equal(unkept.outcome.code, 6);
    }
    assert.equal(host.executions, 4);
    assert.ok(host.scheduler.idempotency.bytes < 40_000);
    const next = host.call('e');
    await host.settle();
    assert.equal(codeOf(next), 'idempotency-full');
  });
}

test('the answer is in the unit of what it answers, and a crash leaves both or none', async () => {
  const host = new KeyedHost();
  host.call('k');
  await host.settle();
  const before = host.storage?.units.length ?? 0;
  // The change comes with the step, as an executor tells it.
  host.storage?.unit.put('heap', idOf(0), Uint8Array.of(1));
  host.execution.endOne(replyOf(HELLO));
  await host.settle();
  const unit = host.storage?.units[before];
  assert.ok(unit !== undefined && host.storage?.units.length === before + 1);
  const put: string[] = [];
  applyWriteBatch(unit, {
    put: (family) => void put.push(family),
    delete: () => undefined,
    clear: () => undefined,
    patch: () => undefined,
  });
  assert.deepEqual(put.toSorted(), ['blob', 'heap', 'meta']);
  const without = await host.restart(before);
  without.call('k');
  assert.equal(without.executions, 1, 'nothing of it has happened');
  const next = await host.restart();
  const again = next.call('k');
  await next.settle();
  assert.deepEqual([toldData(again), next.executions], ['hello', 0]);
});

test('a call that awaits keeps its key over a restart, and a repeat waits for its answer', async () => {
  const host = new KeyedHost();
  host.call('k');
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  await host.settle();
  const next = await host.restart();
  assert.equal(next.keys, 1);
  const again = next.call('k');
  const other = next.call('k', { argument: Uint8Array.of(9) });
  await next.settle();
  assert.deepEqual([again.outcome, codeOf(other)], [undefined, 'idempotency-key-reused']);
  next.execution.endOne(REPLY); // Ends the callee.
  next.execution.endOne(replyOf(HELLO)); // Ends the callback.
  await next.settle();
  assert.equal(toldData(again), 'hello');
  const last = await next.restart();
  const later = last.call('k');
  await last.settle();
  assert.deepEqual([toldData(later), last.executions], ['hello', 0]);
});

test('a call that awaited and was answered in the same unit has its answer there, and no key in its context', async () => {
  const host = new KeyedHost();
  host.call('k');
  // The canister answers before it calls: the call is still open when the answer is known.
  host.execution.endOne({ ...replyOf(HELLO), calls: [callOf(idOf(1))] });
  await host.settle();
  const next = await host.restart();
  assert.equal(next.keys, 1);
  const again = next.call('k');
  await next.settle();
  assert.equal(toldData(again), 'hello');
});

test('what failed for want of cycles after it had called others is kept', async () => {
  const host = new KeyedHost();
  host.call('k');
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  host.execution.endOne(REPLY);
  host.execution.endOne(faultOf('outOfCycles'));
  await host.settle();
  const again = host.call('k');
  await host.settle();
  assert.deepEqual([again.outcome?.kind, again.outcome?.isRepeat], ['outOfCycles', true]);
  assert.equal(host.executions, 3);
});

test('when the server stops, whoever waits is told so, and the call goes on after the restart', async () => {
  const host = new KeyedHost();
  const first = host.call('k');
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  const again = host.call('k');
  await host.settle();
  const drained = host.scheduler.drain();
  host.execution.endAll();
  await drained;
  await host.settle();
  assert.deepEqual([first.outcome?.kind, again.outcome?.kind], ['unavailable', 'unavailable']);
  assert.equal(host.call('k').refusal, undefined);
  const next = await host.restart();
  const later = next.call('k');
  next.execution.endOne(replyOf(HELLO)); // Ends the callback.
  await next.settle();
  assert.equal(toldData(later), 'hello');
});

test('a call that ends while the server stops keeps its answer, though whoever waited was told of the stop', async () => {
  const host = new KeyedHost();
  const first = host.call('k');
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  await host.settle();
  const uninstalled = host.scheduler.uninstall(0);
  const drained = host.scheduler.drain();
  host.execution.endAll();
  await Promise.all([uninstalled, drained]);
  await host.settle();
  assert.equal(first.outcome?.kind, 'unavailable');
  const next = await host.restart();
  const again = next.call('k');
  await next.settle();
  assert.deepEqual([again.outcome?.kind, again.outcome?.isRepeat, next.executions], ['reject', true, 0]);
});

test('deleting an actor forgets its keys, also of calls under way', async () => {
  const host = new KeyedHost();
  await executed(host, 'k', replyOf(HELLO));
  const waiting = host.call('l');
  const repeat = host.call('l');
  host.scheduler.withdraw(0);
  await host.settle();
  assert.deepEqual({ ...host.scheduler.idempotency }, { keys: 0, bytes: 0, repeats: 1 });
  host.execution.endAll();
  await host.settle();
  assert.equal(host.keys, 0);
  assert.ok(waiting.outcome !== undefined && repeat.outcome !== undefined, 'both are told');
});

test('an actor whose thread has died in memory has no keys any more', async () => {
  const host = new KeyedHost(inMemory);
  await executed(host, 'k', replyOf(HELLO));
  const waiting = host.call('l');
  host.execution.lose(0);
  host.execution.endOne(faultOf('unavailable'));
  await host.settle();
  assert.deepEqual([host.keys, waiting.outcome?.kind], [0, 'unavailable']);
  assert.equal(host.scheduler.idempotency.bytes, 0);
});

test('large arguments are compared by their hash, wherever they differ', async () => {
  const host = new KeyedHost();
  for (const bytes of [31, 32, 33, 4 * 2 ** 20 + 1, 9 * 2 ** 20]) {
    const key = `of ${bytes}`;
    const argument = Buffer.alloc(bytes, 7);
    host.call(key, { argument: Buffer.from(argument) });
    await host.settle();
    host.execution.endOne(replyOf(HELLO));
    const again = host.call(key, { argument: Buffer.from(argument) });
    argument[bytes - 1] = 8;
    const other = host.call(key, { argument });
    const shorter = host.call(key, { argument: argument.subarray(1) });
    await host.settle();
    assert.deepEqual([toldData(again), codeOf(other)], ['hello', 'idempotency-key-reused']);
    assert.equal(codeOf(shorter), 'idempotency-key-reused');
  }
});

test('a damaged row is named, and nothing is executed', async () => {
  const host = new KeyedHost();
  await executed(host, 'k', replyOf(HELLO));
  const [row] = host.storage?.entries('blob') ?? [];
  assert.ok(row !== undefined && host.storage !== undefined);
  const [key, value] = row;
  for (const damage of [undefined, value.subarray(0, 20), value.with(7, 99), new Uint8Array(0)]) {
    host.storage.damage('blob', key, damage);
    const again = host.call('k');
    await host.settle();
    assert.equal(codeOf(again), 'state-corrupt');
    assert.match(String(again.refusal), /row 000101\/1 of kept answers is damaged/);
  }
  for (const damage of [value.subarray(0, 20), value.with(0, 9), new Uint8Array(3)]) {
    host.storage.damage('blob', key, damage);
    const next = host.storage;
    const damaged = new KeyedHost({ storage: next });
    await assert.rejects(damaged.scheduler.restoreAnswers(), { code: 'state-corrupt' });
  }
  assert.equal(host.executions, 1);
});

test('keys of the same hash are told apart by their rows', async () => {
  const storage = new RecordedStorage();
  const clock = new FakeClock();
  const journal = { tell: (_: number, done: (outcome: Outcome) => void, outcome: Outcome) => done(outcome), newest: 0 };
  const letIn = ({ message: { argument: data } }: Asked, underWay: UnderWay): void => {
    executions++;
    underWay.ran(STEP);
    const outcome = { kind: 'reply', data, instructions: 0, charge: 0 } as const;
    keys.answered(underWay, outcome);
    underWay.tell(outcome);
  };
  const keys = new Idempotency(
    { storage, journal, clock, intake: { letIn }, hashOf: () => 7 },
    { idempotencySecs: 10 },
  );
  const canister = { id: idOf(0), idText: idToText(idOf(0)) };
  let executions = 0;
  const call = (key: string): Promise<Outcome> =>
    new Promise((answer, refuse) => {
      const caller = Uint8Array.of(4);
      const message = { kind: 'update', method: 'm', caller, argument: Buffer.from(key) } as const;
      keys.ask(canister, { handle: 0, message, key, digest: '', answer, refuse });
    });
  for (let round = 0; round < 2; round++) {
    const names = ['a', 'b', 'a', 'c', 'c', 'b', 'd'];
    const told = await Promise.all(names.map(call));
    assert.deepEqual(
      told.map((outcome) => outcome.kind === 'reply' && Buffer.from(outcome.data).toString()),
      names,
    );
    assert.equal(executions, 4);
  }
});

test('keys of the same hash that are under way are told apart, in whatever order they end', async () => {
  const journal = { tell: (_: number, done: (outcome: Outcome) => void, outcome: Outcome) => done(outcome), newest: 0 };
  const canister = { id: idOf(0), idText: idToText(idOf(0)) };
  const callers = [ANONYMOUS, Uint8Array.of(5)] as const;
  for (const order of [
    [0, 1, 2, 3],
    [3, 2, 1, 0],
    [1, 3, 0, 2],
    [2, 0, 3, 1],
  ]) {
    const underWays: UnderWay[] = [];
    const intake = { letIn: (_: Asked, underWay: UnderWay): void => void underWays.push(underWay) };
    const needs = { storage: new RecordedStorage(), journal, clock: new FakeClock(), intake, hashOf: () => 7 };
    const keys = new Idempotency(needs, { idempotencySecs: 10 });
    const told = new Map<string, string>();
    const ask = (name: string, at: number): void => {
      const caller = callers[at % 2] ?? ANONYMOUS;
      const message = { kind: 'update', method: 'm', caller, argument: HELLO } as const;
      const answer = (outcome: Outcome): void => {
        told.set(name, outcome.kind === 'reply' ? Buffer.from(outcome.data).toString() : outcome.kind);
      };
      const refuse = (): void => void told.set(name, 'refused');
      keys.ask(canister, { handle: 0, message, key: `k${at >> 1}`, digest: '', answer, refuse });
    };
    for (const at of [0, 1, 2, 3]) ask(`${at}`, at);
    for (const [ended, at] of order.entries()) {
      for (const each of order) ask(`${each} again after ${ended}`, each);
      await nextTurn();
      assert.equal(keys.figures.keys, 4);
      const underWay = underWays[at];
      assert.ok(underWay);
      underWay.ran(STEP);
      const outcome = { kind: 'reply', data: Buffer.from(`${at}`), instructions: 0, charge: 0 } as const;
      keys.answered(underWay, outcome);
      underWay.tell(outcome);
    }
    await nextTurn();
    assert.deepEqual([underWays.length, told.size], [4, 20]);
    for (const [name, data] of told) assert.equal(data, name[0], name);
  }
});

for (const [where, options] of [
  ['with the state', {}],
  ['in memory', inMemory],
] as const) {
  test(`${where}: 100,000 different keys take bounded memory, and are forgotten in slices`, async () => {
    const KEYS = 100_000;
    const host = new KeyedHost({ ...options, idempotencySecs: 10 });
    let told = 0;
    const answer = (): void => void told++;
    for (let at = 0; at < KEYS; at++) {
      const message = { kind: 'update', method: 'm', caller: ANONYMOUS, argument: HELLO } as const;
      const idempotencyKey = `8e03978e-40d5-43dd-bc93-${String(at).padStart(12, '0')}`;
      void host.scheduler.deliver(at % 2, { ...message, idempotencyKey }).then(answer);
      // The test's execution keeps all started tasks.
      host.execution.started.length = 0;
      // The key's hash may equal another's: then the call waits for that one's row.
      if (host.execution.running === 0) await host.settle();
      host.execution.endOne(replyOf(HELLO));
      if (at % 500 === 499) await host.settle();
    }
    const { keys, bytes } = host.scheduler.idempotency;
    assert.deepEqual([told, keys], [KEYS, KEYS]);
    // Bytes for a UUID, a short argument and a short answer.
    assert.ok(bytes / KEYS > 80 && bytes / KEYS < 120, `${bytes / KEYS} bytes a key`);
    // No timer is called before the next slice is due.
    host.clock.set(host.clock.nowMs() + 11_000);
    const left: number[] = [];
    while (host.keys > 0) {
      const before = host.keys;
      host.clock.advance(100);
      left.push(before - host.keys);
      await host.settle();
    }
    assert.ok(left.length >= KEYS / 2000 && Math.max(...left) <= 2000, `${Math.max(...left)} at once`);
    assert.deepEqual([host.rows, host.scheduler.idempotency.bytes], [0, 0]);
  });
}

test('100,000 keys are there again after a restart', async () => {
  const KEYS = 100_000;
  const host = new KeyedHost();
  for (let at = 0; at < KEYS; at++) {
    host.call(`key ${at}`.replace(' ', '-'), { handle: at % 2 });
    host.execution.started.length = 0;
    if (host.execution.running === 0) await host.settle();
    host.execution.endOne(replyOf(Buffer.from(String(at))));
    if (at % 500 === 499) await host.settle();
  }
  const next = await host.restart();
  assert.equal(next.keys, KEYS);
  assert.equal(next.scheduler.idempotency.bytes, host.scheduler.idempotency.bytes);
  for (const at of [0, 1, 777, 50_000, KEYS - 1]) {
    const again = next.call(`key-${at}`, { handle: at % 2 });
    await next.settle();
    assert.equal(toldData(again), String(at));
  }
  assert.equal(next.executions, 0);
});
