/** The commands of README.md as a person types them: npm start, curl, Ctrl-C. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const READY_DEADLINE_MS = 180_000;
const STOP_DEADLINE_MS = 20_000;

interface Started {
  readonly npm: ChildProcess;
  readonly origin: string;
  /** The server's own process. */
  readonly serverPid: number;
  readonly printed: () => string;
}

/** Runs `npm start` in a process group of its own, as a terminal does. */
async function npmStart(t: TestContext): Promise<Started> {
  const npm = spawn('npm', ['start', '--', '--listen', '127.0.0.1:0'], {
    cwd: ROOT,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  npm.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  npm.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
  const { pid } = npm;
  assert.ok(pid);
  t.after(() => {
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      // The whole group has ended.
    }
  });
  const deadline = Date.now() + READY_DEADLINE_MS;
  while (!/^ready: /m.test(output)) {
    assert.equal(npm.exitCode, null, output);
    assert.ok(Date.now() < deadline, output);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const origin = /listening on (http:\S+)/.exec(output)?.[1];
  assert.ok(origin, output);
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  const serverPid = Number(children.trim().split(' ')[0]);
  const command = (await readFile(`/proc/${serverPid}/cmdline`, 'utf8')).split('\0');
  assert.ok(
    command.includes(`${ROOT}config/svc.js`),
    `npm's child is the server itself, not a shell: ${command.join(' ')}`,
  );
  return { npm, origin, serverPid, printed: () => output };
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function ends(pid: number): Promise<void> {
  const deadline = Date.now() + STOP_DEADLINE_MS;
  while (isRunning(pid)) {
    assert.ok(Date.now() < deadline, `process ${pid} still runs`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test('npm start serves what README says, on the Node that the project brings', async (t) => {
  const { origin } = await npmStart(t);
  const curl = promisify(execFile);
  const answer = await curl('curl', ['-sS', '-X', 'POST', '-d', '[]', `${origin}/call-json/counter/inc`]);
  assert.equal(answer.stdout, '[1]');
  const version = JSON.parse((await curl('curl', ['-sS', `${origin}/version`])).stdout) as { node: string };
  assert.ok(Number(/\d+/.exec(version.node)?.[0]) >= 24, version.node);
});

test('SIGTERM to npm alone stops the server gracefully', async (t) => {
  const { npm, serverPid, printed } = await npmStart(t);
  npm.kill('SIGTERM');
  await Promise.all([npm.exitCode === null ? once(npm, 'exit') : undefined, ends(serverPid)]);
  assert.match(printed(), /^shutdown: 0 actor\(s\) checkpointed$/m);
});

test('Ctrl-C in a terminal, which reaches npm and the server both, stops it gracefully', async (t) => {
  const { npm, serverPid, printed } = await npmStart(t);
  assert.ok(npm.pid);
  const exited = once(npm, 'exit');
  process.kill(-npm.pid, 'SIGINT');
  await ends(serverPid);
  const [code] = (await exited) as [number | null];
  assert.match(printed(), /^shutdown: 0 actor\(s\) checkpointed$/m);
  assert.equal(code, 0);
});
