/**
 * An instance of the compiler that has compiled before behaves as a fresh one: `npm run prove -- compilations` tries it
 * in many more orders, and with every source of this repository that needs no other source.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { mocProgramFile, readCorePackage } from '../../../subsystems/compiler/core-package.ts';
import { runMoc } from '../../../subsystems/compiler/moc-instance.ts';
import { scanImports } from '../../../subsystems/compiler/import-scanner.ts';
import { MOC_PROCESSES_DEFAULTS, MocProcesses } from '../../../subsystems/compiler/moc-processes.ts';
import type { CompileRequest, MocResponse, SourceParts } from '../../../subsystems/compiler/moc-protocol.ts';
import { MocState } from '../../../subsystems/compiler/moc-state.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded, type Seeded } from '../../support/seeded.ts';

const program = mocProgramFile();
const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const seeds = new ProofSeeds(1);
const IS_PROOF = seeds.count > 1;

type Request = Omit<CompileRequest, 'kind' | 'program'>;

function request(files: Readonly<Record<string, string>>, more: Partial<Request> = {}): Request {
  const parts: SourceParts = {
    main: 'Main.mo',
    files: new Map(Object.entries(files)),
    blobs: new Map(),
    packages: new Map(),
    actors: [],
  };
  return { ...parts, persistence: 'enhanced', flags: [], collector: undefined, publicMetadata: [], ...more };
}

const core = await readCorePackage();
const OTHER = { name: 'other', principal: 'aaaaa-aa', candid: 'service : { f : (nat) -> (vec blob) query }' };
const LIBRARY =
  'import Bool "mo:core/Bool"; import S "lib/Step"; persistent actor { var last = 0; ' +
  'public func put(n : Nat) : async Text { last := n + S.one; Bool.toText(last > n) } };';

const CASES: Readonly<Record<string, Request>> = {
  plain: request({ 'Main.mo': 'persistent actor { var n = 0; public func inc() : async Nat { n += 1; n } };' }),
  classical: request(
    { 'Main.mo': 'actor { stable var n = 0; public func inc() : async Nat { n += 1; n } };' },
    { persistence: 'classical' },
  ),
  library: request({
    ...Object.fromEntries(core.filesFor(['Bool'])),
    'Main.mo': LIBRARY,
    'lib/Step.mo': 'module { public let one = 1 }',
  }),
  'an imported actor, a package and flags': request(
    {
      'Main.mo':
        'import Other "canister:other"; import Words "mo:words"; actor { public func f() : async [Blob] { ignore Words.say(); await Other.f(1) } };',
      'words/lib.mo': 'module { public func say() : Text { "a" } };',
    },
    {
      actors: [OTHER],
      packages: new Map([['words', 'words']]),
      flags: ['--default-persistent-actors', '-W=M0194', '-A=M0198', '-E=M0236'],
    },
  ),
  'warnings that are errors': request(
    { 'Main.mo': 'persistent actor { let unused = 1; public func f() : async Nat { let y = 3; 2 } };' },
    { flags: ['-Werror', '--hide-warnings'] },
  ),
  'a wrong type': request({ 'Main.mo': 'persistent actor { public func f() : async Nat { "no" + 1 } };' }),
  'a file that another had': request({ 'Main.mo': 'import S "lib/Step"; persistent actor { let _ = S.one };' }),
  'a package that another had': request({ 'Main.mo': 'import W "mo:words"; persistent actor { let _ = W.say() };' }),
  'an actor that another had': request({ 'Main.mo': 'import O "canister:other"; persistent actor { let _ = O.f };' }),
};

/** Yields actors of this repository that import only the library. */
function* ownCases(): Generator<[string, Request]> {
  for (const path of globSync(['config', 'test', 'benchmarks/fixtures'].map((folder) => `${ROOT}/${folder}/**/*.mo`))) {
    const source = readFileSync(path, 'utf8');
    const urls = scanImports(source).map(({ url }) => url);
    if (path.includes('/mops/') || urls.some((url) => !/^mo:(?:core\/|⛔|prim)/u.test(url))) continue;
    const modules = urls.filter((url) => url.startsWith('mo:core/')).map((url) => url.slice('mo:core/'.length));
    const files = { ...Object.fromEntries(core.filesFor(modules)), 'Main.mo': source };
    for (const persistence of ['enhanced', 'classical'] as const)
      yield [`${path.slice(ROOT.length)}, ${persistence}`, request(files, { persistence })];
  }
}

