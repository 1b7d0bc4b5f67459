/**
 * A machine of its own for a reader of the documents: `/etc`, `/opt`, `/srv`, `/run` and what changes in `/var`
 * belong to it, as do its network, where it is alone, and its processes, which end with it. Programs are those of this
 * machine. Needs root.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { plainEnvironment } from './packages.ts';
import type { TestOwner } from './server.ts';
import { temporaryDirectory } from './temporary-directory.ts';

const STAND_IN = resolve(import.meta.dirname, '../fixtures/systemd/systemctl.ts');
/** Directories that begin empty. */
const OWN = ['opt', 'srv', 'run', 'var/lib', 'var/log', 'var/cache'];
const DEADLINE_MS = 300_000;

/** Becomes the first process of the machine, which takes in the children of those that end. */
const FIRST = `set -e
for name in ${OWN.join(' ')}; do mount --bind "$0/$name" "/$name"; done
cp -a /etc/. "$0/etc" && mount --bind "$0/etc" /etc
ip link set lo up
touch "$0/is-up"
while :; do sleep 1; done`;

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface RunOptions {
  /** True: with the network of the machine that runs the tests. */
  readonly hasOutside?: boolean;
}

export interface Machine {
  /** Directory of the reader on the machine that runs the tests; within it is `/srv/reader`. */
  readonly home: string;
  /** Runs a script as root in `/srv/reader`, up to its first command that fails. */
  run(script: string, options?: RunOptions): Promise<Ended>;
  /** Does the same and asserts that it succeeded; resolves with its output. */
  succeed(script: string, options?: RunOptions): Promise<string>;
}

export async function startMachine(t: TestOwner): Promise<Machine> {
  const work = await temporaryDirectory();
  await chmod(work, 0o755);
  for (const name of [...OWN, 'etc', 'bin', 'srv/reader']) await mkdir(join(work, name), { recursive: true });
  for (const [name, verb] of [
    ['systemctl', ''],
    ['journalctl', 'journal '],
  ] as const) {
    const text = `#!/bin/sh\nexec ${process.execPath} ${STAND_IN} ${verb}"$@"\n`;
    await writeFile(join(work, 'bin', name), text, { mode: 0o755 });
  }
  const apart = ['--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc', '--propagation', 'private'];
  const holder = spawn('unshare', [...apart, 'bash', '-c', FIRST, work], { stdio: ['ignore', 'inherit', 'inherit'] });
  const ended = once(holder, 'exit');
  t.after(async () => {
    holder.kill('SIGKILL');
    await ended;
  });
  const pid = await firstProcess(holder, join(work, 'is-up'));
  const path = `${join(work, 'bin')}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;
  // npm's cache has what the tests have installed before.
  const cache = process.env['npm_config_cache'] ?? join(homedir(), '.npm');
  const env = { PATH: path, HOME: '/srv/reader', LANG: 'C.UTF-8', npm_config_cache: cache, ...INSTALLING };
  const run: Machine['run'] = (script, { hasOutside = false } = {}) => {
    const into = ['--target', String(pid), '--mount', '--pid', ...(hasOutside ? [] : ['--net'])];
    const child = spawn('nsenter', [...into, 'bash', '-e', '-c', `cd /srv/reader\n${script}`], {
      env: { ...proxiesOf(plainEnvironment()), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return outcomeOf(child);
  };
  return {
    home: join(work, 'srv/reader'),
    run,
    succeed: async (script, options) => {
      const { code, stdout, stderr } = await run(script, options);
      assert.equal(code, 0, `${script}\n${stdout}${stderr}`);
      return stdout;
    },
  };
}

/** Settings of npm for commands that are not ours. */
const INSTALLING = { npm_config_prefer_offline: 'true', npm_config_audit: 'false', npm_config_fund: 'false' };

/** Returns the variables that say how this machine reaches a registry. */
function proxiesOf(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => /^(npm_config_|https?_proxy|NODE_EXTRA)/i.test(name)),
  );
}

async function firstProcess(holder: ChildProcess, sign: string): Promise<number> {
  for (const deadline = Date.now() + DEADLINE_MS; ; await sleep(10)) {
    assert.ok(holder.exitCode === null && Date.now() < deadline, 'a machine needs root, unshare, mount and ip');
    const isUp = await readFile(sign).then(
      () => true,
      () => false,
    );
    if (!isUp) continue;
    const children = await readFile(`/proc/${holder.pid}/task/${holder.pid}/children`, 'utf8');
    return Number(children.trim());
  }
}

async function outcomeOf(child: ChildProcess): Promise<Ended> {
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const timer = setTimeout(() => child.kill('SIGKILL'), DEADLINE_MS);
  // A command may leave a process behind that holds the streams.
  const [code] = (await once(child, 'exit')) as [number | null];
  clearTimeout(timer);
  await Promise.race([once(child, 'close'), sleep(1000)]);
  return { code: code ?? 1, stdout, stderr };
}
