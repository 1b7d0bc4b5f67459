/**
 * Stop, kill, start, evict, wake, checkpoint, back up, restore, in seeded random order: every answer stays the same.
 */
import assert from 'node:assert/strict';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Tally } from '../../support/payload-sizes.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import type { Actor } from '../semantics/host.ts';
import { compileActor, Deployment } from './deployment.ts';
import { endlessLoad, HAUL_FLAGS, loadsOf, Sender } from './haul.ts';
import { dump, WITNESS } from './witness.ts';

const STEPS = 9;
const NAMES = ['one', 'two', 'three', 'witness', 'hauler', 'depot'] as const;
/** Number of loads that each hauler is sent at a time. */
const LOADS = 3;
/** Client of the loads that a kill ends. */
const ENDLESS_CLIENT = 15;
/** Index of the first hauler in NAMES. */
const HAULER = NAMES.indexOf('hauler');
/** Cost of a message that reaches the limit of HAUL_FLAGS. */
const LIMIT_CYCLES = 590_000n + 240_000_000n;

interface Answers {
  /** Balances in the order of NAMES. */
  readonly cycles: readonly string[];
  readonly [what: string]: unknown;
}

class Walk {
  readonly #deployment: Deployment;
  readonly #random: Seeded;
  readonly #keepers: readonly [Actor, ...Actor[]];
  readonly #haulers: readonly [Actor, Actor];
  readonly #senders: readonly Sender[];
  /** Last answers. */
  #given: object = {};
  /** True if endless loads have begun since those answers. */
  #isEndless = false;
  /** A backup, and the answers at the time when it was made. */
  #backup: { readonly bytes: Uint8Array; readonly given: object } | undefined;
  /** Steps taken so far. */
  readonly steps: string[] = [];

  static async begin(deployment: Deployment, random: Seeded, tally: Tally): Promise<Walk> {
    const host = await deployment.start();
    const [one, two, three] = await Promise.all([host.find('one'), host.find('two'), host.find('three')]);
    const [hauler, depot] = await Promise.all([host.find('hauler'), host.find('depot')]);
    const walk = new Walk(deployment, random, [one, two, three], [hauler, depot], tally);
    await walk.#work();
    return walk;
  }

  private constructor(
    deployment: Deployment,
    random: Seeded,
    keepers: readonly [Actor, ...Actor[]],
    haulers: readonly [Actor, Actor],
    tally: Tally,
  ) {
    this.#deployment = deployment;
    this.#random = random;
    this.#keepers = keepers;
    this.#haulers = haulers;
    this.#senders = haulers.map((actor, client) => new Sender(actor, client, random, tally));
  }

  async #answers(): Promise<Answers> {
    const { host } = this.#deployment;
    const ask = (method: string): Promise<unknown> =>
      Promise.all(this.#keepers.map((actor) => host.query(actor, method)));
    return {
      lists: await ask('all'),
      counts: await ask('get'),
      chained: await ask('chained'),
      pools: await ask('inPool'),
      words: await Promise.all(this.#keepers.map((actor) => host.query(actor, 'load', [64]))),
      loads: await Promise.all(this.#haulers.map((hauler) => loadsOf(host, hauler))),
      dump: await dump(host, 'witness'),
      cycles: await Promise.all(NAMES.map(async (name) => (await host.server.get(`/cycles/${name}`)).body)),
    };
  }

  async #expectAsGiven(): Promise<void> {
    const answers = await this.#answers();
    const given = this.#given as Answers;
    const paid = BigInt(given.cycles[HAULER] ?? 0) - BigInt(answers.cycles[HAULER] ?? 0);
    // On a fast machine, an endless load may have reached its limit before the kill: its cycles are charged, and
    // nothing else of it remains.
    const mayBePaid = this.#isEndless && paid > 0n && paid <= 2n * LIMIT_CYCLES;
    if (mayBePaid) this.#given = { ...given, cycles: given.cycles.with(HAULER, answers.cycles[HAULER] ?? '') };
    this.#isEndless = false;
    assert.deepEqual(answers, this.#given);
  }

  /** Changes some state in every actor. */
  async #work(): Promise<void> {
    const { host } = this.#deployment;
    const n = this.#random.below(1000);
    await Promise.all(
      this.#keepers.flatMap((actor, index) => {
        const next = this.#keepers[(index + 1) % this.#keepers.length] ?? actor;
        return [
          host.call(actor, 'append', [n]),
          host.call(actor, 'chain', [next.principal, 3]),
          host.call(actor, 'transfer', [next.principal, n]),
          host.call(actor, 'store', [64, n]),
          host.server.post('/call/witness/write', `${n}`),
        ];
      }),
    );
    await host.server.post('/call/witness/fall', `${n}`);
    await Promise.all(this.#senders.map((sender) => sender.send(host, LOADS)));
    this.#given = await this.#answers();
  }

