/** Instrumented modules on disk: a read returns exactly the code made of that upload, or nothing. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, readdirSync, symlinkSync } from 'node:fs';
import {
  appendFile,
  copyFile,
  cp,
  mkdir,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { CodeCache, countKept, keepOnlyCode, removeCode } from '../../../subsystems/execution/wire/code-cache.ts';
import { loadModule } from '../../../subsystems/execution/thread/load-module.ts';
import {
  type LoadedModule,
  ModuleLoader,
  type ModuleWorkerData,
} from '../../../subsystems/execution/pool/module-loader.ts';
import { codeVersion, type InstrumentedModule, instrument } from '../../../subsystems/instrument/index.ts';
import { decodeModule } from '../../../subsystems/wasm/index.ts';
import { ANY_ACTOR, compileMotoko } from '../../support/motoko.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { wat } from '../../support/wat.ts';

const STACK_BYTES = 4 << 20;
const VERSION = 'version 1';
const SMALL = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 1)
  (data (i32.const 8) "some bytes")
  (global $n (mut i64) (i64.const 7))
  (func (export "canister_update inc") (global.set $n (i64.add (global.get $n) (i64.const 1))) (call $reply)))`);
const OTHER = wat(`(module (memory 1) (func (export "canister_init")))`);

const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const made = (bytes: Uint8Array): InstrumentedModule => instrument(decodeModule(bytes));
const fileOf = (directory: string, bytes: Uint8Array): string => join(directory, `${hashOf(bytes)}.code`);

/** Returns the names of all files of these modules, sorted. */
const filesOf = (...modules: readonly Uint8Array[]): readonly string[] =>
  modules.flatMap((bytes) => ['code', 'info'].map((kind) => `${hashOf(bytes)}.${kind}`)).toSorted();

/** Makes a directory with an entry of the small module and one of the other. */
async function filled(): Promise<string> {
  const directory = join(await temporaryDirectory(), 'modules');
  const cache = new CodeCache(directory, VERSION);
  for (const module of [SMALL, OTHER]) assert.equal(cache.write(hashOf(module), made(module)), undefined);
  return directory;
}

const readIn = (directory: string, bytes = SMALL, version = VERSION): InstrumentedModule | undefined =>
  new CodeCache(directory, version).read(hashOf(bytes));

function assertSame(found: InstrumentedModule | undefined, expected: InstrumentedModule): void {
  assert.ok(found);
  assert.ok(Buffer.from(found.bytes).equals(expected.bytes));
  assert.deepEqual(found.layout, expected.layout);
}

