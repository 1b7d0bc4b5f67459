import { principalToText } from '../../../subsystems/ic/index.ts';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ServerError } from '../../../kernel/index.ts';
import type { ManifestActor } from '../../../subsystems/manifest/index.ts';
import { createManifest } from '../../../subsystems/manifest/manifest-file.ts';
import { startCpuTimer } from '../../support/cpu-timer.ts';

/** Makes a folder with some files that manifests name. */
async function project(t: TestContext): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'svc-manifest-'));
  t.after(() => rm(root, { recursive: true, force: true }));
  await mkdir(join(root, 'folder.mo'));
  for (const name of ['Main.mo', 'x.wasm', 'x.wasm.gz', 'x.did']) await writeFile(join(root, name), '');
  await symlink('Main.mo', join(root, 'Linked.mo'));
  await symlink('loop.wasm', join(root, 'loop.wasm'));
  await symlink('none%/a.wasm', join(root, 'gone.wasm'));
  return root;
}

async function read(root: string, content: unknown): Promise<readonly ManifestActor[]> {
  const file = join(root, 'actors.json');
  await writeFile(
    file,
    typeof content === 'string' || content instanceof Uint8Array ? content : JSON.stringify(content),
  );
  return createManifest({ file }).read();
}

/** Returns the message about a refused manifest, without the folder's name. */
async function refusal(root: string, content: unknown): Promise<string> {
  const error = await read(root, content).then(
    () => assert.fail(`accepted ${JSON.stringify(content)}`),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof ServerError, String(error));
  assert.equal(error.kind, 'invalid');
  return error.message.replaceAll(`${root}/`, '');
}

const actor = (members: Readonly<Record<string, unknown>>): unknown => ({
  actors: { a: { wasm: 'x.wasm', ...members } },
});

test('actors are read in order, with absolute paths', async (t) => {
  const root = await project(t);
  const actors = await read(
    root,
    `{ "$schema": "x", "actors": {
        "zeta": { "main": "./Main.mo", "args": [] },
        "__proto__": { "wasm": "${root}/x.wasm.gz", "candid": "x.did", "args": "(record { a = 5 })", "cycles": "5000000000000" },
        "a-1": { "wasm": "folder.mo/../x.wasm", "argsHex": "4449444C0000", "cycles": 5e12, "env": { "A": "ü", "B C": "" }, "certificate": "placeholder" } } }`,
  );
  assert.deepEqual(actors, [
    {
      name: 'zeta',
      source: { kind: 'main', file: `${root}/Main.mo` },
      candidFile: undefined,
      args: { kind: 'json', text: '[]' },
      cycles: undefined,
      env: new Map(),
      hasCertificate: false,
    },
    {
      name: '__proto__',
      source: { kind: 'wasm', file: `${root}/x.wasm.gz` },
      candidFile: `${root}/x.did`,
      args: { kind: 'candid', text: '(record { a = 5 })' },
      cycles: 5_000_000_000_000n,
      env: new Map(),
      hasCertificate: false,
    },
    {
      name: 'a-1',
      source: { kind: 'wasm', file: `${root}/x.wasm` },
      candidFile: undefined,
      args: { kind: 'bytes', bytes: new Uint8Array([0x44, 0x49, 0x44, 0x4c, 0, 0]) },
      cycles: 5_000_000_000_000n,
      env: new Map([
        ['A', 'ü'],
        ['B C', ''],
      ]),
      hasCertificate: true,
    },
  ]);
});

test('arguments stay the text they were written as, large integers and spacing included', async (t) => {
  const args = '[123456789012345678901234567890,\n  { "x" : 1.10 }, "\\u00e9"]';
  const [first] = await read(await project(t), `{ "actors": { "a": { "wasm": "x.wasm", "args": ${args} } } }`);
  assert.deepEqual(first?.args, { kind: 'json', text: args });
});

test('a host may start without actors', async (t) => {
  assert.deepEqual(await read(await project(t), '\ufeff{ "actors": {} }\n'), []);
});

