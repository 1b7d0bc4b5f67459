import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { mocProgramFile } from '../../../subsystems/compiler/core-package.ts';
import { MOC_PROCESSES_DEFAULTS, MocProcesses } from '../../../subsystems/compiler/moc-processes.ts';
import { createCompiler, type MotokoCompiler } from '../../../subsystems/compiler/motoko-compiler.ts';
import { ANY_ACTOR } from '../../support/motoko.ts';

const COMPILER = new URL('../../../subsystems/compiler/motoko-compiler.ts', import.meta.url).href;

function compiler(t: TestContext): MotokoCompiler {
  const created = createCompiler({ cacheDirectory: undefined, processesMax: 1 });
  t.after(() => created.close());
  return created;
}

/** Returns the running children of a process. */
function childrenOf(pid: number): readonly number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
}

/** Returns the first child that was not there before. */
async function childOf(pid: number, before: readonly number[] = []): Promise<number> {
  for (;;) {
    const found = childrenOf(pid).find((child) => !before.includes(child));
    if (found !== undefined) return found;
    await sleep(5);
  }
}

test('a process that is killed while it compiles is told, and the next one compiles', async (t) => {
  const one = compiler(t);
  const before = childrenOf(process.pid);
  const files = new Map([['Main.mo', ANY_ACTOR]]);
  const killed = assert.rejects(one.compileText(files), {
    code: 'compiler-crashed',
    message: 'the compiler stopped: its process ended by SIGKILL',
  });
  process.kill(await childOf(process.pid, before), 'SIGKILL');
  await killed;
  assert.match((await one.compileText(files)).candid, /inc: \(\) -> \(nat\);/u);
});

test('signals that Node, or the system, would take otherwise do nothing to a process', async (t) => {
  const one = compiler(t);
  const before = childrenOf(process.pid);
  const refused = () => assert.rejects(one.compileText(new Map([['Main.mo', 'actor {']])), { code: 'compile-failed' });
  await refused();
  const child = await childOf(process.pid, before);
  assert.ok(readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('--disable-sigusr1'), 'SIGUSR1 opens a debugger');
  for (const signal of ['SIGUSR1', 'SIGUSR2', 'SIGHUP'] as const) process.kill(child, signal);
  await refused();
  assert.equal(await childOf(process.pid, before), child);
});

test('one that died while it had nothing to do is replaced, and nobody notices', async (t) => {
  const one = compiler(t);
  const before = childrenOf(process.pid);
  await assert.rejects(one.compileText(new Map([['Main.mo', 'actor {']])), { code: 'compile-failed' });
  // The server does not hear of the death before this turn is over.
  process.kill(await childOf(process.pid, before), 'SIGKILL');
  await assert.rejects(one.compileText(new Map([['Main.mo', 'actor {}}']])), { code: 'compile-failed' });
  process.kill(await childOf(process.pid, before), 'SIGKILL');
  const given = assert.rejects(one.compileText(new Map([['Main.mo', 'actor {{']])), { code: 'compiler-closed' });
  await one.close();
  await given;
});

for (const [title, execPath] of [
  ['there is no such program', '/nowhere/node'],
  ['that throws at once', 'a\0b'],
] as const) {
  test(`where no process can be started (${title}) each compilation says so, and later ones are done`, async (t) => {
    const one = compiler(t);
    const { execPath: real } = process;
    t.after(() => (process.execPath = real));
    process.execPath = execPath;
    const refused = ['actor {', 'actor {{', 'actor {{{'].map((text) =>
      assert.rejects(one.compileText(new Map([['Main.mo', text]])), {
        code: 'compiler-not-started',
        kind: 'unavailable',
      }),
    );
    await Promise.all(refused);
    process.execPath = real;
    await assert.rejects(one.compileText(new Map([['Main.mo', 'actor {']])), { code: 'compile-failed' });
  });
}

