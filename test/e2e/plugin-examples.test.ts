/** docs/plugins.md: each plugin that the page shows for a part of the server serves in a real one, and passes that part's suite. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { describeOutcalls } from '../../plugins/api/contracts/outcalls.ts';
import type { PluginDefinition } from '../../plugins/api/definition.ts';
import { loadPlugins } from '../../plugins/loader/index.ts';
import { builtinPlugins } from '../../plugins/index.ts';
import { systemClock } from '../../kernel/index.ts';
import { HostOutcalls } from '../../subsystems/outcalls/host-outcalls.ts';
import { listingsOf } from '../support/doc-listings.ts';
import { startOutsideServer } from '../support/outside-server.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** The page's example for each part. */
const EXAMPLES = {
  metering: 'double-prices.js',
  outcalls: 'cached-outcalls.js',
} as const;

const directory = await temporaryDirectory();
for (const { file, text } of [...(await listingsOf('plugins')).values()].flat())
  if (file !== undefined) await writeFile(join(directory, file), text);

function example(file: string): { readonly main: string } {
  return { main: join(ROOT, `config/examples/${file}.mo`) };
}

/** What the example makes of the server's own. */
async function madeBy<T>(capability: keyof typeof EXAMPLES, granted: object, config: object = {}): Promise<T> {
  const found = await loadPlugins([{ capability, module: `./${EXAMPLES[capability]}` }], {
    directory,
    builtin: builtinPlugins,
  });
  assert.deepEqual(found.problems, []);
  const definition: PluginDefinition | undefined = found.loaded[0]?.definition;
  assert.ok(definition !== undefined);
  return definition.create(granted as never, { config } as never) as T;
}

describe('the examples of docs/plugins.md, in one server', { timeout: 300_000 }, () => {
  const ends: (() => Promise<void>)[] = [];
  let server: RunningServer;
  before(async () => {
    server = await startServer(
      { after: (end) => void ends.push(end) },
      {
        directory,
        manifest: JSON.stringify({
          actors: { counter: example('counter/Counter'), fetcher: example('fetcher/Fetcher') },
        }),
        args: [
          ...Object.entries(EXAMPLES).flatMap(([capability, file]) => ['--plugin', `${capability}=./${file}`]),
          '--cycles',
          '1000000000',
          '--instruction-limit',
          '20000000',
        ],
      },
    );
  });
  after(async () => {
    for (const end of ends) await end();
  });

  test('metering: a message costs twice as much, and the flags of the own metering are obeyed', async () => {
    const balance = BigInt((await server.get('/cycles/counter')).body);
    assert.ok(balance <= 1_000_000_000n && balance > 900_000_000n, `--cycles is obeyed: ${balance}`);
    await server.post('/call-json/counter/inc');
    const [{ instructions, cycles }] = (
      JSON.parse((await server.get('/history/counter')).body) as readonly {
        readonly instructions: number;
        readonly cycles: number;
      }[]
    ).slice(-1) as [{ readonly instructions: number; readonly cycles: number }];
    assert.equal(cycles, 2 * 590_000 + Math.ceil((instructions * 8) / 10));
    assert.equal(BigInt((await server.get('/cycles/counter')).body), balance - BigInt(cycles));
  });

  test('outcalls: the same is asked once, something else is asked', async (t) => {
    const outside = await startOutsideServer(t);
    const fetched = async (path: string): Promise<string> =>
      (await server.post('/call-json/fetcher/fetch', JSON.stringify([outside.origin + path]))).body;
    for (let calls = 0; calls < 3; calls++) assert.match(await fetched('/json/7'), /\\"n\\":7/);
    assert.match(await fetched('/json/8'), /\\"n\\":8/);
    for (let calls = 0; calls < 2; calls++) assert.match(await fetched('/status/404'), /404/);
    assert.deepEqual(
      outside.received.map(({ target }) => target),
      ['/json/7', '/json/8', '/status/404', '/status/404'],
    );
  });
});

describeOutcalls('outcalls with a cache, as docs/plugins.md shows them', async (t) => {
  const own = new HostOutcalls({ denyPrivate: false, recordFile: undefined, replayFile: undefined });
  t.after(() => own.close());
  return madeBy('outcalls', { own, clock: systemClock }, { seconds: 60, answers: 100 });
});
