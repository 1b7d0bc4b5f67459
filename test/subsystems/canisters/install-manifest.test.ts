import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ManifestAssets } from '../../../subsystems/canisters/manifest-assets.ts';
import { installManifest } from '../../../subsystems/canisters/install-manifest.ts';
import type { CanisterRecord } from '../../../subsystems/canisters/canister-record.ts';
import type { CompiledActor } from '../../../subsystems/compiler/index.ts';
import { CanisterIds } from '../../../subsystems/ic/index.ts';
import type { ManifestActor } from '../../../subsystems/manifest/index.ts';
import { RecordingLogger } from '../../support/kernel.ts';

const COMPILED: CompiledActor = {
  wasm: new Uint8Array(),
  candid: 'service : {}',
  stableTypes: '',
  isCached: false,
  warnings: [],
};

/** Makes actors from sources, one of which is being compiled, and a log of their changes. */
function scene(names: readonly string[]) {
  const abort = new AbortController();
  const compiling = Promise.withResolvers<CompiledActor>();
  const placed: string[] = [];
  const rejected: string[] = [];
  const actors = names.map((name): ManifestActor => ({
    name,
    source: { kind: 'main', file: `/nowhere/${name}.mo` },
    candidFile: undefined,
    args: undefined,
    cycles: undefined,
    env: new Map(),
    hasCertificate: false,
  }));
  const unused = (): never => assert.fail('nobody asks for it');
  const installing = installManifest(
    {
      canisters: {
        place: async (name) => {
          placed.push(name);
          return {} as Partial<CanisterRecord> as CanisterRecord;
        },
        named: () => undefined,
        isRejected: () => false,
        upgrade: unused,
        giveFacts: unused,
        changeSettings: unused,
      },
      ids: new CanisterIds(),
      manifest: { read: async () => actors },
      compiler: { compile: () => compiling.promise, sourcesOf: unused },
      execution: { prepare: unused, expect: () => undefined },
      log: new RecordingLogger(),
      assets: new ManifestAssets({
        folders: { check: unused, deploy: unused, foldersOf: unused },
        messages: { call: unused },
        named: () => undefined,
      }),
      signal: abort.signal,
      share: async () => undefined,
    },
    () => undefined,
    (name) => rejected.push(name),
  );
  return { abort, compiling, installing, placed, rejected };
}

test('a stop does not wait for what is being compiled, and installs nothing more', async () => {
  const { abort, compiling, installing, placed, rejected } = scene(['a', 'b']);
  await nextTurn();
  abort.abort();
  await installing;
  compiling.resolve(COMPILED);
  await nextTurn();
  assert.deepEqual([placed, rejected], [[], []]);
});

test('what was compiled in the moment of the stop is not installed', async () => {
  const { abort, compiling, installing, placed } = scene(['a', 'b']);
  await nextTurn();
  compiling.resolve(COMPILED);
  abort.abort();
  await installing;
  assert.deepEqual(placed, []);
});

test('without a stop all are installed', async () => {
  const { compiling, installing, placed } = scene(['a', 'b']);
  compiling.resolve(COMPILED);
  await installing;
  assert.deepEqual(placed, ['a', 'b']);
});