  async #start(more: readonly string[] = [], isAsGiven = true): Promise<void> {
    const flags: readonly string[] = this.#random.pick<readonly string[]>([
      [],
      ['--snapshot-below', '0'],
      ['--snapshot-below', '0', '--live-cap', '1'],
      ['--live-cap', '2'],
      ['--fsync', 'off'],
    ]);
    this.steps.push(`start ${[...flags, ...more].join(' ')}`);
    await this.#deployment.start([...flags, ...more]);
    if (isAsGiven) await this.#expectAsGiven();
  }

  async step(): Promise<void> {
    const step = this.#random.pick([
      'work',
      'stop',
      'kill',
      'wake',
      'upgrade',
      'upgrade, kill',
      'back up',
      'restore',
    ] as const);
    this.steps.push(step);
    switch (step) {
      case 'work':
        return this.#work();
      case 'stop':
        await this.#deployment.stop();
        return this.#start();
      case 'kill':
        await this.#beginEndless();
        await this.#deployment.kill();
        return this.#start();
      case 'upgrade, kill':
        return this.#killUpgrade();
      case 'wake':
        // With a cap, the queried actor wakes and another one sleeps.
        for (let n = 0; n < 6; n++) await this.#deployment.host.query(this.#random.pick(this.#keepers), 'get');
        return this.#expectAsGiven();
      case 'upgrade': {
        // An upgrade is a checkpoint with code; it costs cycles.
        const { host } = this.#deployment;
        const actor = this.#random.pick([...this.#keepers, ...this.#haulers]);
        assert.equal((await host.change(actor, 'upgrade')).status, 200);
        await this.#forgetCycles();
        return this.#expectAsGiven();
      }
      case 'back up': {
        const response = await this.#deployment.host.server.fetch('/backup');
        assert.equal(response.status, 200);
        this.#backup = { bytes: new Uint8Array(await response.arrayBuffer()), given: this.#given };
        return this.#expectAsGiven();
      }
      case 'restore':
        return this.#restore();
    }
  }

  /** Expects everything except the cycles to stay the same. */
  async #forgetCycles(): Promise<void> {
    const { cycles: _, ...rest } = this.#given as { cycles: unknown };
    this.#given = { ...(await this.#answers()), ...rest };
  }

  /** Begins a message that executes until the server is killed, and others that wait for its end. */
  async #beginEndless(): Promise<void> {
    const { server } = this.#deployment.host;
    const [{ name }] = this.#haulers;
    const ignore = (): undefined => undefined;
    const argument = endlessLoad(ENDLESS_CLIENT, 1);
    this.#isEndless = true;
    for (let n = 0; n < 2; n++) server.post(`/call/${name}/haul`, argument).then(ignore, ignore);
    server
      .post(`/query-json/${name}/look`, JSON.stringify([Buffer.alloc(50_000).toString('base64')]))
      .then(ignore, ignore);
    await sleep(this.#random.below(100));
  }

  /** Sends SIGKILL in the middle of an upgrade that carries much over, while a message of another actor executes. */
  async #killUpgrade(): Promise<void> {
    await this.#beginEndless();
    const { host } = this.#deployment;
    const [, depot] = this.#haulers;
    const upgraded = host.change(depot, 'upgrade').then(
      ({ status }) => assert.equal(status, 200),
      () => undefined,
    );
    await sleep(this.#random.below(300));
    await this.#deployment.kill();
    await upgraded;
    await this.#start([], false);
    await this.#forgetCycles();
    await this.#expectAsGiven();
  }

  async #restore(): Promise<void> {
    if (this.#backup === undefined) return;
    const { folder, state } = this.#deployment;
    await this.#deployment[this.#random.pick(['stop', 'kill'] as const)]();
    await rm(join(folder, 'former'), { recursive: true, force: true });
    await rename(state, join(folder, 'former'));
    const file = join(folder, 'kept.backup');
    await writeFile(file, this.#backup.bytes);
    this.#given = this.#backup.given;
    await this.#start(['--restore', file]);
  }
}

test('in any order, every answer is as before', async (t: TestContext) => {
  const keeper = await compileActor('Keeper');
  const hauler = await compileActor('Hauler');
  const depot = await compileActor('Hauler', 'classical');
  const modules = { one: keeper, two: keeper, three: keeper, witness: WITNESS, hauler, depot };
  const tally = new Tally();
  const seeds = new ProofSeeds(1);
  let starts = 0;
  for (const seed of seeds) {
    const deployment = await Deployment.create(t, { args: ['--heartbeat-ms', '0', ...HAUL_FLAGS], modules });
    const walk = await Walk.begin(deployment, seeded(seed + 6), tally);
    try {
      for (let step = 0; step < STEPS; step++) await walk.step();
      await deployment.stop();
    } catch (error) {
      throw new Error(`seed ${seed}: ${walk.steps.join(', ')}`, { cause: error });
    }
    starts += walk.steps.filter((step) => step.startsWith('start')).length;
  }
  seeds.saw({ starts, ...tally.all });
});
