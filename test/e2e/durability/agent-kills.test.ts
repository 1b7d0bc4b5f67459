/**
 * A server is killed under certified load and among management calls of users, again and again: every answer that
 * verified is in the state of the next process, and a repeated envelope is executed once. `npm run prove -- agents 100`
 * is the long form.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded } from '../../support/seeded.ts';
import type { RunningServer } from '../../support/server.ts';
import { compiledActor } from '../../subsystems/agents/actor.ts';
import { rootKeyOf } from '../../subsystems/agents/raw-agent.ts';
import { AgentUser, tally } from './agent-work.ts';
import { Deployment } from './deployment.ts';

const USERS = 4;
/** Latest kill, counted in answers. */
const ANSWERS_MAX = 30;

/** Lets the users work until so many answers have come, and kills the server then. */
async function killAmong(deployment: Deployment, users: readonly AgentUser[], answers: number): Promise<void> {
  const { server } = deployment.host;
  const rootKey = await rootKeyOf(server);
  let count = 0;
  let killing: Promise<void> | undefined;
  const answered = (): void => {
    if (++count === answers) killing = deployment.kill();
  };
  const works = users.map(async (user) => {
    try {
      await user.work(server, rootKey, answered);
    } catch (error) {
      // The kill cuts connections.
      if (killing === undefined || error instanceof assert.AssertionError) throw error;
    }
  });
  await Promise.all(works);
  await (killing ?? deployment.kill());
}

async function created(server: RunningServer): Promise<number> {
  return (JSON.parse((await server.get('/inspect')).body) as readonly unknown[]).length - 1;
}

test('kills among certified calls and management calls lose no answer and repeat nothing', async (t) => {
  const seeds = new ProofSeeds(2);
  const deployment = await Deployment.create(t, { modules: { it: await compiledActor() } });
  const { server: first } = await deployment.start();
  const rootKey = await rootKeyOf(first);
  const counter = Buffer.from('80000000001000010101', 'hex');
  const replies = new Set<string>();
  let left = 0;
  for (const seed of seeds) {
    const random = seeded(seed);
    const users = Array.from({ length: USERS }, (_, number) => new AgentUser(counter, seed * USERS + number));
    await killAmong(deployment, users, 1 + random.below(ANSWERS_MAX));
    for (const user of users) tally['not answered before the kill'] += user.open;
    const { server } = await deployment.start();
    assert.deepEqual(await rootKeyOf(server), rootKey);
    await Promise.all(users.map((user) => user.work(server, rootKey)));
    await Promise.all(users.map((user) => user.check(server, rootKey)));
    for (const { counted } of users) for (const reply of counted) replies.add(reply);
    for (const user of users) left += user.left;
    assert.equal(replies.size, seed * USERS * 4, 'each call was executed once, and has its own number');
    assert.equal((await server.post('/query-json/it/get')).body, `[${replies.size}]`);
    assert.equal(await created(server), left, 'each creation and deletion was executed once');
  }
  seeds.saw(tally);
  assert.ok(tally.repeated > 0 && tally['not answered before the kill'] > 0, JSON.stringify(tally));
  await deployment.stop();
});
