/**
 * The shipped backup job: the command `svc-backup` against real and bad servers, and its unit and timer, which
 * systemd's own tools check. test/system/administration.test.ts runs the unit's command.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { after, before, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { backupOf, filledTables } from '../subsystems/storage/backup-files.ts';
import { CACHE_HOME } from '../support/caches.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const UNITS = resolve(import.meta.dirname, '../../config/systemd');
const SERVICE = join(UNITS, 'svc-backup.service');
const TOKEN = 'two words "and" \\quotes';
const MANIFEST = '{ "actors": {} }';

/** Process groups of the jobs. */
const groups: number[] = [];
after(() => {
  for (const group of groups) endIfThere(-group, 'SIGKILL');
});

let tokenFile: string;
before(async () => {
  tokenFile = join(await temporaryDirectory(), 'token');
  await writeFile(tokenFile, `${TOKEN}\n`, { mode: 0o600 });
});

function endIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Most have ended by themselves.
  }
}

interface Ended {
  readonly code: number | null;
  readonly said: string;
}

function start(args: readonly string[]) {
  const env = { ...process.env, XDG_CACHE_HOME: CACHE_HOME };
  // A group of its own, so that nothing of it is left behind by a test that failed.
  const child = spawn(join(UNITS, 'svc-backup'), args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  groups.push(Number(child.pid));
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (said += text));
  const ended = once(child, 'close').then(([code]): Ended => ({ code: code as number | null, said }));
  return { child, ended };
}

function take(...args: readonly string[]): Promise<Ended> {
  return start(args).ended;
}

/** Returns the names of the files in a directory without the lock. */
async function filesIn(directory: string): Promise<readonly string[]> {
  return (await readdir(directory)).filter((name) => name !== '.lock').toSorted();
}

/** Starts a server that answers each request with these bytes and then ends the connection. */
async function answering(t: TestContext, bytes: string | Uint8Array): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(bytes));
  });
  return listening(t, server);
}

async function listening(t: TestContext, server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Returns the command lines of all processes, as every user of the machine can read them. */
function commandLines(): readonly string[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    try {
      return [readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')];
    } catch {
      // Processes end meanwhile.
      return [];
    }
  });
}

test(
  'it takes a backup that is restored, keeps the newest, and shows the token to nobody',
  { timeout: 240_000 },
  async (t) => {
    const work = await temporaryDirectory();
    const backups = join(work, 'backups');
    await mkdir(backups);
    const server = await startServer(t, { args: ['--state', join(work, 'state'), '--auth-token', TOKEN] });
    const authorization = `Bearer ${TOKEN}`;
    assert.equal((await server.post('/call-json/counter/inc', '[]', { authorization })).body, '[1]');
    const old = ['svc-2026-01-01T030000Z.backup', 'svc-2026-01-02T030000Z.backup', 'svc-2026-01-03T030000Z.backup'];
    for (const name of [...old, 'notes.txt']) await writeFile(join(backups, name), 'old');
    const { child, ended } = start(['--token-file', tokenFile, '--url', server.origin, '--keep', '2', backups]);
    const seen = new Set<string>();
    while (child.exitCode === null && child.signalCode === null) {
      for (const line of commandLines().filter((each) => each.includes(server.origin))) seen.add(line);
      await sleep(5);
    }
    const { code, said } = await ended;
    assert.equal(code, 0, said);
    assert.ok(
      [...seen].some((line) => line.startsWith('curl ')),
      'the download was not seen',
    );
    assert.ok(![...seen].some((line) => line.includes('two words')), 'the token is on a command line');
    assert.match(said, /^\S+svc-\S+\.backup: \d+ entries \(\d+ bytes\)$/m);
    const [kept, name = '', ...others] = (await filesIn(backups)).filter((each) => each.endsWith('.backup'));
    assert.deepEqual([kept, others], [old[2], []]);
    assert.ok((await filesIn(backups)).includes('notes.txt'));
    assert.equal((await stat(join(backups, name))).mode & 0o777, 0o600);
    const args = ['--state', join(work, 'restored'), '--restore', join(backups, name)];
    const restored = await startServer(t, { manifest: MANIFEST, args });
    assert.equal((await restored.post('/query-json/counter/get')).body, '[1]');
  },
);

test('what is no whole backup is not kept, whatever the connection says, and the older ones stay', async (t) => {
  const backups = await temporaryDirectory();
  await writeFile(join(backups, 'svc-2026-01-01T030000Z.backup'), 'old');
  const earlier = await filesIn(backups);
  const whole = backupOf(filledTables());
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n';
  const chunk = (bytes: Uint8Array) =>
    Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
  const part = whole.subarray(0, whole.length - 1000);
  // An end by closing looks like a whole answer to curl: only the backup's own end tells.
  const closed = (bytes: Uint8Array) => Buffer.concat([Buffer.from(`${head}connection: close\r\n\r\n`), bytes]);
  const chunked = Buffer.concat([Buffer.from(`${head}transfer-encoding: chunked\r\n\r\n`), chunk(part)]);
  const bad: readonly (readonly [string | Uint8Array, RegExp])[] = [
    [chunked, /no backup came from/],
    [closed(part), /what came is no whole backup: backup: \S+ is not whole: it ends at byte \d+/],
    [closed(Buffer.from('hello')), /what came is no whole backup: backup: \S+ is not a backup of this server/],
    [
      'HTTP/1.1 401 Unauthorized\r\ncontent-length: 9\r\n\r\nno token\n',
      /the server says: no token\n(.*\n)*.*no backup came/,
    ],
    ['', /no backup came from/],
  ];
  for (const [answer, reason] of bad) {
    const { code, said } = await take('--token-file', tokenFile, '--url', await answering(t, answer), backups);
    assert.equal(code, 1, said);
    assert.match(said, reason);
    assert.deepEqual(await filesIn(backups), earlier);
  }
  // The same way the whole one is kept.
  const { code, said } = await take('--token-file', tokenFile, '--url', await answering(t, closed(whole)), backups);
  assert.equal(code, 0, said);
  const [, name = ''] = await filesIn(backups);
  assert.deepEqual(await readFile(join(backups, name)), Buffer.from(whole));
});

