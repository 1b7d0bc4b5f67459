/**
 * `--watch`: actors follow their files, keep their state, and serve on with the former code if the new one cannot be
 * taken up.
 */
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

/** Saves a file as editors do. */
function save(file: string, content: string | Uint8Array): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.draft`, content);
  renameSync(`${file}.draft`, file);
}

const counter = (step: string): string => `import Step "lib/Step";
persistent actor { var count = 0;
  public func inc() : async Nat { count += Step.${step}; count };
  public query func get() : async Nat { count } }`;

const adding = (result: number): Uint8Array =>
  wat(`(module (import "ic0" "msg_reply_data_append" (func $append (param i32 i32))) (import "ic0" "msg_reply" (func $reply))
    (memory 1) (data (i32.const 0) "DIDL\\00\\01\\7b\\0${result}")
    (func (export "canister_query get") (call $append (i32.const 0) (i32.const 8)) (call $reply)))`);

/** Position up to which a server's output has been read. */
const read = new WeakMap<RunningServer, number>();

/** Resolves when the server prints the pattern, behind the last awaited output. */
async function printed(server: RunningServer, pattern: RegExp): Promise<void> {
  for (const startMs = performance.now(); ; await sleep(5)) {
    const from = read.get(server) ?? 0;
    const found = pattern.exec(server.output.stdout.slice(from));
    if (found !== null) {
      read.set(server, from + found.index + found[0].length);
      return;
    }
    const { stdout, stderr } = server.output;
    assert.ok(performance.now() - startMs < 30_000, `${pattern} was not printed:\n${stdout}${stderr}`);
  }
}

test(
  'a saved source, import, module or interface is served with the state as it was',
  { timeout: 120_000 },
  async (t) => {
    const root = await temporaryDirectory();
    const manifestFile = join(root, 'actors.json');
    const main = join(root, 'Counter.mo');
    const library = join(root, 'lib/Step.mo');
    const module = join(root, 'dist/byte.wasm');
    const did = join(root, 'dist/byte.did');
    save(main, counter('small'));
    save(library, 'module { public let small = 1; public let large = 10 }');
    save(module, adding(1));
    save(did, 'service : { get : () -> (nat8) query }');
    const actors = {
      counter: { main: 'Counter.mo' },
      byte: { wasm: 'dist/byte.wasm', candid: 'dist/byte.did' },
      broken: { main: 'Broken.mo' },
    };
    save(join(root, 'Broken.mo'), 'actor { syntax');
    save(manifestFile, JSON.stringify({ actors }));
    const args = ['--watch', '--state', join(root, 'state')];
    let server = await startServer(t, { manifestFile, args });
    const json = async (path: string): Promise<string> => (await server.post(path)).body;
    await printed(server, /watching the files of 3 actor/);
    assert.equal(await json('/call-json/counter/inc'), '[1]');
    // An actor that the start had rejected is installed once its source compiles.
    save(join(root, 'Broken.mo'), 'persistent actor { public query func well() : async Bool { true } }');
    await printed(server, /installed broken in /);
    assert.equal(await json('/query-json/broken/well'), '[true]');

    save(library, 'module { public let small = 5; public let large = 10 }');
    await printed(server, /reloaded counter in .*lib\/Step\.mo/);
    assert.equal(await json('/call-json/counter/inc'), '[6]');
    save(main, counter('large'));
    await printed(server, /reloaded counter in .*Counter\.mo/);
    assert.equal(await json('/call-json/counter/inc'), '[16]');

    // Sources that do not compile, or import missing files, are reported; the present code serves on.
    save(main, counter('none'));
    await printed(server, /WARNING counter was not reloaded, nothing has changed: [^]*none/);
    assert.equal(await json('/call-json/counter/inc'), '[26]');
    save(main, `import More "more/More"; ${counter('small')}`);
    await printed(server, /WARNING counter was not reloaded[^]*more\/More/);
    save(join(root, 'more/More.mo'), 'module {}');
    await printed(server, /reloaded counter in .*\/more/);
    assert.equal(await json('/call-json/counter/inc'), '[31]');

    // A build may make its folder anew.
    cpSync(dirname(module), join(root, 'next'), { recursive: true });
    save(join(root, 'next/byte.wasm'), adding(2));
    rmSync(dirname(module), { recursive: true });
    renameSync(join(root, 'next'), dirname(module));
    await printed(server, /reloaded byte in /);
    assert.equal(await json('/query-json/byte/get'), '[2]');
    save(did, 'service : { get : () -> (nat8) query } // with words');
    await printed(server, /reloaded byte in .*byte\.did/);
    assert.match((await server.get('/candid/byte')).body, /with words/);
    save(did, 'service : { other : () -> () }');
    await printed(server, /WARNING byte was not reloaded[^]*other/);
    assert.equal(await json('/query-json/byte/get'), '[2]');

    // Changes while no server runs are taken up by the next start.
    await server.stop();
    save(did, 'service : { get : () -> (nat8) query }');
    save(module, adding(3));
    server = await startServer(t, { manifestFile, args });
    await printed(server, /reloaded byte in .*its files are other than its state/);
    assert.equal(await json('/query-json/byte/get'), '[3]');
    assert.equal(await json('/query-json/counter/get'), '[31]');
    assert.doesNotMatch(server.output.stdout, /POST \/upgrade/);
  },
);

test(
  'while an actor is reloaded its callers are answered, each by the code before or after',
  { timeout: 60_000 },
  async (t) => {
    const root = await temporaryDirectory();
    const main = join(root, 'Step.mo');
    const source = (step: number): string =>
      `persistent actor { var count = 0; public func inc() : async Nat { count += ${step}; count } }`;
    save(main, source(1));
    save(join(root, 'actors.json'), JSON.stringify({ actors: { counter: { main: 'Step.mo' } } }));
    const server = await startServer(t, { manifestFile: join(root, 'actors.json'), args: ['--watch'] });
    await printed(server, /watching/);
    let isReloaded = false;
    const answers: number[] = [];
    const calling = (async () => {
      // The client calls for as long as needed: some calls before the save, some with the code behind it.
      for (let more = 5; more > 0; more -= isReloaded ? 1 : 0) {
        const { status, body } = await server.post('/call-json/counter/inc');
        assert.equal(status, 200, body);
        answers.push(Number((JSON.parse(body) as [number | string])[0]));
        if (answers.length === 5) save(main, source(1000));
      }
    })();
    await Promise.all([calling, printed(server, /reloaded counter/).then(() => (isReloaded = true))]);
    const steps = new Set(answers.map((answer, at) => answer - (answers[at - 1] ?? 0)));
    assert.deepEqual([...steps], [1, 1000]);
  },
);

test('an actor that was deleted stays so while the server runs, and gets another id with the next start', async (t) => {
  const root = await temporaryDirectory();
  const manifestFile = join(root, 'actors.json');
  const names = ['byte', 'other'] as const;
  const saveAll = (result: number): void => {
    for (const name of names) save(join(root, `${name}.wasm`), adding(result));
  };
  saveAll(1);
  save(manifestFile, JSON.stringify({ actors: { byte: { wasm: 'byte.wasm' }, other: { wasm: 'other.wasm' } } }));
  const args = ['--watch', '--state', join(root, 'state')];
  let server = await startServer(t, { manifestFile, args });
  await printed(server, /watching the files of 2 actor/);
  const idOf = async (name: string): Promise<string | undefined> => {
    const actors = JSON.parse((await server.get('/inspect')).body) as { id: string; name: string }[];
    return actors.find((actor) => actor.name === name)?.id;
  };
  const before = await idOf('byte');
  assert.equal((await server.fetch('/actors/byte?force=true', { method: 'DELETE' })).status, 200);
  saveAll(2);
  // The reloads come one after the other, in the order of the saves.
  await printed(server, /reloaded other in /);
  assert.equal(await idOf('byte'), undefined);
  assert.doesNotMatch(server.output.stdout, /(?:installed|WARNING) byte/);
  await server.stop();

  server = await startServer(t, { manifestFile, args });
  const after = await idOf('byte');
  assert.ok(before !== undefined && after !== undefined && after > before, `${before} and ${after}`);
  saveAll(3);
  await printed(server, /reloaded byte in /);
});

test('a migration that comes into its folder is taken up, though no other file has changed', async (t) => {
  const root = await temporaryDirectory();
  const manifestFile = join(root, 'actors.json');
  const migration = (now: string): string =>
    `module { public func migration(old : {${now === '5' ? '' : ' var n : Nat '}}) : { var n : Nat } { { var n = ${now} } } };`;
  save(join(root, 'mops.toml'), '[moc]\nargs = ["--default-persistent-actors", "--enhanced-migration=migrations"]\n');
  save(join(root, 'Main.mo'), 'actor { var n : Nat; public query func get() : async Nat { n } };');
  save(join(root, 'migrations/1_init.mo'), migration('5'));
  save(manifestFile, JSON.stringify({ actors: { chain: { main: 'Main.mo' } } }));
  const server = await startServer(t, { manifestFile, args: ['--watch'] });
  await printed(server, /watching the files of 1 actor/);
  assert.equal((await server.post('/query-json/chain/get')).body, '[5]');
  save(join(root, 'migrations/2_more.mo'), migration('old.n + 100'));
  // The check with which watching begins may see the file first.
  await printed(server, /reloaded chain in .*(?:2_more\.mo|its files are other than its state)/);
  assert.equal((await server.post('/query-json/chain/get')).body, '[105]');
});

test('a folder of a package and a nearer manifest that come are taken up, though no file has changed', async (t) => {
  const directory = await temporaryDirectory();
  const at = (path: string): string => join(directory, path);
  const step = (value: number): string => `module { public let one = ${value} }`;
  save(at('app/Main.mo'), counter('one').replace('lib/Step', 'mo:lib/Step'));
  save(at('mops.toml'), '[dependencies]\nlib = "./lib"\n');
  save(at('lib/Step.mo'), step(1));
  save(at('other/Step.mo'), step(100));
  save(at('actors.json'), JSON.stringify({ actors: { counter: { main: 'app/Main.mo' } } }));
  const server = await startServer(t, { manifestFile: at('actors.json'), args: ['--watch'] });
  await printed(server, /watching the files of 1 actor/);
  const counted = async (): Promise<string> => (await server.post('/call-json/counter/inc')).body;
  assert.equal(await counted(), '[1]');
  // With a folder src the package's modules are there, and no longer beside it.
  mkdirSync(at('draft'));
  save(at('draft/Step.mo'), step(10));
  renameSync(at('draft'), at('lib/src'));
  await printed(server, /reloaded counter/);
  assert.equal(await counted(), '[11]');
  save(at('app/mops.toml'), '[dependencies]\nlib = "../other"\n');
  await printed(server, /reloaded counter/);
  assert.equal(await counted(), '[111]');
  assert.equal(await server.stop(), 0);
});
