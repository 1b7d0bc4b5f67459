/** The plugins of a whole host without its HTTP server, and their configuration. */
import assert from 'node:assert/strict';
import { loadConfig } from '../../config/load.ts';
import type { KernelOptions } from '../../kernel/index.ts';
import { builtinPlugins } from '../../plugins/index.ts';

/** Returns what a kernel is made of. `directory` is where paths in `argv` start. */
export async function hostOf(
  argv: readonly string[],
  directory: string,
): Promise<Required<Pick<KernelOptions, 'plugins' | 'config'>>> {
  const request = await loadConfig({
    argv,
    environment: {},
    pluginNames: builtinPlugins.map(({ name }) => name),
    version: '0.0.0',
    build: 'test',
    directory,
  });
  assert.ok(request.kind === 'serve');
  return { plugins: builtinPlugins.filter(({ name }) => name !== 'http'), config: { ...request.config } };
}
