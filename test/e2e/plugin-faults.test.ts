/** Uncaught exceptions of external plugins end the server, and its last line names the plugin. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { cp, mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { assertShows, listingsOf } from '../support/doc-listings.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const LEAKY = join(ROOT, 'test/fixtures/plugins/leaky.js');
const HEAD = `the server ends because of a bug of plugin 'leaky' (${LEAKY}): `;
const EMPTY = JSON.stringify({ actors: {} });

/** Returns the exit code, and the last line that the server has printed, without time and level. */
async function endOf({ process: child, output }: RunningServer): Promise<readonly [number | null, string]> {
  if (child.exitCode === null) await once(child, 'close');
  return [child.exitCode, messageIn(output.stderr)];
}

function messageIn(stderr: string): string {
  const last = stderr.trimEnd().split('\n').at(-1) ?? '';
  if (last.startsWith('{')) return (JSON.parse(last) as { readonly message: string }).message;
  return last.replace(/^\S+ \S+ error: /, '');
}

function leaky(t: TestContext, args: readonly string[] = []): Promise<RunningServer> {
  return startServer(t, { manifest: EMPTY, args: ['--plugin', `leaky=${LEAKY}`, ...args] });
}

describe('a fault of a plugin that nobody catches', { timeout: 300_000 }, () => {
  const rejected = 'nobody handles the rejected promise: ';
  const thrown = 'nobody catches the exception: ';
  for (const [leak, text] of [
    ['rejection', `${rejected}Error: out of luck`],
    ['timer', `${thrown}TypeError: Cannot read properties of undefined (reading 'property')`],
    ['event', `${thrown}Error: nobody listens`],
    ['text', `${rejected}'a text' was thrown`],
    ['nothing', `${thrown}undefined was thrown`],
    ['file', `${rejected}Error: ENOENT: no such file or directory, open '/no/such/file'`],
    ['socket', `${thrown}Error: connect ECONNREFUSED 127.0.0.1:1`],
    ['hostile', `${rejected}what was thrown cannot be shown`],
  ] as const)
    test(`in a route, ${leak}: its last line names the plugin`, async (t) => {
      const server = await leaky(t, leak === 'timer' ? ['--log-json'] : []);
      await server.get(`/x/leaky/${leak}`).catch(() => undefined);
      assert.deepEqual(await endOf(server), [1, HEAD + text]);
      if (leak !== 'rejection') return;
      const [shown] = (await listingsOf('plugins')).get('What nobody catches') ?? [];
      assertShows(server.output.stderr.trimEnd().split('\n').at(-1) ?? '', shown?.text ?? 'nothing is shown');
    });

  test('one at the start, and an operating error, which is no bug', async (t) => {
    // The server may be ready before.
    const said = await leaky(t, ['--plugin-option', 'leaky.at-start=text']).then(
      async (server) => (await endOf(server))[1],
      ({ message }: Error) => messageIn(message),
    );
    assert.equal(said, `${HEAD}${rejected}'a text' was thrown`);
    const server = await leaky(t);
    await server.get('/x/leaky/operating').catch(() => undefined);
    assert.deepEqual(await endOf(server), [
      1,
      `the server ends: the disk of the plugin is full; thrown by plugin 'leaky' (${LEAKY})`,
    ]);
  });

  test('of a package, in what the server calls: the stack tells it from the other plugin', async (t) => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'node_modules'));
    await cp(join(ROOT, 'test/fixtures/plugins/leaky-package'), join(directory, 'node_modules/leaky-package'), {
      recursive: true,
    });
    const server = await startServer(t, {
      directory,
      manifest: JSON.stringify({ actors: { fetcher: { main: join(ROOT, 'config/examples/fetcher/Fetcher.mo') } } }),
      args: ['--plugin', 'outcalls=leaky-package', '--plugin', `leaky=${LEAKY}`],
    });
    await server.post('/call-json/fetcher/fetch', '["http://127.0.0.1:1/"]').catch(() => undefined);
    const file = join(directory, 'node_modules/leaky-package/lib/index.js');
    assert.deepEqual(await endOf(server), [
      1,
      `the server ends because of a bug of plugin 'leaky-outcalls' (${file}): ${rejected}TypeError: the promise was forgotten`,
    ]);
    assert.match(server.output.stderr, /at .*leaky-package\/lib\/leak\.js:4:\d+/, 'the stack stands before it');
  });
});
