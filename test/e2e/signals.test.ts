/** Effects of signals on a real server. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type RunningServer, type ServerOptions, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const COMMAND = join(ROOT, 'config/svc');
/** Port 0 lets a debugger take any free port, since the usual one may be in use. */
const ENV = { NODE_OPTIONS: '--inspect-port=0' };
const EMPTY = { manifest: '{"actors":{}}', env: ENV };
const STARTS: readonly (readonly [string, ServerOptions])[] = [
  ['svc', { ...EMPTY, command: [COMMAND] }],
  ['node svc.js', EMPTY],
];
const DEADLINE_MS = 60_000;

/** Returns the number of sockets of the process that listen. */
function listeners(pid: number): number {
  const inodes = new Set(
    ['tcp', 'tcp6'].flatMap((table) =>
      readFileSync(`/proc/net/${table}`, 'utf8')
        .split('\n')
        .map((line) => line.trim().split(/\s+/))
        .filter((columns) => columns[3] === '0A')
        .map((columns) => `socket:[${columns[9]}]`),
    ),
  );
  return readdirSync(`/proc/${pid}/fd`).filter((descriptor) => {
    try {
      return inodes.has(readlinkSync(`/proc/${pid}/fd/${descriptor}`));
    } catch {
      return false; // The port was closed meanwhile.
    }
  }).length;
}

async function until(holds: () => boolean, told: string): Promise<void> {
  for (const deadline = Date.now() + DEADLINE_MS; !holds(); await sleep(10)) assert.ok(Date.now() < deadline, told);
}

/** Starts a plain Node, which opens its debugger at SIGUSR1; resolves when it has done so after a signal sent now. */
async function debuggerOfAnother(t: TestContext): Promise<void> {
  const node = spawn(process.execPath, ['-e', 'console.log(1); setInterval(() => {}, 1e6)'], {
    env: { ...process.env, ...ENV },
  });
  t.after(() => node.kill('SIGKILL'));
  await once(node.stdout, 'data');
  const pid = node.pid ?? assert.fail('it did not start');
  node.kill('SIGUSR1');
  await until(() => listeners(pid) === 1, 'no debugger of Node was opened');
}

function pidOf({ process: { pid } }: RunningServer): number {
  return pid ?? assert.fail('the server did not start');
}

suite('SIGUSR1 and SIGUSR2', () => {
  for (const [title, options] of STARTS) {
    test(`do nothing to ${title}: no debugger is opened, and the server serves on`, async (t) => {
      const server = await startServer(t, options);
      const pid = pidOf(server);
      assert.equal(listeners(pid), 1);
      for (let times = 0; times < 3; times++) {
        server.process.kill('SIGUSR1');
        server.process.kill('SIGUSR2');
      }
      await debuggerOfAnother(t);
      assert.equal((await server.get('/health')).body, 'ok');
      assert.equal(listeners(pid), 1);
      assert.equal(await server.stop(), 0);
    });
  }
});

suite('SIGHUP', () => {
  for (const [title, options] of STARTS) {
    test(`stops ${title} in order`, async (t) => {
      const server = await startServer(t, options);
      const ended = once(server.process, 'close');
      server.process.kill('SIGHUP');
      assert.deepEqual(await ended, [0, null]);
      assert.match(server.output.stdout, /^shutdown: 0 actor\(s\) checkpointed$/m);
    });
  }

  test('is ignored where it was ignored at the start, as under nohup', async (t) => {
    const server = await startServer(t, { ...EMPTY, wrapper: ['nohup'], command: [COMMAND] });
    for (let times = 0; times < 3; times++) {
      server.process.kill('SIGHUP');
      assert.equal((await server.get('/health')).body, 'ok');
    }
    assert.equal(server.output.stdout.includes('shutdown'), false);
    assert.equal(await server.stop(), 0);
  });

  test('of a terminal that is closed stops the server in order, though nobody reads what it says', async (t) => {
    const folder = await temporaryDirectory();
    const [state, log, seen] = ['state', 'log', 'seen'].map((name) => join(folder, name)) as [string, string, string];
    const manifest = join(folder, 'actors.json');
    await writeFile(manifest, '{"actors":{}}');
    // The shell belongs to the terminal, and dies with it.
    const line = `${COMMAND} -m ${manifest} -l 127.0.0.1:0 -s ${state} --log-json 2>${log}; true`;
    const terminal = spawn('script', ['-qfc', line, seen], { stdio: 'ignore' });
    t.after(() => terminal.kill('SIGKILL'));
    await until(() => existsSync(log) && readFileSync(log, 'utf8').includes('"event":"ready"'), 'it is not ready');
    // The terminal's own program writes down what the server has printed, when its turn comes.
    await until(() => /^ready: /m.test(readFileSync(seen, 'utf8')), 'the terminal does not show that it is ready');
    terminal.kill('SIGKILL');
    await until(
      () => readFileSync(log, 'utf8').includes('"event":"shutdown","actors":0'),
      'it was not stopped in order',
    );
  });
});
