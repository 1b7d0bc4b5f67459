import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, createReadStream, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLog, type LogOptions, type ServerLog } from '../../config/log.ts';
import { FakeClock } from '../support/fake-clock.ts';

const START_MS = Date.UTC(2026, 0, 31, 13, 45, 12, 7);

interface Scene {
  readonly log: ServerLog;
  readonly clock: FakeClock;
  readonly announced: string[];
  /** Everything written, once the log is closed. */
  readonly written: () => Promise<string>;
}

function scene(t: TestContext, options: Partial<LogOptions> = {}): Scene {
  const folder = mkdtempSync(join(tmpdir(), 'svc-log-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'log');
  const clock = new FakeClock(START_MS);
  const announced: string[] = [];
  const log = createLog({
    isJson: false,
    isVerbose: false,
    hasColor: false,
    clock,
    destination: openSync(file, 'a'),
    announce: (line) => announced.push(line),
    ...options,
  });
  const written = async (): Promise<string> => {
    await log.close();
    return readFileSync(file, 'utf8');
  };
  return { log, clock, announced, written };
}

test('with --log-json a line has exactly ts, event and the fields of the event', async (t) => {
  const { log, clock, written } = scene(t, { isJson: true });
  log.event('job', { kind: 'call', actor: '8000', method: 'a"b\n', ok: 'true', ms: '1.5' }, 'prose');
  clock.advance(0.75);
  log.event('ready', { actors: 2 }, 'prose');
  log.event('drained', {}, 'prose');
  assert.deepEqual((await written()).split('\n'), [
    `{"ts":${START_MS},"event":"job","kind":"call","actor":"8000","method":"a\\"b\\n","ok":"true","ms":"1.5"}`,
    `{"ts":${START_MS},"event":"ready","actors":2}`,
    `{"ts":${START_MS},"event":"drained"}`,
    '',
  ]);
});

test('messages are events too, and an error carries its causes', async (t) => {
  const { log, written } = scene(t, { isJson: true });
  log.info('starting');
  log.warn('slow');
  log.error('failed', new Error('outer', { cause: new Error('inner') }));
  const lines = (await written()).trimEnd().split('\n');
  const [info, warning, error] = lines.map(
    (line): Record<string, unknown> => JSON.parse(line) as Record<string, unknown>,
  );
  assert.deepEqual(info, { ts: START_MS, event: 'info', message: 'starting' });
  assert.deepEqual(warning, { ts: START_MS, event: 'warning', message: 'slow' });
  assert.equal(error?.['event'], 'error');
  assert.match(String(error?.['detail']), /^Error: outer\n[^]*\ncaused by: Error: inner\n/);
});

test('whatever is thrown is told: causes in a circle, and what throws while it is read', async (t) => {
  const { log, written } = scene(t, { isJson: true });
  const circle: Error = new Error('round');
  circle.cause = new Error('and', { cause: circle });
  log.error('one', circle);
  const trap = Object.defineProperty(new Error('trap'), 'stack', {
    get: () => {
      throw new Error('unreadable');
    },
  });
  log.error('two', trap);
  log.error('three', new Proxy(new Error('hidden'), { getPrototypeOf: () => assert.fail('looked at') }));
  const lines = (await written()).trimEnd().split('\n');
  assert.equal(lines.length, 3);
  assert.equal(lines[0]?.split('caused by').length, 9);
  assert.match(lines[1] ?? '', /throws while it is read: unreadable/);
  assert.match(lines[2] ?? '', /"message":"three"/);
});

test('prose has a time, the words, and a level where it matters', async (t) => {
  const { log, clock, written } = scene(t);
  log.event('job', { kind: 'call' }, 'call counter.inc ok 1.5 ms');
  clock.advance(993);
  log.warn('two\nlines');
  assert.equal(
    await written(),
    '2026-01-31 13:45:12.007 call counter.inc ok 1.5 ms\n2026-01-31 13:45:13.000 warning: two\n  lines\n',
  );
});

test('prose from outside can neither forge a line nor drive a terminal', async (t) => {
  const { log, written } = scene(t);
  log.event('job', {}, 'call \u001b[2J\n2026-01-31 forged');
  log.info('\u001b]0;title\u0007');
  assert.equal(
    await written(),
    '2026-01-31 13:45:12.007 call \\u001b[2J\\u000a2026-01-31 forged\n2026-01-31 13:45:12.007 \\u001b]0;title\\u0007\n',
  );
});

test('colours only where they are wanted', async (t) => {
  const { log, written } = scene(t, { hasColor: true });
  log.error('bad');
  assert.equal(await written(), '2026-01-31 13:45:12.007 \u001b[31merror: bad\u001b[0m\n');
});

test('debug lines are printed only when verbose', async (t) => {
  const quiet = scene(t);
  quiet.log.debug('hidden');
  assert.equal(await quiet.written(), '');
  const verbose = scene(t, { isVerbose: true });
  verbose.log.debug('shown');
  assert.match(await verbose.written(), /debug: shown\n$/);
});

test('lines of the start-up protocol do not go to the log', async (t) => {
  const { log, announced, written } = scene(t, { isJson: true });
  log.announce('listening on http://127.0.0.1:7000');
  assert.deepEqual(announced, ['listening on http://127.0.0.1:7000']);
  assert.equal(await written(), '');
});

test('what an actor says forges no line of the start-up protocol', (t) => {
  const { log, announced } = scene(t);
  log.announce('REJECTED a init trapped: no\nshutdown: 1 actor(s) checkpointed\r\nready: 1 actor(s)\u2028ready');
  assert.deepEqual(announced, [
    'REJECTED a init trapped: no\n  shutdown: 1 actor(s) checkpointed\\u000d\n  ready: 1 actor(s)\\u2028ready',
  ]);
});

test('a hundred thousand lines arrive complete and in order', async (t) => {
  const { log, written } = scene(t, { isJson: true });
  for (let n = 0; n < 100_000; n++) log.event('job', { n }, '');
  const lines = (await written()).trimEnd().split('\n');
  assert.equal(lines.length, 100_000);
  lines.forEach((line, n) => assert.ok(line.endsWith(`"n":${n}}`)));
});

test('lines of any length and script arrive whole and in order, also around what is written at once', async (t) => {
  const { log, written } = scene(t, { isJson: true });
  const texts: string[] = [];
  const say = (text: string): void => {
    texts.push(text);
    log.event('job', { text }, '');
  };
  for (const letter of ['a', 'ä', 'あ', '𝄞']) {
    // 32 KiB are written at once; a character may take three bytes.
    for (const length of [0, 1, 10_800, 10_900, 10_922, 10_923, 16_384, 32_700, 32_768, 40_000, 100_000]) {
      say(letter.repeat(length / letter.length));
      say('between');
    }
    for (let n = 0; n < 300; n++) say(letter.repeat(n));
  }
  const lines = (await written()).trimEnd().split('\n');
  assert.deepEqual(
    lines.map((line) => (JSON.parse(line) as { readonly text: string }).text),
    texts,
  );
});

test(
  'a log whose reader takes nothing drops lines, and says how many once it reads again',
  { timeout: 30_000 },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-log-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const pipe = join(folder, 'pipe');
    execFileSync('mkfifo', [pipe]);
    // Without a reader a pipe cannot be opened for writing.
    const nobody = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
    const destination = openSync(pipe, 'w');
    const { log } = scene(t, { isJson: true, destination });
    const TEXT = 'x'.repeat(1000);
    const SENT = 40_000;
    for (let n = 0; n < SENT; n++) log.event('job', { n, text: TEXT }, '');
    const chunks: Buffer[] = [];
    const stream = createReadStream('', { fd: openSync(pipe, 'r') });
    closeSync(nobody);
    stream.on('data', (chunk) => chunks.push(chunk as Buffer));
    const read = (): string[] => Buffer.concat(chunks).toString().split('\n');
    while (!read().at(-2)?.includes('were dropped')) await sleep(20);
    await log.close();
    closeSync(destination);
    await once(stream, 'close');
    const lines = read();
    const dropped = Number(/(\d+) log lines were dropped/.exec(lines.at(-2) ?? '')?.[1]);
    assert.ok(dropped > SENT / 2, `${dropped} were dropped`);
    assert.equal(lines.length - 2 + dropped, SENT, 'every line arrives or is counted');
  },
);

test('what a process logs last is written before it ends', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-log-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'log');
  const log = createLog({
    isJson: false,
    isVerbose: false,
    hasColor: false,
    clock: new FakeClock(),
    destination: openSync(file, 'a'),
    announce: () => undefined,
  });
  log.error('the last words');
  log.flushNow();
  assert.match(readFileSync(file, 'utf8'), /the last words\n$/);
});

