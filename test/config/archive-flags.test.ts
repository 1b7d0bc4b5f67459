/** Flags of the archive that contradict others, or that only a state of the server's own can obey. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../../config/load.ts';
import type { ConfiguredPlugin } from '../../config/plugin-options.ts';
import type { PluginDefinition } from '../../plugins/api/definition.ts';
import { builtinPlugins } from '../../plugins/index.ts';

async function load(argv: readonly string[], plugins: readonly ConfiguredPlugin[] = []) {
  return loadConfig({
    argv: [...argv, ...plugins.flatMap(({ capability, module }) => ['--plugin', `${capability}=${module}`])],
    environment: {},
    pluginNames: builtinPlugins.map(({ name }) => name),
    version: '0.1.0',
    build: 'dev',
    directory: '/srv',
    loadPlugins: async () => Promise.resolve({ loaded: plugins, problems: [] }),
  });
}

async function problemsOf(argv: readonly string[], plugins: readonly ConfiguredPlugin[] = []): Promise<string> {
  const request = await load(argv, plugins);
  return request.kind === 'refused' ? request.problems.join('\n') : request.kind;
}

test('a storage from outside keeps its own history: both flags are refused, with a pointer to it', async () => {
  const definition = { name: 'storage-postgres', isDurable: true, restore: () => undefined } as unknown;
  const plugin: ConfiguredPlugin = {
    capability: 'storage',
    module: 'svc/storage-postgres',
    definition: definition as PluginDefinition,
    replaces: 'storage',
    wraps: false,
  };
  for (const flag of ['--archive', '--restore-archive']) {
    const told = await problemsOf([flag, 'kept'], [plugin]);
    assert.match(told, new RegExp(`${flag}: plugin 'storage-postgres' keeps the state, .* point-in-time recovery`));
  }
});

test('without a state directory, or inside it, there is no archive', async () => {
  for (const flag of ['--archive', '--restore-archive'])
    assert.match(await problemsOf([flag, 'kept']), new RegExp(`${flag} needs --state DIR`));
  for (const inside of ['state', 'state/kept', './state/../state', '/srv/state/a/b'])
    assert.match(
      await problemsOf(['--state', 'state', '--archive', inside]),
      /lies in the directory of --state/,
      inside,
    );
  for (const outside of ['state2', '../state', '/srv/kept', '..state'])
    assert.equal(await problemsOf(['--state', 'state', '--archive', outside]), 'serve', outside);
});

test('paths are absolute, the point is read, and what has no effect is warned of', async () => {
  const flags = ['--state', 's', '--restore-archive', 'kept', '--until', 'time:2026-11-21T20:00:00.5+01:00'];
  const request = await load([...flags, '--archive-days', '7']);
  assert.ok(request.kind === 'serve');
  assert.deepEqual(request.restoreArchive, {
    archive: '/srv/kept',
    directory: '/srv/s',
    until: { kind: 'time', timeMs: Date.parse('2026-11-21T19:00:00.500Z') },
    follows: false,
  });
  assert.deepEqual(request.warnings, ['--archive-days has no effect without --archive DIR']);
});

test('points are refused with what is wrong with them', async () => {
  for (const point of ['', 'now', 'unit:', 'unit:0', 'unit:-1', 'unit:1e3', 'unit:281474976710656', 'time:', 'time:1'])
    assert.match(await problemsOf(['--state', 's', '--restore-archive', 'a', `--until=${point}`]), /--until/, point);
  for (const time of [
    '2026-11-21T20:00:00',
    '2026-02-29T00:00Z',
    '2026-13-01T00:00Z',
    '2026-01-01T25:00Z',
    '2026-01-01',
  ])
    assert.match(
      await problemsOf(['--state', 's', '--restore-archive', 'a', '--until', `time:${time}`]),
      /is no time: write it with its zone/,
      time,
    );
});