function shuffled(names: readonly string[], random: Seeded): readonly string[] {
  const left = [...names];
  return names.flatMap(() => left.splice(random.below(left.length), 1));
}

/** Returns the output of a compilation, module included. */
function shown(response: MocResponse): unknown {
  return response.kind === 'compiled' ? { ...response, wasm: Buffer.from(response.wasm).toString('base64') } : response;
}

/** Compiles with an instance that has done nothing: in the long form in a process that has done nothing, either. */
async function compileAlone(each: Request): Promise<MocResponse> {
  if (IS_PROOF) return await inOneProcess((compile) => compile(each));
  // The response is copied, since each instance has arrays of its own V8 context.
  return structuredClone(runMoc({ kind: 'compile', program, ...each }));
}

async function inOneProcess<T>(
  work: (compile: (request: Request) => Promise<MocResponse>, processes: MocProcesses) => Promise<T>,
): Promise<T> {
  const processes = new MocProcesses({ ...MOC_PROCESSES_DEFAULTS, processesMax: 1 });
  try {
    return await work((each) => processes.run({ kind: 'compile', program, ...each }), processes);
  } finally {
    await processes.close();
  }
}

test('what objects were is put back: items, fields, and what is behind them', () => {
  const inner = [1, 2];
  const bytes = Uint8Array.of(1, 2);
  const files: Record<string, unknown> = { a: inner, b: 'kept' };
  let count: unknown = 1;
  const values = [[0, files] as unknown[], inner, 5, null, bytes] as const;
  const state = new MocState({ values, get: () => [count], set: ([before]) => (count = before) });
  for (let round = 0; round < 2; round++) {
    inner.push(3);
    inner[0] = 9;
    delete files['b'];
    files['c'] = 1;
    bytes[1] = 7;
    values[0][1] = { another: true };
    count = { another: true };
    state.restore();
    assert.deepEqual(values, [[0, { a: [1, 2], b: 'kept' }], [1, 2], 5, null, Uint8Array.of(1, 2)]);
    assert.deepEqual([count, values[0][1] === files], [1, true]);
  }
});

test('an instance that has compiled others, or read some, compiles as one that has done nothing', async () => {
  const cases = new Map([...Object.entries(CASES), ...(IS_PROOF ? ownCases() : [])]);
  const expected = new Map<string, unknown>();
  for (const [name, each] of cases) expected.set(name, shown(await compileAlone(each)));
  const kinds = [...expected.values()].map((each) => (each as MocResponse).kind);
  for (const kind of ['compiled', 'refused'] as const)
    assert.ok(kinds.filter((each) => each === kind).length > 3, kind);
  for (const seed of seeds) {
    const random = seeded(seed);
    await inOneProcess(async (compile, processes) => {
      const names = shuffled([...cases.keys()], random);
      for (const name of [...names, ...names.slice(0, 3)]) {
        const other = cases.get(names[random.below(names.length)] ?? assert.fail());
        if (random.oneIn(3)) await processes.run({ kind: 'warm', program, like: other });
        // Parses whole files, right and wrong ones, with the instance that compiles next.
        if (random.oneIn(2))
          await processes.run({ kind: 'imports', program, texts: [...(other?.files.values() ?? []), 'import "'] });
        const each = cases.get(name) ?? assert.fail(name);
        assert.deepEqual(
          shown(await compile(each)),
          expected.get(name),
          `seed ${seed}: ${name}, in ${names.join(' | ')}`,
        );
      }
    });
  }
});

test('one that the compiler gave up on is not used again', async () => {
  const deep = request({
    'Main.mo': `persistent actor { public func f() : async () { ${'?'.repeat(50_000)}1 } }`,
  });
  const plain = CASES['plain'] ?? assert.fail();
  await inOneProcess(async (compile, processes) => {
    const first = shown(await compile(plain));
    assert.equal((await compile(deep)).kind, 'crashed');
    assert.deepEqual(shown(await compile(plain)), first);
    assert.deepEqual(await processes.run({ kind: 'warm', program, like: deep }), { kind: 'warm' });
    assert.deepEqual(shown(await compile(plain)), first);
  });
});
