import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { messageOf } from '../../../kernel/index.ts';
import { candidTextOf, ManifestModules } from '../../../subsystems/canisters/manifest-modules.ts';
import { principalToText } from '../../../subsystems/ic/index.ts';
import { createCompiler } from '../../../subsystems/compiler/motoko-compiler.ts';
import type { ModuleInfo } from '../../../subsystems/execution/index.ts';
import { RecordingLogger } from '../../support/kernel.ts';
import { MOTOKO_CACHE } from '../../support/caches.ts';

const CALLS = (name: string): string =>
  `import Other "canister:${name}"; persistent actor { public func go() : async Nat { await Other.go() } }`;
const LEAF = 'persistent actor { public func go() : async Nat { 7 } }';

interface Project {
  /** Returns the module of the actor with this name. */
  readonly moduleOf: (name: string) => Promise<Uint8Array>;
  readonly folder: string;
  /** Names of the compiled actors, in order. */
  readonly compiled: readonly string[];
}

/** Makes actors from sources (`.mo`), or from modules whose interface is given as text. */
async function project(
  t: TestContext,
  sources: Readonly<Record<string, string | { readonly carries?: string; readonly candid?: string }>>,
): Promise<Project> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-modules-'));
  const compiled: string[] = [];
  const compiler = createCompiler({
    cacheDirectory: MOTOKO_CACHE,
    processesMax: 1,
    onProgress: ({ phase, name }) => {
      if (phase === 'compiled') compiled.push(name);
    },
  });
  t.after(async () => {
    await compiler.close();
    await rm(folder, { recursive: true });
  });
  const carried = new Map<string, string>();
  const actors = await Promise.all(
    Object.entries(sources).map(async ([name, source]) => {
      const nothing = { candidFile: undefined, args: undefined, cycles: undefined, env: new Map<string, string>() };
      if (typeof source === 'string') {
        const file = join(folder, `${name}.mo`);
        await writeFile(file, source);
        return { ...nothing, name, source: { kind: 'main', file } as const };
      }
      const file = join(folder, `${name}.wasm`);
      await writeFile(file, `module of ${name}`);
      if (source.carries !== undefined) carried.set(`module of ${name}`, source.carries);
      const candidFile = source.candid === undefined ? undefined : join(folder, `${name}.did`);
      if (candidFile !== undefined) await writeFile(candidFile, source.candid ?? '');
      return { ...nothing, name, candidFile, source: { kind: 'wasm', file } as const };
    }),
  );
  const names = Object.keys(sources);
  const principalOf = (name: string): string =>
    principalToText(Uint8Array.of(0x80, 0, 0, 0, 0, 0x10, 0, names.indexOf(name) + 1, 1, 1));
  const execution = {
    prepare: async (bytes: Uint8Array) =>
      ({ candid: carried.get(Buffer.from(bytes).toString()) }) as Partial<ModuleInfo> as ModuleInfo,
    expect: () => undefined,
  };
  const modules = new ManifestModules({ compiler, execution, log: new RecordingLogger(), actors, principalOf });
  return {
    folder,
    compiled,
    async moduleOf(name) {
      const actor = actors.find((known) => known.name === name);
      assert.ok(actor);
      return modules.moduleOf(actor);
    },
  };
}

test('an actor that is imported is compiled before the one that imports it, each once', async (t) => {
  const { moduleOf, compiled } = await project(t, { first: CALLS('second'), second: CALLS('third'), third: LEAF });
  await moduleOf('first');
  assert.deepEqual(compiled, ['third', 'second', 'first']);
  await moduleOf('second');
  await moduleOf('third');
  assert.equal(compiled.length, 3);
});

test('a module is imported by the interface it carries, else by its candid file', async (t) => {
  const { moduleOf } = await project(t, {
    carrying: { carries: 'service : { go : () -> (nat) }', candid: 'service : {}' },
    described: { candid: 'service : (text) -> { go : () -> (nat) query }' },
    bare: {},
    a: CALLS('carrying'),
    b: CALLS('described'),
    c: CALLS('bare'),
  });
  await moduleOf('a');
  await moduleOf('b');
  await assert.rejects(
    moduleOf('c'),
    /c\.mo:1\.14-1\.29: import error: actor bare cannot be imported: .*"candid" in the manifest/u,
  );
  assert.equal(Buffer.from(await moduleOf('bare')).toString(), 'module of bare');
});