suite('kept code', () => {
  test('comes back as it was made, in this process and the next', async () => {
    const directory = await filled();
    assertSame(readIn(directory), made(SMALL));
    assertSame(readIn(directory, OTHER), made(OTHER));
    assert.deepEqual(
      (await readdir(directory)).toSorted(),
      [...[SMALL, OTHER].map((m) => `${hashOf(m)}.code`), 'key'].toSorted(),
    );
    for (const name of await readdir(directory)) assert.equal((await stat(join(directory, name))).mode & 0o777, 0o600);
    assert.equal((await stat(directory)).mode & 0o777, 0o700);
  });

  test('with a byte changed, cut off anywhere or longer, is not there', async () => {
    const directory = await filled();
    const file = fileOf(directory, SMALL);
    const whole = await readFile(file);
    for (let at = 0; at < whole.length; at += at < 400 ? 1 : 5) {
      const changed = Buffer.from(whole);
      changed.writeUInt8(changed.readUInt8(at) ^ (1 << (at % 8)), at);
      await writeFile(file, changed);
      assert.equal(readIn(directory), undefined, `byte ${at}`);
    }
    for (let length = 0; length < whole.length; length += 7) {
      await writeFile(file, whole.subarray(0, length));
      assert.equal(readIn(directory), undefined, `${length} bytes`);
    }
    await writeFile(file, whole);
    assertSame(readIn(directory), made(SMALL));
    await appendFile(file, 'x');
    assert.equal(readIn(directory), undefined);
  });

  test('of another module, version or directory, or without its key, is not there', async () => {
    const directory = await filled();
    assert.equal(readIn(directory, SMALL, 'version 2'), undefined);
    // The file lies under another name.
    await copyFile(fileOf(directory, OTHER), fileOf(directory, SMALL));
    assert.equal(readIn(directory), undefined);
    // The entry was made by a server with its own key.
    const elsewhere = await filled();
    await copyFile(fileOf(elsewhere, OTHER), fileOf(directory, OTHER));
    assert.equal(readIn(directory, OTHER), undefined);
    assertSame(readIn(elsewhere), made(SMALL));
    for (const key of [Buffer.alloc(32), Buffer.alloc(31), Buffer.alloc(1 << 20)]) {
      await writeFile(join(elsewhere, 'key'), key);
      assert.equal(readIn(elsewhere), undefined);
    }
    // With a new key, new entries are kept.
    const cache = new CodeCache(elsewhere, VERSION);
    assert.equal(cache.write(hashOf(SMALL), made(SMALL)), undefined);
    assertSame(readIn(elsewhere), made(SMALL));
    assert.equal((await readFile(join(elsewhere, 'key'))).length, 32);
  });

  test('says what the module is under a tag of its own', async () => {
    const directory = await filled();
    const cache = new CodeCache(directory, VERSION);
    const hash = hashOf(SMALL);
    const { info } = loadModule(SMALL, hash, { wasmStackBytes: STACK_BYTES, cache });
    assert.deepEqual(cache.readInfo(hash), info);
    assert.equal(new CodeCache(directory, 'version 2').readInfo(hash), undefined);
    const file = join(directory, `${hash}.info`);
    const whole = await readFile(file);
    for (let at = 0; at < whole.length; at++) {
      const changed = Buffer.from(whole);
      changed.writeUInt8(changed.readUInt8(at) ^ (1 << (at % 8)), at);
      await writeFile(file, changed);
      assert.equal(cache.readInfo(hash), undefined, `byte ${at}`);
    }
    // Neither file is accepted in place of the other, even under the other's first line.
    const code = await readFile(fileOf(directory, SMALL));
    await writeFile(file, Buffer.concat([whole.subarray(0, 11), code.subarray(11)]));
    assert.equal(cache.readInfo(hash), undefined);
    await writeFile(fileOf(directory, SMALL), Buffer.concat([code.subarray(0, 11), whole.subarray(11)]));
    assert.equal(readIn(directory), undefined);
    await truncate(file, 2 ** 40);
    assert.equal(cache.readInfo(hash), undefined);
    // The next load makes the missing description anew.
    loadModule(SMALL, hash, { wasmStackBytes: STACK_BYTES, cache });
    assert.deepEqual(cache.readInfo(hash), info);
  });

  test('that is no file, or far too large, is not read', { timeout: 120_000 }, async () => {
    const directory = await filled();
    const file = fileOf(directory, SMALL);
    await rm(file);
    execFileSync('mkfifo', [file]);
    assert.equal(readIn(directory), undefined);
    await rm(file);
    await symlink('/dev/zero', file);
    assert.equal(readIn(directory), undefined);
    await rm(file);
    await mkdir(file);
    assert.equal(readIn(directory), undefined);
    await rm(file, { recursive: true });
    await copyFile(fileOf(directory, OTHER), file);
    await truncate(file, 2 ** 40);
    assert.equal(readIn(directory), undefined);
  });

  test('that cannot be written is told, and nothing else happens', async () => {
    const folder = await temporaryDirectory();
    await writeFile(join(folder, 'modules'), 'a file');
    const reason = new CodeCache(join(folder, 'modules'), VERSION).write(hashOf(SMALL), made(SMALL));
    assert.match(String(reason), /EEXIST|ENOTDIR/);
    assert.equal(readIn(join(folder, 'modules')), undefined);
  });

  test('is removed with what nobody needs, and only that', async () => {
    const directory = await filled();
    const hash = hashOf(SMALL);
    const unfinished = `.${hash}.code.8f0c6f5e-6b0e-4a57-9c2e-0c5ac6a7f2a1`;
    for (const name of [unfinished, 'notes.txt']) await writeFile(join(directory, name), 'x');
    await keepOnlyCode(directory, new Set([hash]));
    assert.deepEqual((await readdir(directory)).toSorted(), [`${hash}.code`, 'key', 'notes.txt'].toSorted());
    await removeCode(directory, hash);
    await removeCode(directory, hash);
    assert.deepEqual((await readdir(directory)).toSorted(), ['key', 'notes.txt']);
    await keepOnlyCode(join(directory, 'nowhere'), new Set());
  });
});

