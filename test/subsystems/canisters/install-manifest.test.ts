import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ManifestAssets } from '../../../subsystems/canisters/manifest-assets.ts';
import { installManifest } from '../../../subsystems/canisters/install-manifest.ts';
import type { CanisterRecord } from '../../../subsystems/canisters/canister-record.ts';
import type { CompiledActor } from '../../../subsystems/compiler/index.ts';
import type { ModuleInfo } from '../../../subsystems/execution/index.ts';
import { CanisterIds } from '../../../subsystems/ic/index.ts';
import type { ManifestActor } from '../../../subsystems/manifest/index.ts';
import { ServerError } from '../../../kernel/index.ts';
import { RecordingLogger } from '../../support/kernel.ts';

const COMPILED: CompiledActor = {
  wasm: new Uint8Array(),
  candid: 'service : {}',
  stableTypes: '',
  isCached: false,
  warnings: [],
};

/** Makes actors from sources, one of which is being compiled, and a log of their changes. */
function scene(names: readonly string[], placing: Promise<void> = Promise.resolve()) {
  const abort = new AbortController();
  const compiling = Promise.withResolvers<CompiledActor>();
  const placed: string[] = [];
  const rejected: string[] = [];
  const prepared: Uint8Array[] = [];
  const expected: (number | undefined)[] = [];
  const actors = names.map((name): ManifestActor => ({
    name,
    source: { kind: 'main', file: `/nowhere/${name}.mo` },
    candidFile: undefined,
    args: undefined,
    cycles: undefined,
    env: new Map(),
    hasCertificate: false,
  }));
  const log = new RecordingLogger();
  const unused = (): never => assert.fail('nobody asks for it');
  const installing = installManifest(
    {
      canisters: {
        place: async (name) => {
          placed.push(name);
          await placing;
          return {} as Partial<CanisterRecord> as CanisterRecord;
        },
        named: (name) =>
          name === 'there' ? ({ damage: 'any' } as Partial<CanisterRecord> as CanisterRecord) : undefined,
        isRejected: () => false,
        upgrade: unused,
        giveFacts: unused,
        changeSettings: unused,
      },
      rehearsals: { ask: () => undefined },
      ids: new CanisterIds(),
      names: { isShared: false, reserve: unused, shardElsewhere: unused },
      manifest: { read: async () => actors },
      compiler: {
        compile: async (path) => ({ ...(await compiling.promise), wasm: Buffer.from(path) }),
        sourcesOf: unused,
      },
      execution: {
        prepare: async (bytes) => {
          prepared.push(bytes);
          return {} as Partial<ModuleInfo> as ModuleInfo;
        },
        expect: (canisters) => expected.push(canisters),
      },
      log,
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
  return { abort, compiling, installing, placed, rejected, prepared: () => prepared.map(String), expected, log };
}

test('a stop does not wait for what is being compiled, and installs nothing more', async () => {
  const { abort, compiling, installing, placed, rejected, prepared } = scene(['a', 'b']);
  await nextTurn();
  abort.abort();
  await installing;
  compiling.resolve(COMPILED);
  await nextTurn();
  assert.deepEqual([placed, rejected, prepared()], [[], [], []]);
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

test('threads start at once for as many actors as are to come, and for none if all are there', async () => {
  const { expected, abort } = scene(['a', 'there', 'b']);
  await nextTurn();
  abort.abort();
  assert.deepEqual(expected.slice(0, 1), [2]);
  const all = scene(['there']);
  await all.installing;
  assert.deepEqual(all.expected, []);
});

test('modules of the next two actors are prepared while one is being installed', async () => {
  const placing = Promise.withResolvers<void>();
  const { compiling, installing, placed, prepared } = scene(['a', 'b', 'c', 'd'], placing.promise);
  compiling.resolve(COMPILED);
  await nextTurn();
  assert.deepEqual(placed, ['a']);
  assert.deepEqual(prepared(), ['/nowhere/a.mo', '/nowhere/b.mo', '/nowhere/c.mo']);
  placing.resolve();
  await installing;
  assert.deepEqual(prepared().slice(3), ['/nowhere/d.mo']);
});

test('a file is not blamed for a compilation that the stop ends, and is for what is wrong with it', async () => {
  const warnings: number[] = [];
  for (const code of ['compiler-closed', 'does-not-compile']) {
    const { compiling, installing, log } = scene(['there']);
    const comparing = (await installing).compare();
    compiling.reject(new ServerError('unavailable', code, 'any'));
    await comparing;
    warnings.push(log.lines.filter((line) => line.includes('an upgrade of there from its file would fail now')).length);
  }
  assert.deepEqual(warnings, [0, 1]);
});