test('signals that a terminal sends to the whole group do not stop a compilation: the server decides', async (t) => {
  const one = compiler(t);
  const before = childrenOf(process.pid);
  // The process that is there from now on answers.
  await assert.rejects(one.compileText(new Map([['Main.mo', 'actor {']])), { code: 'compile-failed' });
  const child = await childOf(process.pid, before);
  // The compiler is at work on this one for 0.2 s.
  const refused = assert.rejects(one.compileText(new Map([['Main.mo', '{'.repeat(1000)]])), { code: 'compile-failed' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(child, signal);
  await refused;
  assert.deepEqual(
    childrenOf(process.pid).filter((pid) => !before.includes(pid)),
    [child],
  );
});

test('a compilation ends with a server that is killed', async () => {
  const program = `import { createCompiler } from ${JSON.stringify(COMPILER)};
    const compiler = createCompiler({ cacheDirectory: undefined });
    await compiler.compileText(new Map([['A.mo', 'actor {']])).catch(() => console.log('warm'));
    await compiler.compileText(new Map([['A.mo', ${JSON.stringify(ANY_ACTOR)}]]));
    console.log('compiled');`;
  const server = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  server.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
  await once(server.stdout, 'data');
  const child = await childOf(server.pid ?? 0);
  server.kill('SIGKILL');
  await once(server, 'exit');
  for (let waited = 0; existsSync(`/proc/${child}/cmdline`) && isRunning(child); waited += 20) {
    assert.ok(waited < 20_000, 'the compilation goes on');
    await sleep(20);
  }
  assert.equal(printed, 'warm\n');
});

/** Returns false if the process has ended and nobody has read its status. */
function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

test('what is done ahead of the next source waits for one that is being compiled', async (t) => {
  const one = createCompiler({ cacheDirectory: undefined, processesMax: 2, isKeptWarm: true });
  t.after(() => one.close());
  const before = childrenOf(process.pid).length;
  await one.compileText(new Map([['Main.mo', ANY_ACTOR]]));
  // The work ahead would begin a second after the compilation, while the next one is under way.
  const second = one.compileText(new Map([['Main.mo', `${ANY_ACTOR} // again`]]));
  let most = 0;
  const looking = setInterval(() => (most = Math.max(most, childrenOf(process.pid).length - before)), 5);
  await second;
  clearInterval(looking);
  assert.equal(most, 1);
  // Afterwards a second process compares signatures.
  while (childrenOf(process.pid).length - before < 2) await sleep(20);
});

// The effects of V8's settings are measured in benchmarks/README.md. Keeping memory shows only after ten idle seconds.
test('a process is told how V8 compiles it sooner, and whether to keep memory', async (t) => {
  for (const keepsMemory of [true, false]) {
    const one = createCompiler({ cacheDirectory: undefined, processesMax: 1, keepsMemory });
    t.after(() => one.close());
    const before = childrenOf(process.pid);
    const given = assert.rejects(one.compileText(new Map([['Main.mo', 'actor {']])), { code: 'compiler-closed' });
    const commandLine = readFileSync(`/proc/${await childOf(process.pid, before)}/cmdline`, 'utf8');
    assert.ok(commandLine.includes('--initial-heap-size=') && commandLine.includes('--no-lazy-feedback-allocation'));
    assert.equal(commandLine.includes('--no-memory-reducer'), keepsMemory, commandLine);
    assert.equal(commandLine.includes('--memory-pool-timeout='), keepsMemory, commandLine);
    await one.close();
    await given;
  }
});

/** Returns the niceness of a process's threads, each value once. */
function nicenessesOf(pid: number): readonly number[] {
  return [...new Set(readdirSync(`/proc/${pid}/task`).map((thread) => getPriority(Number(thread))))];
}

/** Returns processor time in ticks of a hundredth of a second. */
function processorTimeOf(pid: number): number {
  const [, user = 0, system = 0] =
    /\) (?:\S+ ){11}(\d+) (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.map(Number) ?? [];
  return user + system;
}

/**
 * Returns a function that has a source of so many open brackets refused. That takes a process as a whole compilation
 * does, in a tenth of its time; the compiler explains a thousand in 0.2 s.
 */
function refuseIn(processes: MocProcesses): (brackets: number) => Promise<void> {
  return async (brackets) => {
    const files = new Map([['Main.mo', '{'.repeat(brackets)]]);
    const main = { main: 'Main.mo', files, blobs: new Map(), packages: new Map(), actors: [] };
    const mode = { persistence: 'enhanced', flags: [], collector: undefined, publicMetadata: [] } as const;
    const options = { ...mode, program: mocProgramFile() };
    assert.equal((await processes.run({ kind: 'compile', ...main, ...options })).kind, 'refused');
  };
}

for (const [title, hasThreads] of [
  ['one that has its threads', true],
  ['a new one', false],
] as const) {
  test(`of two compilations the larger one has the processors first (${title}), and later ones do not suffer`, async (t) => {
    const stay = { idleMs: 600_000, loweredIdleMsMax: 600_000 };
    const processes = new MocProcesses({ ...MOC_PROCESSES_DEFAULTS, processesMax: 2, ...stay });
    t.after(() => processes.close());
    const before = childrenOf(process.pid);
    const usual = getPriority();
    const refuse = refuseIn(processes);
    await refuse(1);
    const [first = 0] = childrenOf(process.pid).filter((pid) => !before.includes(pid));
    assert.deepEqual(nicenessesOf(first), [usual]);
    // The compilations go to the first process and to a second one, in this order.
    await Promise.all(hasThreads ? [refuse(1), refuse(1000)] : [refuse(1000), refuse(1)]);
    const [second = 0] = childrenOf(process.pid).filter((pid) => ![...before, first].includes(pid));
    const [lowered, other] = hasThreads ? [first, second] : [second, first];
    assert.deepEqual([lowered, other].map(nicenessesOf), [[usual + 10], [usual]]);
    // One process is enough, whichever is the smaller one.
    await Promise.all([refuse(1), refuse(1000)]);
    await Promise.all([refuse(1000), refuse(1)]);
    assert.deepEqual([lowered, other].map(nicenessesOf), [[usual + 10], [usual]]);
    const times = [lowered, other].map(processorTimeOf);
    await refuse(1000);
    const [little = 0, much = 0] = [lowered, other].map((pid, at) => processorTimeOf(pid) - (times[at] ?? 0));
    assert.ok(much > 2 * little, `${little} ticks of the lowered process, ${much} of the other one`);
  });
}

test('a lowered process does not stay as long as others do', async (t) => {
  const processes = new MocProcesses({
    ...MOC_PROCESSES_DEFAULTS,
    processesMax: 2,
    idleMs: 600_000,
    loweredIdleMsMax: 0,
  });
  t.after(() => processes.close());
  const before = childrenOf(process.pid);
  const refuse = refuseIn(processes);
  await refuse(1);
  const [first = 0] = childrenOf(process.pid).filter((pid) => !before.includes(pid));
  await Promise.all([refuse(1), refuse(1000)]);
  for (let waited = 0; isRunning(first); waited += 50) {
    assert.ok(waited < 20_000, 'the lowered process stays');
    await sleep(50);
  }
  // A process that has ended is still a child until this process has heard of its end.
  const left = childrenOf(process.pid).filter((pid) => !before.includes(pid) && isRunning(pid));
  assert.equal(left.length, 1);
});
