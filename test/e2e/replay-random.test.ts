/** Real servers: each message of a random run replays exactly, whatever an operator does between two messages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { BLOB_AT, type Call, RESULTS_AT } from '../subsystems/execution/script-canister.ts';
import { ProofSeeds } from '../support/proof-seeds.ts';
import { type Seeded, seeded } from '../support/seeded.ts';
import { Deployment } from './durability/deployment.ts';
import type { Host } from './semantics/host.ts';
import { Laboratory, outgoing, replyWith, type Subject } from './semantics/laboratory.ts';

const FLAGS = ['--timeline', '3600', '--heartbeat-ms', '300', '--timer-ms', '20'];
const STEPS = 60;
/** Free places in the heap: scripts and their results are elsewhere. */
const CELLS_AT = 0x20_0000;
const TIMER_SLOT = 21;
const HEARTBEAT_SLOT = 20;

interface Listed {
  readonly seq: number;
  readonly kind: string;
  readonly outcome: string;
}

/** One import with parameters; its result stays in the heap, so the state depends on it. */
function operation(random: Seeded): Call {
  const cell = CELLS_AT + 16 * random.below(1_000);
  const choices: readonly [() => Call, ...(() => Call)[]] = [
    () => ['store64', cell, random.below(2 ** 31)],
    () => ['global_set', random.below(2 ** 31)],
    () => ['stable64_grow', random.below(3)],
    () => ['stable64_write', random.below(60_000), BLOB_AT, 1 + random.below(200)],
    () => ['certified_data_set', BLOB_AT, random.below(33)],
    () => ['global_timer_set', random.oneIn(3) ? 0 : BigInt(Date.now() + random.below(100)) * 1_000_000n],
    () => ['performance_counter', random.below(2)],
    () => ['canister_version'],
    () => ['time'],
    () => ['canister_status'],
    () => ['canister_cycle_balance128', cell],
    () => ['canister_liquid_cycle_balance128', cell],
    () => ['msg_cycles_available128', cell],
    () => ['msg_cycles_accept128', 0, random.below(2_000), cell],
    () => ['cycles_burn128', 0, random.below(2_000), cell],
    () => ['msg_deadline'],
    () => ['debug_print', BLOB_AT, 8],
    () => ['heap_grow', random.below(2)],
    () => ['is_controller', BLOB_AT, 10],
    () => ['env_var_count'],
    () => ['root_key_size'],
  ];
  return random.pick(choices)();
}

const operations = (random: Seeded, most: number): readonly Call[] =>
  Array.from({ length: 1 + random.below(most) }, () => operation(random));

function ending(random: Seeded): readonly Call[] {
  if (random.oneIn(8)) return [['unreachable']];
  if (random.oneIn(8)) return [['trap', BLOB_AT, 8]];
  if (random.oneIn(8)) return [['msg_reject', BLOB_AT, 8]];
  return random.oneIn(10) ? [] : replyWith(RESULTS_AT, 40);
}

/** Scripts of hooks: imports that a system task may not call are left out. */
function hook(random: Seeded): readonly Call[] {
  return operations(random, 6).filter(([name]) => !name.startsWith('msg_'));
}

async function message(random: Seeded, from: Subject, to: Subject): Promise<void> {
  const calls: Call[] = [...operations(random, 8)];
  const hooks = { [TIMER_SLOT]: hook(random), [HEARTBEAT_SLOT]: hook(random) };
  if (random.oneIn(2)) {
    await from.send([...calls, ...ending(random)], { scripts: hooks, blob: Buffer.from('12345678') });
    return;
  }
  const sent = outgoing(to.id, random.oneIn(5) ? 'nothing' : 'run', {
    payload: [...operations(random, 6), ...ending(random)],
    scripts: {
      ...hooks,
      0: [...operations(random, 6), ...ending(random)],
      1: [...operations(random, 3), ...replyWith(RESULTS_AT, 8)],
      2: operations(random, 3).filter(([name]) => !name.startsWith('msg_')),
    },
    ...(random.oneIn(2) && { cycles: random.below(5_000) }),
    ...(random.oneIn(3) && { timeoutSeconds: 5 }),
    cleanup: 2,
  });
  await from.send([...calls, ...sent.calls], sent);
}

