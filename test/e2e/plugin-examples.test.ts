/**
 * docs/plugins.md: each plugin that the page shows for a part of the server serves in a real one, and passes that
 * part's suite.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { systemClock } from '../../kernel/index.ts';
import { describeAuth } from '../../plugins/api/contracts/auth.ts';
import { describeCodec } from '../../plugins/api/contracts/codec.ts';
import { describeExecution } from '../../plugins/api/contracts/execution.ts';
import { describeGateway } from '../../plugins/api/contracts/gateway.ts';
import { describeInspector } from '../../plugins/api/contracts/inspector.ts';
import { describeManifest } from '../../plugins/api/contracts/manifest.ts';
import { describeMetering } from '../../plugins/api/contracts/metering.ts';
import { describeMetrics } from '../../plugins/api/contracts/metrics.ts';
import { describeMopsClosures } from '../../plugins/api/contracts/mops-closures.ts';
import { describeOpenApi } from '../../plugins/api/contracts/openapi.ts';
import { describeScheduler } from '../../plugins/api/contracts/scheduler.ts';
import type { PluginDefinition } from '../../plugins/api/definition.ts';
import { loadPlugins } from '../../plugins/loader/index.ts';
import { REPLACEABLE } from '../../plugins/loader/shapes.ts';
import { builtinPlugins } from '../../plugins/index.ts';
import type { Execution } from '../../subsystems/execution/index.ts';
import { ExecutorPool } from '../../subsystems/execution/pool/executor-pool.ts';
import { RoundScheduler } from '../../subsystems/scheduler/round-scheduler.ts';
import { listingsOf } from '../support/doc-listings.ts';
import { RecordingLogger } from '../support/kernel.ts';
import { startOutsideServer } from '../support/outside-server.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';
import { POLICY, STACK_BYTES } from '../subsystems/execution/engine-fixture.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** The page's example for each part, and its options. */
const EXAMPLES: Readonly<Record<string, readonly [file: string, ...options: string[]]>> = {
  auth: ['team-tokens.js', 'tokens=red blue'],
  codec: ['slow-interfaces.js', 'ms=0'],
  execution: ['slow-messages.js', 'ms=0'],
  gateway: ['no-robots.js'],
  inspector: ['staging-page.js'],
  manifest: ['folder-of-modules.js'],
  metering: ['double-prices.js'],
  metrics: ['machine-load.js'],
  'mops-closures': ['published-sources.js'],
  openapi: ['public-address.js'],
  outcalls: ['cached-outcalls.js'],
  scheduler: ['slow-answers.js', 'ms=0'],
  // The suites of storages run in test/system/packed-plugins.test.ts, as the page has them.
  storage: ['sqlite-storage.js', 'path=state.sqlite'],
};
const RED = { authorization: 'Bearer red' };

const directory = await temporaryDirectory();
for (const { file, text } of [...(await listingsOf('plugins')).values()].flat())
  if (file !== undefined) await writeFile(join(directory, file), text);
await mkdir(join(directory, 'modules'));
await writeFile(join(directory, 'modules/found.wasm'), wat('(module (memory 1))'));
await mkdir(join(directory, 'src'));
for (const file of ['src/Main.mo', 'Hidden.mo']) await writeFile(join(directory, file), 'module {};');

const example = (file: string): { readonly main: string } => ({ main: join(ROOT, `config/examples/${file}.mo`) });

async function definitionFor(capability: string): Promise<PluginDefinition> {
  const module = `./${EXAMPLES[capability]?.[0]}`;
  const { loaded, problems } = await loadPlugins([{ capability, module }], { directory, builtin: builtinPlugins });
  assert.deepEqual(problems, []);
  const definition: PluginDefinition | undefined = loaded[0]?.definition;
  assert.ok(definition !== undefined);
  return definition;
}

/** Makes the example's object with the granted capabilities. */
async function madeBy<T>(capability: string, granted: object, config: object = {}): Promise<T> {
  return (await definitionFor(capability)).create(granted as never, { config } as never) as T;
}

test('the page has an example for each part that can be replaced, and names these parts', async () => {
  assert.deepEqual(Object.keys(EXAMPLES), REPLACEABLE);
  const page = await readFile(join(ROOT, 'docs/plugins.md'), 'utf8');
  const [, named = ''] = /own\s+capabilities \(([^)]+)\)/.exec(page) ?? [];
  assert.deepEqual(named.match(/[\w-]+/g), REPLACEABLE);
});

