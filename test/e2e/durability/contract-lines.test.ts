/** Output of a start and of a stop, in order: the lines, notes and events of docs/running.md. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { compileActor, Deployment } from './deployment.ts';
import { WITNESS } from './witness.ts';

interface Event {
  readonly ts: number;
  readonly event: string;
  readonly actor?: string;
  readonly messages?: number;
  readonly actors?: number;
}

const eventsOf = (stderr: string): readonly Event[] =>
  stderr
    .split('\n')
    .filter((line) => line.endsWith('}'))
    .map((line) => JSON.parse(line) as Event);

test('the listener is up first, says what is recovered, and then that it is ready', async (t: TestContext) => {
  const keeper = await compileActor('Keeper');
  const modules = { keeper, other: keeper, witness: WITNESS };
  const args = ['--log-json', '--snapshot-below', '0', '--heartbeat-ms', '0'];
  const deployment = await Deployment.create(t, { args, modules });
  let host = await deployment.start();
  const [one, other] = [await host.find('keeper'), await host.find('other')];
  // Runs long enough that running the log again takes a moment.
  await host.call(one, 'fill', [200_000]);
  for (const n of [1, 2, 3]) await host.call(one, 'append', [n]);
  await host.call(other, 'append', [9]);
  await host.query(other, 'all');
  await deployment.kill();

  host = await deployment.start([], 'listening');
  assert.equal((await host.server.get('/health')).body, 'ok');
  const notes = new Set<string>();
  for (;;) {
    const { status, body } = await host.server.get('/health/ready');
    if (status === 200) break;
    assert.equal(status, 503);
    notes.add(body);
    const refused = await host.server.post('/call-json/keeper/get');
    if (refused.status === 200) break;
    assert.equal(refused.status, 503);
    assert.match(refused.body, /^starting: /);
  }
  const seen = [...notes].join('\n');
  assert.match(seen, /^starting: recovering keeper \(1 of 3\)$/m);
  const { output } = host.server;
  await host.until(() =>
    Promise.resolve(assert.match(output.stdout, /^listening on http:\S+\n(?:.*\n)*ready: 3 actor\(s\) in \d+ ms\n/)),
  );
  await host.until(() => Promise.resolve(assert.ok(eventsOf(output.stderr).some(({ event }) => event === 'ready'))));
  const recovered = eventsOf(output.stderr).filter(({ event }) => event === 'recovered');
  const hexOf = (id: Uint8Array): string => Buffer.from(id).toString('hex');
  // Installations are in the checkpoint; an actor that was only installed has no message to run again.
  assert.deepEqual(
    recovered.map(({ event, actor, messages }) => ({ event, actor, messages })),
    [
      { event: 'recovered', actor: hexOf(one.id), messages: 4 },
      { event: 'recovered', actor: hexOf(other.id), messages: 1 },
    ],
  );
  assert.ok(recovered.every(({ ts }) => Number.isInteger(ts)));
  const ready = eventsOf(output.stderr).find(({ event }) => event === 'ready');
  assert.equal(ready?.actors, 3);

  const { server } = host;
  await deployment.stop();
  assert.match(server.output.stdout, /^shutdown: 3 actor\(s\) checkpointed$/m);
  assert.equal(eventsOf(server.output.stderr).findLast(({ event }) => event === 'shutdown')?.actors, 3);

  // Messages that a graceful stop has checkpointed are not run again.
  host = await deployment.start();
  assert.deepEqual(
    eventsOf(host.server.output.stderr).filter(({ event }) => event === 'recovered'),
    [],
  );
  assert.deepEqual(await host.query(other, 'all'), [9]);
  await deployment.stop();
});

test('a graceful stop lets the running message end, answers it, and keeps what it did', async (t: TestContext) => {
  const deployment = await Deployment.create(t, { modules: { keeper: await compileActor('Keeper') } });
  let host = await deployment.start();
  const keeper = await host.find('keeper');
  const filling = host.call(keeper, 'fill', [300_000]);
  await host.given(filling);
  const stopping = deployment.stop();
  assert.equal(await filling, 300_000);
  await stopping;
  host = await deployment.start();
  assert.equal(await host.query(keeper, 'size'), 300_000);
});

test('a client that goes on sending while the server stops has every answer kept', async (t: TestContext) => {
  const deployment = await Deployment.create(t, { modules: { keeper: await compileActor('Keeper') } });
  let host = await deployment.start();
  const keeper = await host.find('keeper');
  const answered: number[] = [];
  const clients = Array.from({ length: 8 }, async (_, client) => {
    for (let n = 1; ; n++) {
      const number = client * 1_000_000 + n;
      const { status } = await host.server
        .post('/call-json/keeper/append', `[${number}]`)
        .catch(() => ({ status: undefined }));
      if (status !== 200) return;
      answered.push(number);
    }
  });
  await host.until(() => Promise.resolve(assert.ok(answered.length > 50)));
  await deployment.stop();
  await Promise.all(clients);
  host = await deployment.start();
  const kept = new Set((await host.query(keeper, 'all')) as number[]);
  assert.deepEqual(
    answered.filter((number) => !kept.has(number)),
    [],
  );
});