/** Something that an operator does to an actor between two messages. */
async function operate(random: Seeded, { server }: Host, subject: Subject): Promise<void> {
  const { name } = subject.actor;
  const limit = 65_536 * (70 + random.below(100));
  const choices: readonly [() => Promise<unknown>, ...(() => Promise<unknown>)[]] = [
    () => subject.set({ wasm_memory_limit: limit }),
    () => server.post(`/cycles/${name}`, '1000000'),
    async () => {
      await server.post(`/stop/${name}`);
      await server.post(`/start/${name}`);
    },
    () => subject.tryChange('upgrade'),
    () => subject.tryChange('upgrade', undefined, undefined, { skip_pre_upgrade: [true] }),
    () => subject.tryChange('reinstall'),
    async () => {
      const { body } = await server.post(`/x/actors/${name}/snapshots`);
      const { id } = JSON.parse(body) as { id: string };
      await subject.send([['store64', CELLS_AT, 5]]);
      await server.post(`/x/actors/${name}/snapshots/${id}/load`);
      await server.fetch(`/x/actors/${name}/snapshots/${id}`, { method: 'DELETE' });
    },
  ];
  await random.pick(choices)();
}

/** Resolves when the state behind the newest message is kept. */
async function begun(host: Host, subject: Subject): Promise<void> {
  await host.until(async () => {
    await subject.run(replyWith(RESULTS_AT, 8));
    const { status, body } = await host.server.get(`/x/time/state/${subject.actor.name}`);
    assert.equal(status, 200, body);
  });
}

async function listed({ server }: Host, { actor }: Subject): Promise<readonly Listed[]> {
  return JSON.parse((await server.get(`/x/time/timeline/${actor.name}?limit=1000`)).body) as Listed[];
}

test('each message of a random run replays exactly, between changes of settings, code and state', async (t) => {
  const kinds = new Set<string>();
  for (const seed of new ProofSeeds(2)) {
    const random = seeded(seed);
    const deployment = await Deployment.create(t, { args: FLAGS });
    await deployment.start();
    const { host } = deployment;
    const lab = await Laboratory.open(host);
    const subjects = [await lab.subject(), await lab.subject()] as const;
    for (const subject of subjects) await begun(host, subject);
    for (let step = 0; step < STEPS; step++) {
      const [from, to] = random.oneIn(2) ? subjects : subjects.toReversed();
      assert.ok(from !== undefined && to !== undefined);
      if (random.oneIn(6)) await operate(random, host, from);
      else if (random.oneIn(3)) await Promise.all([message(random, from, to), message(random, to, from)]);
      else await message(random, from, to);
      if (random.oneIn(8)) await sleep(50);
    }
    for (const subject of subjects) {
      let kept = 0;
      let shared = 0;
      for (const { seq, kind, outcome } of await listed(host, subject)) {
        const { status, body } = await host.server.post(`/x/time/replay/${subject.actor.name}?seq=${seq}`, '');
        const answer = JSON.parse(body) as { exact?: boolean | null; why?: string; earlier?: number };
        if (answer.earlier !== undefined) kinds.add('callback with its call');
        if (status === 404) assert.equal(kept, 0, body);
        // An operator's change may come in the unit of a heartbeat, or while it waits, which then says so.
        else if (answer.exact === null && /same unit|waited/.test(answer.why ?? '')) shared++;
        else assert.deepEqual([status, answer.exact], [200, true], `seed ${seed}, ${kind} ${outcome} ${body}`);
        if (status === 200) kept++;
        kinds.add(`${kind} ${outcome}`);
      }
      assert.ok(kept > 20 && shared < 3, `${kept} messages, ${shared} with something else in their unit`);
    }
    await deployment.stop();
  }
  for (const kind of ['update reply', 'update trap', 'update reject', 'callback reply', 'heartbeat done', 'timer done'])
    assert.ok(kinds.has(kind), `${kind} is not among ${[...kinds].join(', ')}`);
});