describe('the examples of docs/plugins.md, in one server', { timeout: 300_000 }, () => {
  const ends: (() => Promise<void>)[] = [];
  let server: RunningServer;
  before(async () => {
    const plugins = Object.entries(EXAMPLES).flatMap(([capability, [file, ...options]]) => [
      '--plugin',
      `${capability}=./${file}`,
      ...options.flatMap((option) => ['--plugin-option', `${capability}.${option}`]),
    ]);
    const actors = {
      counter: example('counter/Counter'),
      fetcher: example('fetcher/Fetcher'),
      site: example('website/Website'),
    };
    const flags = '--cycles 1000000000 --instruction-limit 20000000 --auth-token own --project .';
    server = await startServer(
      { after: (end) => void ends.push(end) },
      {
        directory,
        manifest: JSON.stringify({ actors }),
        args: [...plugins, '--plugin', 'forget-answers=./forget-answers.js', ...flags.split(' ')],
      },
    );
  });
  after(async () => {
    for (const end of ends) await end();
  });

  test('auth: tokens of the teams and the own one are let in, others are not', async () => {
    for (const [token, status] of [
      ['red', 200],
      ['blue', 200],
      ['own', 200],
      ['green', 401],
      ['', 401],
    ] as const)
      assert.equal((await server.get('/actors', { authorization: `Bearer ${token}` })).status, status, token);
  });

  test('codec, execution and scheduler: what is read, executed and answered is told', async () => {
    await server.post('/call-json/counter/inc', '[]', RED);
    // The log is another pipe than the answer.
    for (const told of [
      /warning: inc of actor \d+ was answered after \d+ ms/,
      /an interface of \d+ methods was read in \d+ ms/,
      /warning: a message of actor \d+ took \d+ ms/,
    ])
      while (!told.test(server.output.stderr)) await sleep(10);
  });

  test('gateway: websites come as before, and are not to be listed', async () => {
    const answer = await server.fetch('/site/site/');
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get('x-robots-tag'), 'noindex');
    assert.match(await answer.text(), /<html/i);
    assert.equal((await server.fetch('/site/nobody/')).status, 404);
  });

  test('inspector and manifest: the page has its name, and modules of the folder are actors', async () => {
    assert.match((await server.get('/inspector')).body, /<title>staging: /);
    assert.match((await server.get('/actors', RED)).body, /"name":"found"/);
  });

  test('metering: a message costs twice as much, and the flags of the own metering are obeyed', async () => {
    const balanceOf = async (): Promise<bigint> => BigInt((await server.get('/cycles/counter', RED)).body);
    const balance = await balanceOf();
    assert.ok(balance <= 1_000_000_000n && balance > 900_000_000n, `--cycles is obeyed: ${balance}`);
    await server.post('/call-json/counter/inc', '[]', RED);
    const history = JSON.parse((await server.get('/history/counter', RED)).body) as readonly {
      readonly instructions: number;
      readonly cycles: number;
    }[];
    const { instructions, cycles } = history.at(-1) ?? assert.fail('nothing is in the history');
    assert.equal(cycles, 2 * 590_000 + Math.ceil((instructions * 8) / 10));
    assert.equal(await balanceOf(), balance - BigInt(cycles));
  });

  test('metrics: the page has one number more', async () => {
    const { body } = await server.get('/metrics', RED);
    assert.match(body, /^team_machine_load [\d.]+$/m);
    assert.match(body, /^svc_http_requests_total\{endpoint="call-json"\} \d+$/m);
  });

  test('mops-closures: only what is published is handed out', async () => {
    assert.match((await server.get('/mops/closure/src/Main.mo', RED)).body, /"path":"src\/Main\.mo"/);
    const hidden = await server.get('/mops/closure/Hidden.mo', RED);
    assert.deepEqual([hidden.status, /is not published/.test(hidden.body)], [403, true]);
  });

  test('openapi: documents name the address', async () => {
    assert.match(
      (await server.get('/openapi/counter', RED)).body,
      /"servers":\[\{"url":"https:\/\/actors\.example\.org"\}\]/,
    );
  });

  test('outcalls: the same is asked once, until another plugin has it forgotten', async (t) => {
    const outside = await startOutsideServer(t);
    const fetched = async (path: string): Promise<string> =>
      (await server.post('/call-json/fetcher/fetch', JSON.stringify([outside.origin + path]), RED)).body;
    for (let calls = 0; calls < 3; calls++) assert.match(await fetched('/json/7'), /\\"n\\":7/);
    for (let calls = 0; calls < 2; calls++) assert.match(await fetched('/status/404'), /404/);
    assert.equal((await server.fetch('/x/forget-answers/all', { method: 'DELETE', headers: RED })).status, 204);
    assert.match(await fetched('/json/7'), /\\"n\\":7/);
    assert.deepEqual(
      outside.received.map(({ target }) => target),
      ['/json/7', '/status/404', '/status/404', '/json/7'],
    );
  });

  test('storage: all of it stops in order, and what is kept is there again', async () => {
    const stopped = await server.stop();
    assert.equal(stopped, 0, server.output.stderr);
    assert.match(server.output.stdout, /^shutdown: 4 actor\(s\) checkpointed$/m);
  });
});

