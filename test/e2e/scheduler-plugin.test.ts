/**
 * docs/plugins.md, "A scheduler of your own": the scheduler to copy, and the one that the page makes of it, pass the
 * suite and serve Motoko actors in a real server.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFile, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { describeScheduler, type MadeScheduler } from '../../plugins/api/contracts/scheduler.ts';
import type { PluginDefinition } from '../../plugins/api/definition.ts';
import { loadPlugins } from '../../plugins/loader/index.ts';
import { builtinPlugins } from '../../plugins/index.ts';
import { assertShows, commandsOf, listingsOf } from '../support/doc-listings.ts';
import { compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const directory = await temporaryDirectory();
const listings = (await listingsOf('plugins')).get('A scheduler of your own') ?? [];
for (const { file, text } of listings) if (file !== undefined) await writeFile(join(directory, file), text);
const [, copied = ''] = listings.map(({ text }) => /^cp node_modules\/svc\/(\S+) \.$/m.exec(text)).find(Boolean) ?? [];
await copyFile(join(ROOT, copied), join(directory, basename(copied)));

async function definitionIn(file: string): Promise<PluginDefinition> {
  const request = { capability: 'scheduler', module: `./${file}` };
  const { loaded, problems } = await loadPlugins([request], { directory, builtin: builtinPlugins });
  assert.deepEqual(problems, []);
  return loaded[0]?.definition ?? assert.fail();
}

const firstCome = await definitionIn('first-come.js');
describeScheduler('first come, first served', (_t, { heartbeatMs, timerMs, ...parts }) => {
  const config = { 'heartbeat-ms': heartbeatMs, 'timer-ms': timerMs };
  const scheduler = firstCome.create(parts, { config } as never) as MadeScheduler['scheduler'];
  return {
    scheduler,
    begin: () => firstCome.ready?.(scheduler, {} as never),
    drain: async () => firstCome.drain?.(scheduler, {} as never),
  };
});
// The page has the test of the other one.
await import(pathToFileURL(join(directory, 'queries-first.test.js')).href);

const TICKING = `
import Timer "mo:core/Timer";
persistent actor {
  var ticks : Nat = 0;
  var beats : Nat = 0;
  transient let timer = Timer.recurringTimer<system>(#milliseconds 20, func() : async () { ticks += 1 });
  system func heartbeat() : async () { beats += 1 };
  public query func count() : async (Nat, Nat) { (ticks, beats) };
  public func fall() : async () { beats := 1_000_000; assert false };
  public composite query func sum() : async Nat { ticks + beats };
};`;

describe('actors with the scheduler of docs/plugins.md', { timeout: 300_000 }, () => {
  const ends: (() => Promise<void>)[] = [];
  let server: RunningServer;
  before(async () => {
    await writeFile(join(directory, 'Ticking.mo'), TICKING);
    const commands = listings.flatMap((listing) => (listing.language === 'sh' ? commandsOf(listing) : []));
    const [, flags = ''] = /^svc (.*) --manifest asking.json &$/.exec(commands[0]?.line ?? '') ?? [];
    const { text = '' } = listings.find(({ file }) => file === 'asking.json') ?? {};
    const { actors } = JSON.parse(text) as { readonly actors: object };
    await writeFile(
      join(directory, 'actors.json'),
      JSON.stringify({ actors: { ...actors, ticking: { main: 'Ticking.mo' } } }),
    );
    server = await startServer(
      { after: (end) => void ends.push(end) },
      { directory, args: ['--manifest', 'actors.json', ...flags.split(' ')] },
    );
  });
  after(async () => {
    for (const end of ends) await end();
  });
  const call = async (path: string, body = '[]'): Promise<string> => (await server.post(path, body)).body;

  test('calls, calls between actors and queries are answered as the page shows', async () => {
    let done = 0;
    for (const listing of listings.filter(({ language }) => language === 'sh'))
      for (const { line, expected } of commandsOf(listing)) {
        const [, body = '', path = ''] = /^curl -X POST -d '(.*)' http:\/\/127\.0\.0\.1:7000(\S+)$/.exec(line) ?? [];
        if (path === '') continue;
        assertShows(await call(path, body), expected);
        done++;
      }
    assert.equal(done, 2);
    const sums = await Promise.all(Array.from({ length: 50 }, (_, n) => call('/call-json/asker/ask', `[${n}, 1]`)));
    assert.deepEqual(
      sums,
      sums.map((_, n) => `[${n + 1}]`),
    );
  });

  test('timers and heartbeats come, and what traps leaves no trace', async () => {
    const counts = async (): Promise<readonly number[]> =>
      JSON.parse(await call('/query-json/ticking/count')) as readonly number[];
    for (;;) {
      const [ticks = 0, beats = 0] = await counts();
      if (ticks > 2 && beats > 0) break;
      await sleep(20);
    }
    const trapped = await server.post('/call-json/ticking/fall', '[]');
    assert.equal(trapped.status, 400, trapped.body);
    assert.ok(((await counts())[1] ?? 0) < 1_000_000);
    assert.match(await call('/query-json/ticking/sum'), /this server's scheduler does not support composite queries/);
  });

  test('actors are stopped, started, upgraded with their state, reinstalled and deleted', async () => {
    assert.equal((await server.post('/stop/adder', '')).status, 200);
    assert.match(await call('/call-json/adder/add', '[1, 2]'), /is stopped/);
    assert.match(await call('/call-json/asker/ask', '[1, 2]'), /is stopped/);
    assert.equal((await server.post('/start/adder', '')).status, 200);
    assert.equal(await call('/call-json/asker/ask', '[1, 2]'), '[3]');
    const { wasm } = await compileMotoko(TICKING);
    const ticks = async (): Promise<number> =>
      (JSON.parse(await call('/query-json/ticking/count')) as readonly [number, number])[0];
    const earlier = await ticks();
    assert.ok(earlier > 2);
    const upgraded = await server.post('/upgrade/ticking', wasm);
    assert.equal(upgraded.status, 200, upgraded.body);
    assert.ok((await ticks()) >= earlier);
    const reinstalled = await server.post('/install/ticking?mode=reinstall', wasm);
    assert.equal(reinstalled.status, 200, reinstalled.body);
    while ((await ticks()) === 0) await sleep(20);
    assert.equal((await server.fetch('/actors/ticking?force=true', { method: 'DELETE' })).status, 200);
    assert.equal((await server.post('/query-json/ticking/count', '[]')).status, 404);
  });

  test('what the scheduler does not support is refused by name, and the server stops in order', async () => {
    const keyed = await server.post('/call-json/adder/add', '[1, 2]', { 'idempotency-key': 'one' });
    assert.equal(keyed.status, 400);
    assert.match(keyed.body, /this server's scheduler does not support idempotency keys: send the call without one/);
    assert.match((await server.get('/metrics')).body, /^svc_live_actors 2$/m);
    assert.equal(await server.stop(), 0, server.output.stderr);
  });
});

test('a state that is to be kept, and a flag of the server’s own scheduler, are refused at the start', () => {
  const refused = (...args: readonly string[]): readonly [number | null, string] => {
    const command = [join(ROOT, 'config/svc.js'), '--no-manifest', '--plugin', 'scheduler=./first-come.js', ...args];
    const { status, stderr } = spawnSync(process.execPath, command, { cwd: directory, encoding: 'utf8' });
    return [status, stderr];
  };
  const [status, stderr] = refused('--listen', '127.0.0.1:0', '--state', 'state');
  assert.equal(status, 1);
  assert.match(stderr, /does not support a state that is kept: start without --state/);
  const [bad, told] = refused('--heartbeat-ms', '100');
  assert.equal(bad, 2);
  assert.match(told, /--heartbeat-ms/);
});