test('all faults are reported together, each with line, column, path and fix', async (t) => {
  const message = await refusal(
    await project(t),
    `{
  "actor": {},
  "actors": {
    "ok": { "wasm": "x.wasm" },
    "9lives": { "mian": "Main.mo" },
    "twice": { "main": "Main.mo", "wasm": "x.wasm", "cycles": -5 },
    "gone": { "wasm": "dist/gone.wasm" },
    "ok": { "main": "Main.mo", "args": [{ "k": 1, "k": 2 }] }
  }
}`,
  );
  assert.equal(
    message,
    `actors.json has 8 problems:
  actors.json:2:3 actor: unknown key; did you mean "actors"?
  actors.json:5:5 actors["9lives"]: a name has 1 to 64 letters, digits, "_" and "-" and starts with a letter or "_"; rename the actor
  actors.json:5:5 actors["9lives"]: has neither "main" (Motoko source) nor "wasm" (a module) nor "assets" (a folder); add one of them
  actors.json:5:17 actors["9lives"].mian: unknown key; did you mean "main"?
  actors.json:6:35 actors.twice: has both "main" and "wasm"; keep the one to serve
  actors.json:6:63 actors.twice.cycles: expected a whole number from 0 to 2^128-1, as a number or a decimal string, not -5
  actors.json:7:23 actors.gone.wasm: there is no file "dist/gone.wasm" (dist/gone.wasm); build it or correct the path
  actors.json:8:5 actors.ok: is a duplicate of the one at actors.json:4:5; remove or rename one`,
  );
});