suite('a module loader', () => {
  let motoko: Uint8Array;
  before(async () => {
    motoko = (await compileMotoko(ANY_ACTOR)).wasm;
  });

  test('finds what an earlier process has made, and it is the same in every respect', async () => {
    const cacheDirectory = join(await temporaryDirectory(), 'modules');
    const file = fileOf(cacheDirectory, motoko);
    const first = new ModuleLoader({ wasmStackBytes: STACK_BYTES, cacheDirectory });
    const earlier = await first.load(motoko);
    await first.close();
    const { ino } = await stat(file);
    const second = new ModuleLoader({ wasmStackBytes: STACK_BYTES, cacheDirectory });
    const found = await second.load(motoko);
    await second.close();
    assert.equal((await stat(file)).ino, ino, 'it was not made again');
    assert.deepEqual(found.info, earlier.info);
    assert.deepEqual(found.code.layout, earlier.code.layout);
    for (const list of ['imports', 'exports'] as const) {
      assert.deepEqual(WebAssembly.Module[list](found.code.module), WebAssembly.Module[list](earlier.code.module));
    }
  });

  test("finds in the user's cache what another server has made, and keeps it with its own state", async () => {
    const folder = await temporaryDirectory();
    const [sharedCacheDirectory, cacheDirectory, third] = ['user', 'state', 'third'].map((name) =>
      join(folder, name, 'modules'),
    );
    const load = async (directories: Partial<ModuleWorkerData>): Promise<LoadedModule> => {
      const loader = new ModuleLoader({ wasmStackBytes: STACK_BYTES, ...directories });
      const module = await loader.load(motoko);
      await loader.close();
      return module;
    };
    const first = await load({ sharedCacheDirectory });
    const shared = fileOf(sharedCacheDirectory ?? '', motoko);
    const { ino } = await stat(shared);
    await utimes(shared, new Date(0), new Date(0));
    const again = await load({ sharedCacheDirectory, cacheDirectory });
    assert.deepEqual(again.info, first.info);
    assert.deepEqual(again.code.layout, first.code.layout);
    const found = await stat(shared);
    assert.equal(found.ino, ino, 'it was not made again');
    assert.ok(found.mtimeMs > 0, 'its use is noted');
    assertSame(new CodeCache(cacheDirectory ?? '', codeVersion()).read(hashOf(motoko)), made(motoko));
    // One that was changed is not believed, wherever it stands.
    await writeFile(shared, (await readFile(shared)).fill(0, 100, 101));
    await load({ sharedCacheDirectory, cacheDirectory: third });
    assert.notEqual((await stat(shared)).ino, ino, 'it was made again');
    assertSame(new CodeCache(sharedCacheDirectory ?? '', codeVersion()).read(hashOf(motoko)), made(motoko));
  });

  test("does without the user's cache where nothing can be kept", async () => {
    for (const sharedCacheDirectory of [
      '/proc/svc/modules',
      join(await temporaryDirectory(), 'no', 'home', 'at', 'all'),
    ]) {
      let reason: string | undefined;
      const onCacheFailure = (text: string): void => void (reason = text);
      const loader = new ModuleLoader({ wasmStackBytes: STACK_BYTES, sharedCacheDirectory, onCacheFailure });
      assert.equal((await loader.load(motoko)).info.hash, hashOf(motoko));
      assert.equal(reason, undefined);
      await loader.close();
    }
  });

  test('makes anew what is damaged or not its own, and never runs it', async () => {
    const cacheDirectory = join(await temporaryDirectory(), 'modules');
    const hash = hashOf(motoko);
    const first = new ModuleLoader({ wasmStackBytes: STACK_BYTES, cacheDirectory });
    await first.load(motoko);
    await first.close();
    const file = fileOf(cacheDirectory, motoko);
    const whole = await readFile(file);
    // The uploaded module, unmetered, in the place of the instrumented one; and one with another directory's key.
    const unmetered = { bytes: motoko, layout: made(motoko).layout };
    const foreign = join(await temporaryDirectory(), 'modules');
    new CodeCache(foreign, codeVersion()).write(hash, unmetered);
    const forged = await readFile(fileOf(foreign, motoko));
    const own = Buffer.concat([whole.subarray(0, 43), forged.subarray(43)]);
    for (const bytes of [forged, own, whole.subarray(0, whole.length - 1), Buffer.alloc(0)]) {
      await writeFile(file, bytes);
      const cache = new CodeCache(cacheDirectory, codeVersion());
      const { code } = loadModule(motoko, hash, { wasmStackBytes: STACK_BYTES, cache });
      const modules = WebAssembly.Module.imports(code.module).map(({ module }) => module);
      assert.ok(modules.includes('svc'), 'it has what meters it');
      assertSame(cache.read(hash), made(motoko));
    }
  });

  test('removes what is forgotten, and what nobody has asked for when it comes to rest', async () => {
    const cacheDirectory = join(await temporaryDirectory(), 'modules');
    const names = async (): Promise<string[]> =>
      (await readdir(cacheDirectory)).filter((name) => name !== 'key').toSorted();
    const loader = new ModuleLoader({ wasmStackBytes: STACK_BYTES, cacheDirectory, idleMs: 50 });
    for (const module of [motoko, SMALL, OTHER]) await loader.load(module);
    await loader.forget(hashOf(SMALL));
    assert.deepEqual(await names(), filesOf(motoko, OTHER));
    await loader.close();

    const next = new ModuleLoader({ wasmStackBytes: STACK_BYTES, cacheDirectory, idleMs: 50 });
    await next.load(motoko);
    for (let waitedMs = 0; (await names()).length > 2 && waitedMs < 20_000; waitedMs += 20) await sleep(20);
    assert.deepEqual(await names(), filesOf(motoko));
    await next.close();
  });

  test('keeps what the state has, whoever uses it, until the state has it no more', async () => {
    const cacheDirectory = join(await temporaryDirectory(), 'modules');
    const names = async (): Promise<string[]> =>
      (await readdir(cacheDirectory)).filter((name) => name !== 'key').toSorted();
    const loader = new ModuleLoader({ wasmStackBytes: STACK_BYTES, cacheDirectory, idleMs: 20 });
    const [small, other] = [hashOf(SMALL), hashOf(OTHER)];
    for (const hash of [small, other]) loader.storedIs(hash, true);
    for (const module of [SMALL, OTHER]) await loader.load(module);
    for (const hash of [small, other]) await loader.forget(hash);
    assert.deepEqual(await names(), filesOf(SMALL, OTHER));
    loader.storedIs(small, false);
    await loader.forget('0'.repeat(64));
    assert.deepEqual(await names(), filesOf(OTHER));
    // Descriptions load nothing, so no module becomes idle.
    assert.deepEqual((await loader.describe(OTHER))?.hash, other);
    assert.equal(await loader.describe(SMALL), undefined);
    await sleep(200);
    assert.deepEqual(await names(), filesOf(OTHER));
    assert.deepEqual((await loader.load(OTHER)).info, await loader.describe(OTHER));
    loader.storedIs(other, false);
    assert.deepEqual(await names(), filesOf(OTHER), 'it is in use');
    await loader.forget(other);
    assert.deepEqual(await names(), []);
    await loader.close();
  });

  test('that is closed while it loads does not say that the module is at fault', async () => {
    const loader = new ModuleLoader({ wasmStackBytes: STACK_BYTES });
    const refused = assert.rejects(loader.load(SMALL), { kind: 'unavailable', code: 'modules-closed' });
    await setImmediate();
    await loader.close();
    await refused;
  });

  test('that was prepared and is asked for nothing ends its thread, removes nothing, and loads all the same', async () => {
    const cacheDirectory = join(await temporaryDirectory(), 'modules');
    const loader = new ModuleLoader({ wasmStackBytes: STACK_BYTES, cacheDirectory, idleMs: 50 });
    await loader.load(SMALL);
    await loader.close();
    assert.equal(await countKept(cacheDirectory), 1);

    const next = new ModuleLoader({ wasmStackBytes: STACK_BYTES, cacheDirectory, idleMs: 50 });
    next.prepare();
    next.prepare();
    await sleep(500);
    assert.equal(await countKept(cacheDirectory), 1);
    assert.deepEqual((await next.load(SMALL)).info.hash, hashOf(SMALL));
    await next.close();
  });

  test('that is told of modules to come while it loads one does not end its thread', async () => {
    for (let turns = 0; turns < 6; turns++) {
      const loader = new ModuleLoader({ wasmStackBytes: STACK_BYTES, idleMs: 1 });
      const loading = loader.load(SMALL);
      for (let turn = 0; turn < turns; turn++) await Promise.resolve();
      loader.prepare();
      await sleep(2);
      loader.prepare();
      assert.deepEqual((await loading).info.hash, hashOf(SMALL));
      await loader.close();
    }
  });

  test('whose worker has died gives the next one its whole time', async (t) => {
    const workers: Worker[] = [];
    const seen = (worker: Worker): unknown => workers.push(worker);
    process.on('worker', seen);
    t.after(() => process.off('worker', seen));
    const loader = new ModuleLoader({ wasmStackBytes: STACK_BYTES, idleMs: 300 });
    const refused = assert.rejects(loader.load(SMALL), { code: 'module-too-costly' });
    await setImmediate();
    await workers[0]?.terminate();
    await refused;
    const startMs = performance.now();
    await sleep(150);
    loader.prepare();
    // A module is being loaded at every moment, also when the time of the first worker is over.
    for (let pages = 1; performance.now() - startMs < 450; pages++) {
      const module = wat(`(module (memory ${pages}))`);
      assert.deepEqual((await loader.load(module)).info.hash, hashOf(module));
    }
    await loader.close();
  });

  test('goes on without a directory that it can write, and says so once', async () => {
    const folder = await temporaryDirectory();
    await writeFile(join(folder, 'modules'), 'a file');
    const told: string[] = [];
    const loader = new ModuleLoader({
      wasmStackBytes: STACK_BYTES,
      cacheDirectory: join(folder, 'modules'),
      onCacheFailure: (reason) => told.push(reason),
    });
    for (const module of [SMALL, OTHER]) await loader.load(module);
    await loader.close();
    assert.equal(told.length, 1);
    assert.match(told[0] ?? '', /EEXIST|ENOTDIR/);
  });
});

test('the version of kept code changes with every file that it depends on', async () => {
  const root = await temporaryDirectory();
  const subsystems = new URL('../../../subsystems/', import.meta.url);
  for (const room of ['bytes', 'ic', 'instrument', 'wasm'])
    cpSync(new URL(room, subsystems), join(root, 'subsystems', room), { recursive: true });
  cpSync(new URL('../kernel', subsystems), join(root, 'kernel'), { recursive: true });
  symlinkSync(new URL('../node_modules', subsystems), join(root, 'node_modules'));
  await cp(new URL('../../../package.json', import.meta.url), join(root, 'package.json'));
  const script = `console.log((await import('./subsystems/instrument/code-version.ts')).codeVersion())`;
  const version = (): string =>
    execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd: root, encoding: 'utf8' }).trim();
  assert.equal(version(), codeVersion());
  const seen = new Set([codeVersion()]);
  for (const file of ['instrument/rewrite.ts', 'instrument/journal/delta.ts', 'wasm/decode.ts']) {
    await appendFile(join(root, 'subsystems', file), '\n// changed\n');
    seen.add(version());
  }
  assert.equal(seen.size, 4);
  assert.ok(readdirSync(new URL('wasm', subsystems)).length > 5);
});