test('names that the manifest does not have are refused at the place of the import', async (t) => {
  const { moduleOf } = await project(t, { one: `\n${CALLS('tow')}`, two: LEAF });
  await assert.rejects(
    moduleOf('one'),
    /one\.mo:2\.14-2\.28: import error: the manifest has no actor "tow"; it has one, two/u,
  );
});

test('actors that import each other, or themselves, are refused with the whole cycle', async (t) => {
  const { moduleOf } = await project(t, { a: CALLS('b'), b: CALLS('c'), c: CALLS('a'), self: CALLS('self') });
  await assert.rejects(moduleOf('a'), /c\.mo:1\.14-1\.26: import error: actors import each other: a → b → c → a;/u);
  await assert.rejects(moduleOf('c'), /actors import each other: a → b → c → a/u);
  await assert.rejects(moduleOf('self'), /actors import each other: self → self/u);
});

test('actors that are asked for at the same time wait for those that they import, and never for each other', async (t) => {
  const chain = { first: CALLS('second'), second: CALLS('third'), third: LEAF };
  const circle = { a: CALLS('b'), b: CALLS('c'), c: CALLS('a'), aside: CALLS('a') };
  const { moduleOf, compiled } = await project(t, { ...chain, ...circle });
  const endOf = (name: string): Promise<string> => moduleOf(name).then(() => 'compiled', messageOf);
  const ends = await Promise.all([...Object.keys(circle), ...Object.keys(chain)].map(endOf));
  const cycle = /actors import each other: (?:a → b → c → a|b → c → a → b|c → a → b → c);/u;
  for (const end of ends.slice(0, 4)) assert.match(end, cycle);
  assert.deepEqual(ends.slice(4), ['compiled', 'compiled', 'compiled']);
  assert.deepEqual(compiled, ['third', 'second', 'first']);
});

test('an imported actor that does not compile is named with its first error', async (t) => {
  const { moduleOf } = await project(t, { good: CALLS('bad'), bad: 'persistent actor {\n  let x = y }' });
  await assert.rejects(
    moduleOf('good'),
    /good\.mo:1\.14-1\.28: import error: actor bad cannot be imported: .*bad\.mo:2\.11-2\.12: type error/u,
  );
});

test('files that have become something else since the manifest was read are refused at once', async (t) => {
  const { folder, moduleOf } = await project(t, { a: { carries: 'service : {}' } });
  const file = join(folder, 'a.wasm');
  const did = join(folder, 'a.did');
  const candidOf = (): Promise<string | undefined> => candidTextOf({ candidFile: did });
  const refused = (reason: RegExp): object => ({ code: 'manifest-file-unreadable', message: reason });
  for (const [path, read, bytesMax] of [
    [file, () => moduleOf('a'), 192 * 1024 * 1024],
    [did, candidOf, 8 * 1024 * 1024],
  ] as const) {
    const anew = async (make: () => unknown): Promise<void> => {
      await rm(path, { recursive: true, force: true });
      await make();
    };
    await anew(() => execFileSync('mkfifo', [path]));
    await assert.rejects(read(), refused(/: it is not a regular file$/));
    await anew(() => symlink('/dev/zero', path));
    await assert.rejects(read(), refused(/: it is not a regular file$/));
    await anew(() => mkdir(path));
    await assert.rejects(read(), refused(/: it is a folder$/));
    await anew(() => writeFile(path, ''));
    await truncate(path, bytesMax + 1);
    await assert.rejects(read(), refused(new RegExp(`: it has ${bytesMax + 1} bytes, more than ${bytesMax}$`)));
  }
  await writeFile(did, Uint8Array.of(0xff));
  await assert.rejects(candidOf(), refused(/a\.did: it is not UTF-8 text; save it as UTF-8$/));
});