test(
  'a job that is ended leaves nothing, one that is killed leaves what the next one takes away, two never mix',
  { timeout: 60_000 },
  async (t) => {
    const backups = await temporaryDirectory();
    let opened = 0;
    const silent = await listening(
      t,
      createServer((socket) => {
        opened++;
        socket.on('error', () => undefined);
        socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\nsvc-backup 1'));
        t.after(() => void socket.destroy());
      }),
    );
    const under = async () => {
      const earlier = opened;
      const job = start(['--url', silent, backups]);
      while (opened === earlier || !(await filesIn(backups)).includes('.part')) await sleep(10);
      return job;
    };
    // systemd tells every process of a unit. The shell comes first: one that lives when its curl ends cleans up.
    const tell = async ({ child: { pid }, ended: end }: ReturnType<typeof start>, signal: NodeJS.Signals) => {
      const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').match(/\d+/g) ?? [];
      assert.ok(children.length > 0);
      process.kill(Number(pid), signal);
      for (const each of children) endIfThere(Number(each), signal);
      const { code } = await end;
      // The lock is held until the last of them has gone.
      while (children.some((each) => existsSync(`/proc/${each}`))) await sleep(1);
      return code;
    };
    const ended = await under();
    const second = await take('--url', silent, backups);
    assert.equal(second.code, 1);
    assert.match(second.said, /another backup is being taken into/);
    assert.equal(await tell(ended, 'SIGTERM'), 1);
    assert.deepEqual(await filesIn(backups), []);
    const killed = await under();
    assert.equal(await tell(killed, 'SIGKILL'), null);
    assert.deepEqual(await filesIn(backups), ['.part']);
    assert.equal((await take('--url', await answering(t, ''), backups)).code, 1);
    assert.deepEqual(await filesIn(backups), []);
  },
);

test('a disk without room keeps the older backups, and no part', async (t) => {
  const backups = await temporaryDirectory();
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', backups], { encoding: 'utf8' });
  assert.equal(mounted.status, 0, `mounting needs root: ${mounted.stderr}`);
  t.after(() => void spawnSync('umount', ['--lazy', backups]));
  await writeFile(join(backups, 'svc-2026-01-01T030000Z.backup'), 'old');
  const whole = Buffer.from(backupOf(filledTables()));
  assert.ok(whole.length > 2 ** 20);
  const head = `HTTP/1.1 200 OK\r\ncontent-length: ${whole.length}\r\n\r\n`;
  const url = await answering(t, Buffer.concat([Buffer.from(head), whole]));
  const { code, said } = await take('--url', url, backups);
  assert.equal(code, 1);
  assert.match(said, /no backup came/);
  assert.deepEqual(await filesIn(backups), ['svc-2026-01-01T030000Z.backup']);
});

test('bad usage is told with what is wrong', async () => {
  const backups = await temporaryDirectory();
  for (const [args, reason] of [
    [[], /the directory for backups is missing; usage: /],
    [[backups, backups], /is one directory too many/],
    [['--keep', '0', backups], /--keep 0 is not a number from 1 on/],
    [['--keep', 'all', backups], /--keep all is not a number/],
    [[backups, '--keep'], /--keep needs a value/],
    [['--token', 'x', backups], /there is no flag --token/],
  ] as const) {
    const { code, said } = await take(...args);
    assert.equal(code, 2, said);
    assert.match(said, reason);
  }
  for (const [args, reason] of [
    [[join(backups, 'none')], /none is not a directory that this user can write to/],
    [['--token-file', join(backups, 'none'), backups], /the token cannot be read from/],
    [['--token-file', '/dev/null', backups], /the token file .dev.null is empty/],
  ] as const) {
    const { code, said } = await take(...args);
    assert.equal(code, 1, said);
    assert.match(said, reason);
  }
  assert.deepEqual(await filesIn(backups), []);
});

test('systemd takes the unit and the timer, and rates the unit at most 2.0', async () => {
  const directory = await temporaryDirectory();
  const text = await readFile(SERVICE, 'utf8');
  const timer = await readFile(join(UNITS, 'svc-backup.timer'), 'utf8');
  // The command has to be there for this check.
  const here = text.replace('/opt/svc/node_modules/svc/config/systemd', UNITS);
  assert.notEqual(here, text);
  const verify = async (service: string, times: string) => {
    await writeFile(join(directory, 'svc-backup.service'), service);
    await writeFile(join(directory, 'svc-backup.timer'), times);
    const args = ['verify', '--man=no', join(directory, 'svc-backup.timer'), join(directory, 'svc-backup.service')];
    const { status, stdout, stderr } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    return [status, stdout, stderr] as const;
  };
  assert.deepEqual(await verify(here, timer), [0, '', '']);
  assert.match((await verify(here.replace('Type=oneshot', 'Type=onceshot'), timer))[2], /onceshot/);
  assert.match((await verify(here, timer.replace('03:00', '33:00')))[2], /calendar specification/);
  const rate = (file: string) =>
    spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', '--no-pager', file]).status;
  assert.equal(rate(SERVICE), 0);
  const bare = join(directory, 'bare.service');
  await writeFile(bare, text.slice(0, text.indexOf('# Hardening')));
  assert.notEqual(rate(bare), 0);
});
