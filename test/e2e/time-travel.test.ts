/**
 * Real servers: the past of actors is asked, forked and restored, and is what it was. `npm run prove -- past` is the
 * long form.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { ProofSeeds } from '../support/proof-seeds.ts';
import { seeded } from '../support/seeded.ts';
import { compileActor, Deployment } from './durability/deployment.ts';

let keeper: Uint8Array;
before(async () => {
  keeper = await compileActor('Keeper');
});

interface Shown {
  readonly point: { readonly seq: number; readonly unit: number };
  readonly sha256: { readonly heap: string; readonly stable: string };
  readonly globals: string;
  readonly certifiedData: string;
  readonly status: string;
  readonly timer: string | null;
}

/** An actor at one moment: the hashes of its memories, and what its queries told. */
interface Noted {
  readonly actor: string;
  readonly point: string;
  readonly memory: readonly string[];
  readonly told: string;
}

const FLAGS = ['--timeline', '3600', '--heartbeat-ms', '0'];

function pickOf(noted: readonly Noted[], at: number): Noted {
  const picked = noted[at];
  assert.ok(picked !== undefined);
  return picked;
}

class Past {
  readonly deployment: Deployment;

  constructor(deployment: Deployment) {
    this.deployment = deployment;
  }

  async send(path: string, body = ''): Promise<string> {
    const answer = await this.deployment.host.server.post(path, body);
    assert.equal(answer.status, 200, `${path}: ${answer.body}`);
    return answer.body;
  }

  async state(actor: string, point = 'now'): Promise<Shown> {
    const { status, body } = await this.deployment.host.server.get(`/x/time/state/${actor}?at=${point}`);
    assert.equal(status, 200, body);
    return JSON.parse(body) as Shown;
  }

  async memory(actor: string, point?: string): Promise<readonly string[]> {
    const { sha256, globals, certifiedData } = await this.state(actor, point);
    return [sha256.heap, sha256.stable, globals, certifiedData];
  }

  async told(actor: string, point?: string): Promise<string> {
    const at = point === undefined ? '' : `?at=${point}`;
    const answers = [`/query-json/${actor}/all${at}`, `/query-json/${actor}/get${at}`];
    const [all, get] = [await this.send(answers[0] ?? ''), await this.send(answers[1] ?? '')];
    const load = await this.send(`/query-json/${actor}/load${at}`, '[8]');
    return [all, get, load].join(' ');
  }

  async note(actor: string): Promise<Noted> {
    const { point } = await this.state(actor);
    return { actor, point: `seq:${point.seq}`, memory: await this.memory(actor), told: await this.told(actor) };
  }
}

test('any past state is asked, forked and restored as it was, over upgrades and kills', async (t) => {
  const seeds = new ProofSeeds(24);
  const random = seeded(7);
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { one: keeper, two: keeper } });
  await deployment.start();
  const past = new Past(deployment);
  const other = await deployment.host.find('two');
  const noted: Noted[] = [];
  const saw = { upgrades: 0, kills: 0 };
  while (noted.length < seeds.count) {
    const actor = random.pick(['one', 'two']);
    const [method, args] = random.pick([
      ['append', [random.below(1_000)]],
      ['append', [random.below(1_000)]],
      ['add', [random.below(9)]],
      ['store', [8, random.below(1_000)]],
      ['chain', [other.principal, 2]],
      ['certify', [[random.below(256), 2, 3]]],
    ] as const);
    if (method === 'chain' && actor === 'two') continue;
    await past.send(`/call-json/${actor}/${method}`, JSON.stringify(args));
    if (random.oneIn(8)) {
      saw.upgrades++;
      await past.send(`/upgrade/${actor}`, keeper as unknown as string);
    }
    if (random.oneIn(12)) {
      saw.kills++;
      await deployment.kill();
      await deployment.start();
    }
    noted.push(await past.note(actor));
  }
  seeds.saw(saw);
  for (const [what, count] of Object.entries(saw)) assert.ok(count > 0, `there have been no ${what}`);
  for (const { actor, point, memory, told } of noted) {
    assert.deepEqual(await past.memory(actor, point), memory, `${actor} ${point}`);
    assert.equal(await past.told(actor, point), told, `${actor} ${point}`);
  }
  // Every sixth moment, picked anew: four are enough for each branch below.
  const picked = Math.ceil(seeds.count / 6);
  for (let n = 0; n < picked; n++) {
    const { actor, point, memory, told } = pickOf(noted, random.below(noted.length));
    await past.send(`/x/time/fork/${actor}/fork_${n}?at=${point}`);
    assert.deepEqual(await past.memory(`fork_${n}`), memory, `fork of ${actor} at ${point}`);
    assert.equal((await past.state(`fork_${n}`)).status, 'stopped');
    await past.send(`/start/fork_${n}`);
    assert.equal(await past.told(`fork_${n}`), told);
  }
  for (let n = 0; n < picked; n++) {
    const { actor, point, memory, told } = pickOf(noted, random.below(noted.length));
    const now = await past.note(actor);
    const answer = JSON.parse(await past.send(`/x/time/restore/${actor}?to=${point}`)) as { undo: string };
    if (n % 3 === 0) {
      await deployment.kill();
      await deployment.start();
    }
    assert.deepEqual(await past.memory(actor), memory, `${actor} restored to ${point}`);
    assert.equal(await past.told(actor), told);
    if (n % 2 === 1) continue;
    await past.send(`/x/time/restore/${actor}?to=${answer.undo}`);
    assert.deepEqual(await past.memory(actor), now.memory, `${actor} back at ${answer.undo}`);
    assert.equal(await past.told(actor), now.told);
  }
});