test('each fault is named with its path', async (t) => {
  const root = await project(t);
  const cases: readonly (readonly [unknown, RegExp])[] = [
    [[], /^actors\.json:1:1: expected an object, not an array; write \{ "actors"/u],
    [{}, /^actors\.json:1:1 actors: is missing; write \{/u],
    [{ actors: [] }, /1:11 actors: expected an object, not an array/u],
    [{ $schema: 5, actors: {} }, /\$schema: expected text, not a number/u],
    [{ actors: { a: 'x.wasm' } }, /actors\.a: expected an object, not text; write \{ "main"/u],
    [{ actors: { '': { wasm: 'x.wasm' } } }, /actors\[""\]: a name has/u],
    [{ actors: { ['a'.repeat(65)]: { wasm: 'x.wasm' } } }, /a name has 1 to 64/u],
    [{ actors: { a: {} } }, /actors\.a: has neither/u],
    [actor({ wasm: 5 }), /actors\.a\.wasm: expected a path as text, not a number/u],
    [actor({ wasm: '' }), /actors\.a\.wasm: is not a path/u],
    [actor({ wasm: 'a\0b' }), /actors\.a\.wasm: is not a path/u],
    [actor({ wasm: 'Main.mo' }), /actors\.a\.wasm: names Motoko source: "Main\.mo"; use "main"/u],
    [actor({ wasm: 'folder.mo/..' }), /names a folder: "folder\.mo\/\.\."/u],
    [
      actor({ wasm: 'gone.wasm' }),
      /"gone\.wasm" \(gone\.wasm\) is a link to none%\/a\.wasm, which is not there; build it/u,
    ],
    [actor({ wasm: 'loop.wasm' }), /the symbolic links of "loop\.wasm" \(loop\.wasm\) form a loop/u],
    [actor({ wasm: `${'x'.repeat(5000)}.wasm` }), /cannot use "x{120}…"/u],
    [
      { actors: { a: { main: 'x.wasm' } } },
      /actors\.a\.main: names no Motoko source \(\.mo\): "x\.wasm"; a compiled module goes under "wasm"/u,
    ],
    [{ actors: { a: { main: 'folder.mo' } } }, /actors\.a\.main: names a folder/u],
    [actor({ candid: 'y.did' }), /actors\.a\.candid: there is no file "y\.did" \(y\.did\)/u],
    [actor({ candid: null }), /actors\.a\.candid: expected a path as text, not null/u],
    [actor({ args: 5 }), /actors\.a\.args: expected a JSON array .*, not a number/u],
    [actor({ args: { x: 1 } }), /actors\.a\.args: expected a JSON array .*, not an object/u],
    [actor({ args: [], argsHex: '' }), /actors\.a: has both "args" and "argsHex"/u],
    [actor({ argsHex: '0x00' }), /actors\.a\.argsHex: expected text of hexadecimal digits/u],
    [actor({ argsHex: 'abc' }), /argsHex: expected/u],
    [actor({ cycles: '1e12' }), /actors\.a\.cycles: expected a whole number .*, not "1e12"/u],
    [actor({ cycles: 1.5 }), /not 1\.5/u],
    [actor({ cycles: (2n ** 128n).toString() }), /not "340282366920938463463374607431768211456"/u],
    [actor({ cycles: true }), /not true/u],
    [actor({ env: [] }), /actors\.a\.env: expected an object/u],
    [actor({ env: { A: 5 } }), /actors\.a\.env\.A: expected text, not a number; put it in quotes/u],
    [actor({ env: { '': 'x' } }), /actors\.a\.env\[""\]: a variable's name has 1 to 128 bytes, not 0/u],
    [actor({ env: { A: 'é'.repeat(65) } }), /actors\.a\.env\.A: holds 130 of at most 128 bytes/u],
    [actor({ env: { ['é'.repeat(65)]: '' } }), /has 1 to 128 bytes, not 130/u],
    [actor({ env: { 'PUBLIC_CANISTER_ID:b': 'x' } }), /set by the host/u],
    [
      actor({ env: Object.fromEntries(Array.from({ length: 21 }, (_, index) => [`V${index}`, ''])) }),
      /actors\.a\.env: holds 21 of at most 20 variables/u,
    ],
    [
      actor({ certificate: 'real' }),
      /actors\.a\.certificate: expected "signed" or "placeholder", not "real"; or remove the key/u,
    ],
    [actor({ certificate: true }), /expected "signed" or "placeholder", not true/u],
    [actor({ public: 'get' }), /actors\.a\.public: expected an array of methods, such as \["get"\], not text/u],
    [actor({ public: ['get', 5] }), /actors\.a\.public\[1\]: expected a method's name as text, not a number/u],
    [actor({ public: ['get', 'get'] }), /actors\.a\.public\[1\]: names "get" again; remove one/u],
    [actor({ controllers: 'aaaaa-aa' }), /actors\.a\.controllers: expected an array of principals, such as \["rrkah/u],
    [actor({ controllers: ['me'] }), /actors\.a\.controllers\[0\]: expected a principal as text, not "me"/u],
    [actor({ controllers: ['aaaaa-aa', 'AAAAA-AA'] }), /controllers\[1\]: names the principal of \[0\] again/u],
    [
      actor({ controllers: Array.from({ length: 10 }, (_, index) => principalToText(Uint8Array.of(index, 1))) }),
      /actors\.a\.controllers: names 10 principals; name at most 9: the installer is one, too/u,
    ],
    [actor({ Wasm: 'x.wasm' }), /actors\.a\.Wasm: unknown key; did you mean "wasm"\?/u],
    [actor({ zzz: 1 }), /actors\.a\.zzz: unknown key; known are main, wasm, candid/u],
    ['{ "actors": {}, "actors": {} }', /1:17 actors: is a duplicate of the one at actors\.json:1:3/u],
    [
      '{ "actors": { "a": { "wasm": "x.wasm", "args": [[{ "k": 1, "k": 2 }]] } } }',
      /actors\.a\.args\[0\]\[0\]\.k: is a duplicate/u,
    ],
    ['{ actors: {} }', /^actors\.json:1:3: not JSON: expected a key in double quotes$/u],
    ['', /not JSON: the file is empty/u],
    [Buffer.from('{ "actors": { "é": {} } }', 'latin1'), /not UTF-8 text/u],
  ];
  for (const [content, expected] of cases) assert.match(await refusal(root, content), expected);
});

test('a manifest full of faults is refused quickly, with the first ones and a count', async (t) => {
  const root = await project(t);
  const cpuMs = startCpuTimer();
  const members = Array.from({ length: 100_000 }, (_, index) => `\n"${index}": 5`).join(',');
  const message = await refusal(root, `{ "actors": {${members}} }`);
  assert.match(message, /^actors\.json has 200000 problems:\n/u);
  assert.equal(message.split('\n').length, 52);
  assert.match(message, /… and 199950 more$/u);
  assert.match(await refusal(root, `{ "actors": {${'"a": {},'.repeat(100_000)} "b": {} } }`), /more$/u);
  assert.ok(cpuMs() < 3000);
});

test('without a manifest the smallest one is shown', async (t) => {
  const root = await project(t);
  await assert.rejects(createManifest({ file: join(root, 'none', 'actors.json') }).read(), {
    code: 'manifest-missing',
    message: `there is no manifest ${root}/none/actors.json; name one with --manifest FILE, or make it:\n\n{ "actors": { "counter": { "main": "Counter.mo" } } }`,
  });
});

test('a manifest that is no file is refused at once', async (t) => {
  const root = await project(t);
  execFileSync('mkfifo', [join(root, 'pipe')]);
  for (const [name, reason] of [
    ['folder.mo', /it is a folder/u],
    ['pipe', /it is not a regular file/u],
    ['loop.wasm', /ELOOP/u],
    ['gone.wasm', /it is a link to none%\/a\.wasm, which is not there$/u],
  ] as const) {
    await assert.rejects(createManifest({ file: join(root, name) }).read(), {
      code: 'manifest-unreadable',
      message: reason,
    });
  }
});

test('the example manifest is accepted', async () => {
  const file = fileURLToPath(new URL('../../../config/examples/actors.json', import.meta.url));
  assert.deepEqual(
    (await createManifest({ file }).read()).map(({ name, source }) => [name, source.kind]),
    [
      ['counter', 'main'],
      ['notes', 'main'],
      ['website', 'main'],
      ['fetcher', 'main'],
    ],
  );
});
