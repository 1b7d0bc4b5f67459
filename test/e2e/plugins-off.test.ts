/**
 * Every part that may be turned off, one by one and in pairs: the rest works, and requests for the missing part get a
 * reason.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { describe, test } from 'node:test';
import { builtinPlugins } from '../../plugins/index.ts';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { wat } from '../support/wat.ts';

const MODULE = wat('(module (memory 1))');
const OPTIONAL = builtinPlugins.filter(({ neededBecause }) => neededBecause === undefined).map(({ name }) => name);
const NEEDED = builtinPlugins.filter(({ neededBecause }) => neededBecause !== undefined);

/** A request that only this part answers, and the answer without the part; undefined: the part has no route. */
const GONE: Readonly<Record<string, readonly [path: string, status: number, reason: RegExp] | undefined>> = {
  auth: undefined,
  metering: ['/cycles/off', 200, /^0$/],
  storage: ['/backup', 400, /start it with --state/],
  manifest: undefined,
  compiler: undefined,
  outcalls: undefined,
  metrics: ['/metrics', 404, /GET \/metrics is turned off \(--no-metrics\)/],
  openapi: ['/openapi/off', 404, /--no-openapi/],
  'mops-closure': ['/mops/closure/Main.mo', 404, /--no-mops-closure/],
  variables: ['/x/actors/off/variables', 404, /--no-variables/],
  timeline: ['/x/time/timeline/off', 400, /--no-timeline/],
  // A module has to be sent: test/e2e/rehearsal.test.ts.
  rehearsal: undefined,
  replay: ['/x/time/capsule/off?seq=1', 400, /--no-replay/],
  // Without it nobody answers for its canisters: test/subsystems/ic-facade/facade.test.ts.
  'ic-facade': undefined,
  agents: ['/api/v2/status', 404, /the agent interface is off/],
  gateway: ['/site/off/', 404, /turned off \(--no-gateway\)/],
  inspector: ['/inspector', 404, /turned off \(--no-inspector\)/],
};

async function installActor(server: InProcessServer): Promise<void> {
  assert.equal((await server.post('/install/off', MODULE)).status, 200);
  await fetch(`${server.origin}/candid/off`, { method: 'PUT', body: 'service : {}' });
  assert.match((await server.get('/actors')).body, /"name":"off"/);
}

describe('parts that are turned off', { timeout: 300_000 }, () => {
  test('the table knows them all', () => {
    assert.deepEqual(Object.keys(GONE).toSorted(), OPTIONAL.toSorted());
  });

  for (const [index, first] of OPTIONAL.entries()) {
    test(`without ${first}, alone and with each other one`, async (t) => {
      for (const second of OPTIONAL.slice(index)) {
        const off = [...new Set([first, second, 'manifest'])];
        const server = await startInProcess(t, {
          args: off.filter((name) => name !== 'manifest').map((name) => `--no-${name}`),
        });
        const what = off.join(', ');
        assert.equal((await server.get('/health/ready')).body, 'ready', what);
        // Installing an actor takes as long as the rest, so pairs do without one.
        if (second === first) await installActor(server);
        for (const name of off) {
          const gone = GONE[name];
          if (gone === undefined || (first !== second && /\/off(?:$|\?)|\/actors\/off\//.test(gone[0]))) continue;
          const [path, expected, reason] = gone;
          const answer = await server.get(path);
          assert.equal(answer.status, expected, `${what}: ${path} ${answer.body}`);
          assert.match(answer.body, reason, what);
        }
        assert.deepEqual(
          server.log.lines.filter((line) => line.startsWith('error')),
          [],
          what,
        );
        await server.stop();
      }
    });
  }

  test('one that is needed is refused with the reason', () => {
    const main = resolve(import.meta.dirname, '../../config/svc.js');
    const flags = NEEDED.map(({ name }) => `--no-${name}`);
    const { status, stderr } = spawnSync(process.execPath, [main, ...flags], { encoding: 'utf8', timeout: 60_000 });
    assert.equal(status, 2);
    for (const { name, neededBecause } of NEEDED)
      assert.ok(stderr.includes(`svc: cannot run without ${name}: ${neededBecause}`), stderr);
  });
});