test('a restore under load undoes messages of its actor alone, and it works on', async (t) => {
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { one: keeper, two: keeper } });
  await deployment.start();
  const past = new Past(deployment);
  await past.send('/call-json/one/append', '[1]');
  await past.send('/x/time/label/one/begin');
  let acknowledged = 0;
  let isOver = false;
  const clients = Array.from({ length: 4 }, async () => {
    while (!isOver) {
      await past.send('/call-json/two/add', '[1]');
      acknowledged++;
      await past.send('/call-json/one/append', '[2]');
    }
  });
  for (let n = 0; n < 5; n++) await past.send('/x/time/restore/one?to=label:begin');
  isOver = true;
  await Promise.all(clients);
  assert.equal(await past.send('/query-json/two/get'), JSON.stringify([acknowledged]));
  await past.send('/x/time/restore/one?to=label:begin');
  assert.equal(await past.send('/query-json/one/all'), '[[1]]');
  const entries = JSON.parse((await deployment.host.server.get('/x/time/timeline/one?limit=1000')).body) as {
    kind: string;
    args: string;
  }[];
  assert.equal(entries.filter(({ kind, args }) => kind === 'restore' && args.startsWith('seq:')).length, 6);
});

test('a fork has no timer, and its parent goes on', async (t) => {
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { one: keeper } });
  await deployment.start();
  const past = new Past(deployment);
  await past.send('/call-json/one/fireAfter', '[3600000]');
  assert.notEqual((await past.state('one')).timer, null);
  const id = await past.send('/x/time/fork/one/copy');
  assert.match(id, /^[0-9a-f]{20}$/);
  assert.equal((await past.state('copy')).timer, null);
  assert.notEqual((await past.state('one')).timer, null);
  const taken = await deployment.host.server.post('/x/time/fork/one/copy');
  assert.equal(taken.status, 400);
  assert.match(taken.body, /copy is already installed/);
});

test('what cannot be is refused with the reason, and changes nothing', async (t) => {
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { one: keeper } });
  await deployment.start();
  const past = new Past(deployment);
  await past.send('/call-json/one/append', '[1]');
  const { server } = deployment.host;
  for (const [path, status, message] of [
    ['/x/time/restore/one', 400, /say the point, as in \?to=seq:1234/],
    ['/x/time/restore/one?to=', 400, /is no point/],
    ['/x/time/restore/one?to=seq:-1', 400, /^\?to=: "seq:-1" names no message/],
    ['/x/time/restore/one?to=seq:1000', 404, /its newest message is seq:2/],
    ['/x/time/restore/one?to=unit:1&calls=reject', 404, undefined],
    ['/x/time/restore/nobody?to=seq:1', 404, /nobody/],
    ['/x/time/fork/one/1bad', 400, /cannot be the name of an actor/],
    ['/x/time/fork/one/fork?at=ago:1000d', 404, /the timeline of this actor begins with/],
    ['/query/one/append?at=seq:2', 400, /is an update method: the past answers plain queries alone/],
    ['/query-json/one/nothing?at=seq:2', 404, /has no method/],
    ['/query-json/one/get?at=tomorrow', 400, /^\?at=: /],
  ] as const) {
    const answer = await server.post(path);
    assert.equal(answer.status, status, `${path}: ${answer.body}`);
    if (message !== undefined) assert.match((JSON.parse(answer.body) as { message: string }).message, message, path);
  }
  assert.equal(await past.send('/query-json/one/all'), '[[1]]');
  const dry = JSON.parse(await past.send('/x/time/restore/one?to=seq:2&dry=1')) as {
    to: { seq: number };
    undo?: string;
  };
  assert.equal(dry.to.seq, 2);
  assert.equal(dry.undo, undefined);
  assert.equal(await past.send('/query-json/one/all'), '[[1]]');
  const answer = await server.fetch('/query-json/one/all?at=seq:2', { method: 'POST' });
  assert.equal(await answer.text(), '[[1]]');
  assert.match(answer.headers.get('svc-at') ?? '', /^seq:2 unit:\d+$/);
});