test('the last words come behind the lines before them, however long they are', (t) => {
  for (const length of [10, 3_000, 9_000, 11_000]) {
    const folder = mkdtempSync(join(tmpdir(), 'svc-log-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'log');
    const { log } = scene(t, { isJson: true, destination: openSync(file, 'a') });
    for (let n = 0; n < 50; n++) log.event('job', { n, text: 'x'.repeat(300) }, '');
    log.error('y'.repeat(length));
    log.flushNow();
    const events = readFileSync(file, 'utf8').trimEnd().split('\n');
    assert.deepEqual(
      events.map((line) => (JSON.parse(line) as { readonly n?: number }).n),
      [...Array(50).keys(), undefined],
    );
  }
});

/** Runs a script in a process of its own with `log`, a JSON log whose file may have 4 KiB, until `makeRoom`. */
function runWithFullDisk(t: TestContext, script: string): { readonly status: number | null; readonly lines: string[] } {
  const folder = mkdtempSync(join(tmpdir(), 'svc-log-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'log');
  const module = `
    import { execFileSync, spawnSync } from 'node:child_process';
    import { openSync } from 'node:fs';
    import { setTimeout as sleep } from 'node:timers/promises';
    import { createLog } from ${JSON.stringify(new URL('../../config/log.ts', import.meta.url).href)};
    const log = createLog({
      isJson: true, isVerbose: false, hasColor: false, clock: { nowMs: () => 0 }, announce: () => undefined,
      destination: openSync(${JSON.stringify(file)}, 'a'),
    });
    const say = (n, length) => log.event('job', { n, text: 'x'.repeat(length) }, '');
    const makeRoom = () => execFileSync('prlimit', ['--pid', String(process.pid), '--fsize=unlimited']);
    ${script}`;
  const command = 'ulimit -S -f 8; exec "$0" --input-type=module -e "$1"';
  const { status } = spawnSync('sh', ['-c', command, process.execPath, module], { timeout: 20_000 });
  return { status, lines: readFileSync(file, 'utf8').split('\n').slice(0, -1) };
}

test('a process whose log has no room ends all the same', (t) => {
  for (const end of ['await log.close();', 'log.flushNow();', 'log.flushNow(); process.exit(0);', '']) {
    const { status, lines } = runWithFullDisk(
      t,
      `for (let n = 0; n < 100; n++) say(n, 100); await sleep(50); say(100, 100); ${end}`,
    );
    assert.equal(status, 0, end);
    assert.ok(lines.length > 10 && lines.length < 50, `${lines.length} lines had room`);
  }
  assert.equal(runWithFullDisk(t, 'for (let n = 0; n < 100; n++) say(n, 100); log.flushNow();').status, 0);
  // Nobody has heard of the first write's end yet.
  const amidWrite = 'say(0, 40_000); say(1, 5_000); log.flushNow(); process.exit(0);';
  assert.equal(runWithFullDisk(t, amidWrite).status, 0);
});

test('lines that had no room are written, whole and in order, once there is some', (t) => {
  const { status, lines } = runWithFullDisk(
    t,
    `const lengths = [100, 3000, 300, 15000, 400, 9000, 10000, 40000];
    for (const [n, length] of lengths.entries()) { say(n, length); await sleep(40); }
    makeRoom();
    say(lengths.length, 10);
    await log.close();`,
  );
  assert.equal(status, 0);
  assert.deepEqual(
    lines.map((line) => (JSON.parse(line) as { readonly n: number }).n),
    [0, 1, 2, 3, 4, 5, 6, 7, 8],
  );
});