test('a plugin that wraps a part and requires who needs that part is a circle, and told before anything starts', async () => {
  await writeFile(
    join(directory, 'circle.js'),
    `import { definePlugin, Execution, Metering } from 'svc/plugin';
    export default definePlugin({
      apiVersion: 1, name: 'round', provides: Metering, requires: { own: Metering, execution: Execution }, create: ({ own }) => own,
    });`,
  );
  const args = [join(ROOT, 'config/svc.js'), '--plugin', 'metering=./circle.js', '--no-manifest'];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: directory, encoding: 'utf8' });
  assert.match(
    stderr,
    /^svc: plugins require each other in a circle: round → execution → round; take one of these requirements out$/m,
  );
  assert.equal(status, 2);
});

describeAuth('tokens of teams, as docs/plugins.md shows them', async (_t, own) => ({
  auth: await madeBy('auth', { own: own('own') }, { tokens: 'red blue' }),
  allowed: ['Bearer red', 'Bearer blue', 'Bearer own'],
}));

describeCodec('a codec that tells what is slow, as docs/plugins.md shows it', async (_t, own) =>
  madeBy('codec', { own: own(), clock: systemClock, log: new RecordingLogger() }, { ms: 0 }),
);

const log = new RecordingLogger();
let shared: Execution | undefined;
const pools: ExecutorPool[] = [];
async function slowMessages(): Promise<Execution> {
  const own = new ExecutorPool(
    { policy: POLICY, clock: systemClock, log },
    { executors: 1, wasmStackBytes: STACK_BYTES },
  );
  pools.push(own);
  return madeBy('execution', { own, clock: systemClock, log }, { ms: 1000 });
}
// Threads of executors do not keep a process alive.
const alive = setInterval(() => undefined, 1000);
after(async () => {
  clearInterval(alive);
  for (const pool of pools) await pool.close();
});
describeExecution('an execution that tells what is slow, as docs/plugins.md shows it', async (_t, isOwn) => ({
  execution: isOwn ? await slowMessages() : (shared ??= await slowMessages()),
}));

describeGateway('websites that are not listed, as docs/plugins.md shows them', async (_t, { own }) =>
  madeBy('gateway', { own: own() }),
);
describeInspector('a page with a name, as docs/plugins.md shows it', async (_t, own) =>
  madeBy('inspector', { own: own() }),
);
describeManifest('a folder of modules, as docs/plugins.md shows it', async (_t, own) =>
  madeBy('manifest', { own: await own() }, { folder: join(directory, 'modules') }),
);
describeMetering('double prices, as docs/plugins.md shows them', async (_t, own) => madeBy('metering', { own: own() }));
describeMetrics('numbers with the load, as docs/plugins.md shows them', async (_t, own) =>
  madeBy('metrics', { own: own() }),
);
describeMopsClosures('published sources, as docs/plugins.md shows them', async (_t, _project, own) =>
  madeBy('mops-closures', { own: own() }, { folder: 'src' }),
);
describeOpenApi('a public address, as docs/plugins.md shows it', async (_t, own) =>
  madeBy('openapi', { own: own() }, { url: 'https://a.example' }),
);
const slowAnswers = await definitionFor('scheduler');
describeScheduler('a scheduler that tells what is late, as docs/plugins.md shows it', (_t, parts) => {
  const own = new RoundScheduler(parts, { ...parts, liveBytes: 0, queryInstructionsMax: 1_000_000 });
  const scheduler = slowAnswers.create({ own, clock: parts.clock, log }, { config: { ms: 0 } } as never);
  return { scheduler: scheduler as RoundScheduler, begin: () => own.beginTicking(), drain: () => own.drain() };
});
// The page also has the test of this one.
await madeBy('outcalls', { own: undefined, clock: systemClock }, { seconds: 1, answers: 1 });
await import(pathToFileURL(join(directory, 'cached-outcalls.test.js')).href);
