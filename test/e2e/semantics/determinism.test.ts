/** The same calls at the same times with the same randomness: the same replies, instructions, charges and memories. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { recordOf } from '../../../subsystems/canisters/canister-record.ts';
import { type Canister, Canisters } from '../../../subsystems/canisters/index.ts';
import { Execution } from '../../../subsystems/execution/index.ts';
import { hostOf } from '../../support/host-kernel.ts';
import { fakeAmbient, startKernel } from '../../support/kernel.ts';
import { compileActor } from './host.ts';

const ANONYMOUS = Uint8Array.of(4);

interface Run {
  /** Outcomes of all calls, in order. */
  readonly outcomes: readonly object[];
  /** State of each canister at the end. */
  readonly states: readonly object[];
}

async function run(t: TestContext, executors: number): Promise<Run> {
  const { plugins, config } = await hostOf(
    ['--manifest', 'no-actors.json', '--executors', String(executors), '--heartbeat-ms', '0', '--timer-ms', '5'],
    import.meta.dirname,
  );
  const ambient = fakeAmbient();
  const kernel = await startKernel(t, plugins, { ambient, config });
  const canisters = kernel.get(Canisters);
  const outcomes: object[] = [];
  const call = async (canister: Canister, method: string, json: unknown[] = []): Promise<string> => {
    const form = canister.candid?.methods.get(method);
    assert.ok(form, method);
    const argument = await form.args.encodeAnySize(Buffer.from(JSON.stringify(json)), { lossless: false });
    const kind = canister.module?.methods.get(method) === 'update' ? 'update' : 'query';
    const outcome = await canisters.call(canister, { kind, method, caller: ANONYMOUS, argument, addressedBy: 'name' });
    ambient.clock.advance(7);
    outcomes.push({ method, ...outcome, ...(outcome.kind === 'reply' && { data: hexOf(outcome.data) }) });
    if (outcome.kind !== 'reply') return outcome.message;
    return Buffer.from(await form.results.decodeAnySize(outcome.data, { lossless: false })).toString();
  };
  const install = async (name: string, actor: string): Promise<Canister> =>
    canisters.install(name, await compileActor(actor), { argument: undefined, caller: ANONYMOUS });

  const a = await install('a', 'Peer');
  const b = await install('b', 'Peer');
  const clock = await install('clock', 'Clock');
  const dice = await install('dice', 'Governor');
  await call(a, 'addThere', [b.principal, 5]);
  await call(a, 'addAroundAndTrap', [b.principal, 2]);
  await call(a, 'traceThere', [b.principal, 50]);
  await call(a, 'addToSelfAtOnce', [30]);
  await call(a, 'tree', [[b.principal, a.principal]]);
  await call(a, 'give', [b.principal, 1_000_000, 400_000]);
  await call(dice, 'throwDice');
  await call(dice, 'throwDice');
  await call(clock, 'fireAfter', [1_000]);
  await call(clock, 'trapAfter', [1_500]);
  ambient.clock.advance(2_000);
  // The number of tries depends on the machine, and leaves nothing behind.
  const recorded = outcomes.length;
  for (let tries = 0; tries < 12_000; tries++) {
    if ((await fired(canisters, clock)) === 1) break;
    await sleep(5);
  }
  outcomes.length = recorded;
  await sleep(100); // The job that traps runs meanwhile.
  await call(clock, 'counts');
  await canisters.upgrade(b, await compileActor('Peer'), { argument: undefined, caller: ANONYMOUS });
  await call(a, 'readThere', [b.principal]);
  const created = await call(dice, 'create', [1_000_000_000_000]);
  outcomes.push({ created });

  const states: object[] = [];
  for (const canister of canisters.list()) {
    const record = recordOf(canister);
    const image = await kernel.get(Execution).capture(record.handle, record.module);
    for (const { buffer, length } of [image.heap, ...image.stable.map(({ bytes }) => bytes)])
      assert.ok(length === 0 || buffer instanceof SharedArrayBuffer, 'an image is handed on without a copy');
    const hash = createHash('sha256').update(image.heap).update(image.globals).update(image.certifiedData);
    for (const { offset, bytes } of image.stable) hash.update(String(offset)).update(bytes);
    states.push({ name: record.name, balance: record.balance, version: record.version, state: hash.digest('hex') });
  }
  return { outcomes, states };
}

async function fired(canisters: Canisters, clock: Canister): Promise<number> {
  const argument = Buffer.from('4449444c0000', 'hex');
  const message = { kind: 'query', method: 'counts', caller: ANONYMOUS, argument, addressedBy: 'name' } as const;
  const outcome = await canisters.call(clock, message);
  assert.equal(outcome.kind, 'reply');
  const results = clock.candid?.methods.get('counts')?.results;
  const json = await results?.decodeAnySize(outcome.data, { lossless: false });
  const [counts] = JSON.parse(Buffer.from(json ?? []).toString()) as { fired: number }[];
  return counts?.fired ?? 0;
}

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

test('two runs are the same to the byte, on one executor or on two', async (t) => {
  const first = await run(t, 1);
  const kinds = first.outcomes.map((outcome) => ('kind' in outcome ? outcome.kind : undefined));
  assert.equal(kinds.filter((kind) => kind === 'trap').length, 1);
  assert.equal(kinds.filter((kind) => kind === 'reply').length, kinds.length - 2);
  const [one, two] = first.outcomes.filter((outcome) => 'method' in outcome && outcome.method === 'throwDice');
  assert.notDeepEqual(one, two);
  assert.deepEqual(await run(t, 1), first);
  assert.deepEqual(await run(t, 2), first);
});
