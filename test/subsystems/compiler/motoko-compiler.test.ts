import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ServerError } from '../../../kernel/index.ts';
import type { CompiledActor, CompileProgress } from '../../../subsystems/compiler/index.ts';
import { createCompiler } from '../../../subsystems/compiler/motoko-compiler.ts';
import type { MotokoCompiler, MotokoCompilerOptions } from '../../../subsystems/compiler/motoko-compiler.ts';
import { MOTOKO_CACHE } from '../../support/caches.ts';
import { ANY_ACTOR, compileMotoko, compileMotokoFile } from '../../support/motoko.ts';
import { startCpuTimer } from '../../support/cpu-timer.ts';

function compiler(t: TestContext, options: Partial<MotokoCompilerOptions> = {}): MotokoCompiler {
  const created = createCompiler({ cacheDirectory: undefined, ...options });
  t.after(() => created.close());
  return created;
}

async function folder(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'svc-compiler-'));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

function sections(wasm: Uint8Array, name: string): readonly string[] {
  const module = new WebAssembly.Module(new Uint8Array(wasm));
  return WebAssembly.Module.customSections(module, name).map((content) => Buffer.from(content).toString());
}

/** Returns the message of a refused compilation. */
async function refusal(compilation: Promise<unknown>): Promise<string> {
  const error = await compilation.then(
    () => assert.fail('it compiled'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof ServerError, String(error));
  assert.equal(error.kind, 'invalid');
  return error.message;
}

test('an actor compiles to a module with its interface and its stable types', async () => {
  const { wasm, candid, stableTypes, warnings } = await compileMotoko(ANY_ACTOR);
  assert.match(candid, /inc: \(\) -> \(nat\);/u);
  assert.match(stableTypes, /stable var n : Nat/u);
  assert.deepEqual(warnings, []);
  assert.deepEqual(sections(wasm, 'icp:private candid:service'), [candid]);
  assert.deepEqual(sections(wasm, 'icp:private motoko:stable-types'), [stableTypes]);
  assert.equal(sections(wasm, 'icp:private enhanced-orthogonal-persistence').length, 1);
});

test('both persistence modes compile in any order, and the bytes depend on the source alone', async (t) => {
  const one = compiler(t, { processesMax: 1, isKeptWarm: true });
  const files = new Map([['Main.mo', ANY_ACTOR]]);
  // From here on each compilation finds an instance that was made in advance for it alone.
  assert.match(await refusal(one.compileText(new Map([['Main.mo', 'actor {']]))), /syntax error/u);
  const classical = await one.compileText(files, { persistence: 'classical' });
  const enhanced = await one.compileText(files);
  assert.equal(sections(classical.wasm, 'icp:private enhanced-orthogonal-persistence').length, 0);
  assert.equal(sections(enhanced.wasm, 'icp:private enhanced-orthogonal-persistence').length, 1);
  // The helper's module may come from another run, another thread, another order.
  assert.deepEqual(enhanced.wasm, (await compileMotoko(ANY_ACTOR)).wasm);
  assert.deepEqual(classical.wasm, (await compileMotoko(ANY_ACTOR, { persistence: 'classical' })).wasm);
});

test('imports of files, of folders and of mo:core are compiled in', async () => {
  const { candid } = await compileMotoko({
    'src/Main.mo': `
      import Lib "./Lib"; import Shapes "../shapes"; import Map "mo:core/Map"; import Text "mo:core/Text";
      persistent actor { let m = Map.empty<Text, Shapes.Shape>();
        public func put(k : Text) : async Nat { Map.add(m, Text.compare, k, Lib.shape()); Map.size(m) };
        public query func get(k : Text) : async ?Shapes.Shape { Map.get(m, Text.compare, k) } };`,
    'src/Lib.mo': 'import Shapes "../shapes/lib"; module { public func shape() : Shapes.Shape { #dot } };',
    'shapes/lib.mo': 'module { public type Shape = { #dot; #box : Nat } };',
  });
  assert.match(candid, /box: nat;/u);
  assert.match(candid, /get: \(k: text\) -> \(opt Shape\) query/u);
});

test('documentation in the source keeps its characters in the interface', async () => {
  const { candid } = await compileMotoko('persistent actor {\n/// Grüße 😀\npublic func hi() : async () {} };');
  assert.match(candid, /hi: \(\) -> \(\)/u);
  assert.doesNotMatch(candid, /Ã|â/u);
});

test('errors name file, line and column and show the line with a caret', async (t) => {
  const root = await folder(t);
  await writeFile(
    join(root, 'Main.mo'),
    'import L "lib";\npersistent actor { public func f() : async Text { L.x() } };',
  );
  await mkdir(join(root, 'lib'));
  await writeFile(join(root, 'lib', 'lib.mo'), 'module {\n\tpublic func x() : Text { "é" # y };\n}');
  const message = await refusal(compiler(t).compile(join(root, 'Main.mo')));
  assert.equal(
    message,
    `${root}/Main.mo does not compile (1 error)
${root}/lib/lib.mo:2.33-2.34: type error [M0057] unbound variable y
   2 |     public func x() : Text { "é" # y };
     |                                    ^`,
  );
});

test('paths below the current directory are shown relative to it', async () => {
  const here = fileURLToPath(new URL('../../fixtures/motoko/Broken.mo', import.meta.url));
  assert.match(await refusal(compileMotokoFile(here)), /^test\/fixtures\/motoko\/Broken\.mo does not compile/u);
});

test('unresolved imports and unknown modules of mo:core are refused by name and place', async () => {
  assert.equal(
    await refusal(
      compileMotoko({ 'File.mo': '\n\nimport B "mo:foo/Bar"; import C "canister:c";\npersistent actor {}' }),
    ),
    `File.mo does not compile (2 errors)
File.mo:3.10-3.22: import error: no mops.toml says where the package foo is
   3 | import B "mo:foo/Bar"; import C "canister:c";
     |          ^^^^^^^^^^^^
File.mo:3.33-3.45: import error: there is no actor "c" to import
   3 | import B "mo:foo/Bar"; import C "canister:c";
     |                                 ^^^^^^^^^^^^`,
  );
  assert.match(
    await refusal(compileMotoko('import T "mo:core/text"; persistent actor {}')),
    /:1\.10-1\.24: import error: mo:core has no module text; did you mean "mo:core\/Text"\?/u,
  );
  assert.match(
    await refusal(compileMotoko({ 'A.mo': 'import B "B"; persistent actor {}', 'B.mo': 'import C "B"; module {}' })),
    /B\.mo:1\.10-1\.13: import error: import cycle: B\.mo → B\.mo/u,
  );
});

test('a main file without an actor is refused', async () => {
  assert.match(
    await refusal(compileMotoko('module { public let x = 1 }')),
    /Main\.mo holds no actor; .*persistent actor/u,
  );
});

test('garbage is refused with a short message, and the compiler goes on', async (t) => {
  const one = compiler(t, { processesMax: 1 });
  const text = (source: string): Promise<unknown> => one.compileText(new Map([['G.mo', source]]));
  for (const source of ['\u0000\u0001\ufffd'.repeat(100_000), '"'.repeat(100_001), '{'.repeat(500)]) {
    const message = await refusal(text(source));
    assert.match(message, /G\.mo:1\.\d+(-1\.\d+)?: syntax error/u);
    assert.ok(message.length < 2000);
  }
  const deep = `persistent actor { public func f() : async () { ${'?'.repeat(50_000)}1 } }`;
  assert.match(await refusal(text(deep)), /nested too deeply/u);
  assert.match(await refusal(text('persistent actor { let x : Nat = "" }')), /G\.mo:1\.34-1\.36: type error/u);
});

test('a compilation that takes too long is stopped, and the one that waited behind it runs', async (t) => {
  // A busy machine takes longer for the first compilation of a process, too.
  const startMs = performance.now();
  await refusal(compiler(t, { processesMax: 1 }).compileText(new Map([['First.mo', 'actor']])));
  const timeLimitMs = Math.max(2000, Math.ceil(4 * (performance.now() - startMs)));
  const one = compiler(t, { processesMax: 1, timeLimitMs });
  // Explaining a syntax error, the compiler looks at every open bracket for every open bracket.
  const slow = one.compileText(new Map([['Slow.mo', '{'.repeat(100_000)]]));
  const next = one.compileText(new Map([['Next.mo', 'actor']]));
  await Promise.all([
    assert.rejects(slow, {
      code: 'compile-timeout',
      message: new RegExp(`^compiling Slow\\.mo took longer than ${timeLimitMs} ms`),
    }),
    assert.rejects(next, { code: 'compile-failed', message: /^Next\.mo does not compile/u }),
  ]);
});

test("a module of the user's cache is kept with the state, too", async (t) => {
  const root = await folder(t);
  const main = join(root, 'Main.mo');
  await writeFile(main, 'persistent actor { public query func f() : async Nat { 1 } };');
  const sharedCacheDirectory = await folder(t);
  const [firstState, state] = [await folder(t), await folder(t)];
  const compiled = async (options: Partial<MotokoCompilerOptions>): Promise<CompiledActor> =>
    compiler(t, options).compile(main);
  const first = await compiled({ sharedCacheDirectory, cacheDirectory: firstState });
  assert.equal(first.isCached, false);
  assert.deepEqual(await readdir(firstState), await readdir(sharedCacheDirectory));
  assert.deepEqual(await compiled({ sharedCacheDirectory, cacheDirectory: state }), { ...first, isCached: true });
  // The state needs the user's cache no more.
  await rm(sharedCacheDirectory, { recursive: true });
  assert.deepEqual(await compiled({ sharedCacheDirectory: main, cacheDirectory: state }), { ...first, isCached: true });
});

test('a module comes from the cache until its source, a library or its cache entry changes', async (t) => {
  const cacheDirectory = await folder(t);
  const root = await folder(t);
  const main = join(root, 'Main.mo');
  await writeFile(
    main,
    'import L "L"; persistent actor { public query func f() : async Nat { let unused = 5; L.x } };',
  );
  await writeFile(join(root, 'L.mo'), 'module { public let x = 1 };');
  const progress: CompileProgress[] = [];
  const one = compiler(t, { cacheDirectory, onProgress: (line) => progress.push(line) });

  const first = await one.compile(main, { name: 'counter' });
  assert.equal(first.isCached, false);
  // Warnings do not stop a compilation.
  assert.match(
    first.warnings.join(),
    /Main\.mo:1\.74-1\.80: type warning \[M0194\] unused identifier: `unused`\n.*\n.*\^{6}$/u,
  );

  const cpuMs = startCpuTimer();
  const second = await compiler(t, { cacheDirectory }).compile(main);
  assert.ok(cpuMs() < 600);
  assert.deepEqual(second, { ...first, isCached: true });

  // The same project elsewhere on the disk is compiled only once.
  await symlink(root, `${root}-moved`);
  t.after(() => rm(`${root}-moved`));
  assert.equal((await one.compile(join(`${root}-moved`, 'Main.mo'))).isCached, true);

  // A corrupted entry is compiled again, and mended.
  const [name = ''] = await readdir(cacheDirectory);
  const bytes = await readFile(join(cacheDirectory, name));
  bytes[bytes.length - 100] = (bytes[bytes.length - 100] ?? 0) ^ 0xff;
  await writeFile(join(cacheDirectory, name), bytes);
  assert.deepEqual(await one.compile(main), first);
  assert.equal((await one.compile(main)).isCached, true);

  await writeFile(join(root, 'L.mo'), 'module { public let x = "now a text" };');
  assert.match(await refusal(one.compile(main)), /type error/u);

  const texts = progress.map(({ text }) => text.replaceAll(/[\d.]+ m?s/gu, 'TIME').replaceAll(/\/.*\//gu, ''));
  assert.deepEqual(texts, [
    'compiling counter (Main.mo) …',
    'compiled counter in TIME',
    'compiled Main in TIME (cached)',
    'compiling Main (Main.mo) …',
    'compiled Main in TIME',
    'compiled Main in TIME (cached)',
    'compiling Main (Main.mo) …',
    'Main does not compile',
  ]);
});

test('a cache that cannot be written is reported once and costs only time', async (t) => {
  const file = join(await folder(t), 'file');
  await writeFile(file, '');
  const reports: string[] = [];
  const one = compiler(t, { cacheDirectory: file, onCacheFailure: (message) => reports.push(message) });
  const compiled = await Promise.all([
    one.compileText(new Map([['A.mo', 'persistent actor {};']])),
    one.compileText(new Map([['A.mo', 'persistent actor {};']])),
  ]);
  // The same source at the same time is compiled once.
  assert.equal(compiled[0].wasm, compiled[1].wasm);
  assert.equal(reports.length, 1);
  assert.match(reports[0] ?? '', /^compiled modules are not kept: /u);
});

test('closing gives up what is being compiled and refuses what comes later', async () => {
  const progress: CompileProgress['phase'][] = [];
  const one = createCompiler({ cacheDirectory: undefined, onProgress: ({ phase }) => progress.push(phase) });
  const running = one.compileText(new Map([['Main.mo', ANY_ACTOR]]));
  const waiting = assert.rejects(running, { code: 'compiler-closed', kind: 'unavailable' });
  setTimeout(() => void one.close(), 100);
  await waiting;
  await one.close();
  await assert.rejects(one.compileText(new Map([['Main.mo', ANY_ACTOR]])), { code: 'compiler-closed' });
  assert.ok(progress.includes('compiling'));
  assert.ok(!progress.includes('failed'), 'nobody is told that it does not compile');
});

test('an idle compiler does not keep the process alive', async () => {
  const url = new URL('../../../subsystems/compiler/motoko-compiler.ts', import.meta.url).href;
  const program = `import { createCompiler } from ${JSON.stringify(url)};
    const compiler = createCompiler({ cacheDirectory: undefined, idleMs: 600_000 });
    await compiler.compileText(new Map([['A.mo', 'actor {']])).catch((error) => console.log(error.code));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], {
    timeout: 20_000,
  });
  assert.equal(stdout, 'compile-failed\n');
});

test('text compiles without a file, and what is no program is refused', async (t) => {
  const direct = compiler(t, { cacheDirectory: MOTOKO_CACHE, idleMs: 0 });
  const compiled = await direct.compileText(new Map([['Main.mo', ANY_ACTOR]]), { persistence: 'classical' });
  assert.ok(WebAssembly.validate(new Uint8Array(compiled.wasm)));
  assert.match(await refusal(direct.compileText(new Map([['Main.mo', 'actor']]))), /syntax error/u);
});

test('a failure says that mops.lock was not used, whoever finds the failure', async (t) => {
  const one = compiler(t);
  const stale =
    /\nmops\.lock: it is stale and was not used: its version is 2, and not 3 .*; run mops install, [^\n]*$/u;
  for (const main of ['import B "mo:b"; actor {}', 'import A "mo:a"; persistent actor { let n : Nat = "a" }']) {
    const files = new Map([
      ['Main.mo', main],
      ['mops.toml', '[dependencies]\na = "./a"\n'],
      ['a/src/lib.mo', 'module {}'],
      ['mops.lock', '{"version":2}'],
    ]);
    const message = await refusal(one.compileText(files));
    assert.match(message, /^Main\.mo does not compile \(1 error\)\nMain\.mo:1/u);
    assert.match(message, stale);
    files.delete('mops.lock');
    assert.doesNotMatch(await refusal(one.compileText(files)), /mops\.lock/u);
  }
});

test('the example actors compile without warnings', async () => {
  for (const file of ['counter/Counter.mo', 'notes/Notes.mo']) {
    const { warnings, candid } = await compileMotokoFile(
      fileURLToPath(new URL(`../../../config/examples/${file}`, import.meta.url)),
    );
    assert.deepEqual(warnings, []);
    if (file.startsWith('counter')) {
      for (const method of [
        'inc: () -> (nat);',
        'add: (amount: nat) -> (nat);',
        'get: () -> (nat) query;',
        'boom: () -> ();',
        'spin: () -> ();',
      ]) {
        assert.ok(candid.includes(method), `${method} in ${candid}`);
      }
    }
  }
});
