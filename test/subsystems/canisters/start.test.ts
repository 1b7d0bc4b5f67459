/** Requirements of the canisters' start. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../../../config/load.ts';
import { PluginError } from '../../../kernel/index.ts';
import { builtinPlugins } from '../../../plugins/index.ts';
import { createTestKernel } from '../../support/kernel.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

for (const isKept of [false, true]) {
  test(`a host without a management canister does not start, ${isKept ? 'with' : 'without'} a state directory`, async (t) => {
    const directory = await temporaryDirectory();
    const request = await loadConfig({
      argv: ['--executors', '1', ...(isKept ? ['--state', directory] : [])],
      environment: {},
      pluginNames: builtinPlugins.map(({ name }) => name),
      version: '0.0.0',
      build: 'test',
      directory,
    });
    assert.ok(request.kind === 'serve');
    const without = ['http', 'metrics', 'management', 'ic-facade', 'agents'];
    const plugins = builtinPlugins.filter(({ name }) => !without.includes(name));
    const kernel = createTestKernel(t, plugins, {
      config: { ...request.config },
      disabled: new Set(['manifest', 'compiler']),
    });
    await assert.rejects(kernel.start(), (error) => {
      assert.ok(error instanceof PluginError);
      assert.equal(
        error.message,
        "plugin 'canisters' could not start: the management canister was not handed over before the start",
      );
      return true;
    });
  });
}
