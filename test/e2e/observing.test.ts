/** Operators' view of an actor without code in it: history and debug output, also of a sleeping actor. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { RawClient } from '../support/http-client.ts';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { ANY_ACTOR, compileMotoko } from '../support/motoko.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const TALKER = `
import { debugPrint; trap } "mo:⛔";
persistent actor Talker {
  public func say(text : Text) : async () { debugPrint text };
  public query func echo(text : Text) : async Text { debugPrint text; text };
  public func add(n : Nat) : async Nat { if (n == 13) trap "unlucky"; n + 1 };
  public func relay(n : Nat) : async Nat { await add(n) };
  public func boom() : async () { trap "boom" };
  public func spin() : async () { loop {} };
};`;
const NO_ACTORS = '{ "actors": {} }';

interface Entry {
  readonly seq: number;
  readonly time: string;
  readonly kind: string;
  readonly method: string;
  readonly caller: string;
  readonly args: string;
  readonly outcome: string;
  readonly code: number | null;
  readonly message: string | null;
  readonly instructions: number;
  readonly cycles: number;
  readonly ms: number;
}

async function historyOf(server: RunningServer | InProcessServer, actor: string): Promise<readonly Entry[]> {
  return JSON.parse((await server.get(`/history/${actor}`)).body) as Entry[];
}

async function install(server: RunningServer | InProcessServer, name: string, source: string): Promise<void> {
  assert.equal((await server.post(`/install/${name}`, (await compileMotoko(source)).wasm)).status, 200);
}

suite('history', () => {
  test('tells of calls, queries, calls between actors and changes of code, the oldest first', async (t) => {
    const server = await startServer(t, {
      manifest: NO_ACTORS,
      args: ['--instruction-limit', '50000000', '--log-json', '--heartbeat-ms', '10'],
    });
    await install(server, 'talker', TALKER);
    const caller = { 'x-caller': 'aaaaa-aa' };
    await server.post('/call-json/talker/say', '["hello"]', caller);
    await server.post('/query-json/talker/echo', `["${'ä'.repeat(200_000)}"]`);
    await server.post('/call-json/talker/relay', '[1]');
    await server.post('/call-json/talker/relay', '[13]');
    await server.post('/call-json/talker/boom', '[]');
    await server.post('/call-json/talker/spin', '[]');
    await server.post('/call/talker/say', Buffer.from('no Candid'));
    await server.post('/call-json/talker/say', '[1]'); // This never becomes a message.
    await server.post('/call-json/talker/nothing', '[]');
    await server.post('/upgrade/talker', (await compileMotoko(TALKER)).wasm, caller);

    const entries = await historyOf(server, 'talker');
    const [anonymous, self] = ['2vxsx-fae', 'bkyz2-fmaaa-aaaaa-qaaaq-cai'];
    assert.deepEqual(
      entries.map(({ kind, method, caller: by, args, outcome, code }) => [kind, method, by, args, outcome, code]),
      [
        ['install', '', anonymous, '()', 'reply', null],
        ['update', 'say', 'aaaaa-aa', '("hello")', 'reply', null],
        ['query', 'echo', anonymous, `("${'ä'.repeat(123)}…`, 'reply', null],
        ['call', 'add', self, '(1 : nat)', 'reply', null],
        ['update', 'relay', anonymous, '(1 : nat)', 'reply', null],
        ['call', 'add', self, '(13 : nat)', 'trap', 5],
        ['update', 'relay', anonymous, '(13 : nat)', 'reject', 4],
        ['update', 'boom', anonymous, '()', 'trap', 5],
        ['update', 'spin', anonymous, '()', 'limit', 5],
        ['update', 'say', anonymous, Buffer.from('no Candid').toString('hex'), 'trap', 5],
        ['upgrade', '', 'aaaaa-aa', '()', 'reply', null],
      ],
    );
    assert.deepEqual(
      entries.map(({ seq }) => seq),
      entries.map((_, index) => index + 1),
    );
    assert.match(entries.find(({ method }) => method === 'boom')?.message ?? '', /boom/);
    const spin = entries.find(({ method }) => method === 'spin');
    assert.ok(spin !== undefined && spin.instructions >= 50_000_000 && spin.cycles >= 20_000_000, JSON.stringify(spin));
    assert.equal(entries.find(({ kind }) => kind === 'query')?.cycles, 0);
    for (const { time, ms } of entries) assert.ok(ms > 0 && Math.abs(Date.parse(time) - Date.now()) < 600_000);
    assert.deepEqual(await historyOf(server, 'talker'), entries, 'reading takes nothing away');
    assert.equal(await server.stop(), 0);
    const jobs = server.output.stderr.split('\n').filter((line) => line.includes('"kind":"history"'));
    assert.equal(jobs.length, 2);
    assert.match(
      jobs[0] ?? '',
      /"event":"job","kind":"history","actor":"80000000001000010101","method":"","ok":"true"/,
    );
  });

  test('has at most so many entries as --history says, and none with 0', async (t) => {
    const three = await startInProcess(t, { args: ['--history', '3'] });
    await install(three, 'counter', ANY_ACTOR);
    for (let count = 0; count < 5; count++) await three.post('/call-json/counter/inc');
    assert.deepEqual(
      (await historyOf(three, 'counter')).map(({ seq }) => seq),
      [4, 5, 6],
    );
    await three.stop();
    const none = await startInProcess(t, { args: ['--history', '0'] });
    await install(none, 'counter', ANY_ACTOR);
    await none.post('/call-json/counter/inc');
    assert.equal((await none.get('/history/counter')).body, '[]');
    assert.equal((await none.get('/history/nobody')).status, 404);
  });
});

test('an actor that sleeps is followed, and keeps its history, without being kept awake', async (t) => {
  const directory = await temporaryDirectory();
  const server = await startServer(t, { manifest: NO_ACTORS, args: ['--state', directory, '--live-cap', '1'] });
  await install(server, 'talker', TALKER);
  await install(server, 'other', ANY_ACTOR);
  await using client = new RawClient(server.origin);
  client.write('GET /events/talker HTTP/1.1\r\nHost: x\r\n\r\n');
  await client.until('\r\n\r\n');
  const isAsleep = async (): Promise<boolean> =>
    (JSON.parse((await server.get('/inspect?name=talker')).body) as { live: boolean }[])[0]?.live === false;
  for (const word of ['one', 'two']) {
    await server.post('/call-json/other/inc');
    assert.ok(await isAsleep(), `before ${word}`);
    await server.post('/call-json/talker/say', `["${word}"]`);
    await client.until(`event: debug\ndata: ${word}\n\n`);
  }
  await server.post('/call-json/other/inc');
  assert.ok(await isAsleep());
  assert.deepEqual(
    (await historyOf(server, 'talker')).map(({ kind, args }) => [kind, args]),
    [
      ['install', '()'],
      ['update', '("one")'],
      ['update', '("two")'],
    ],
  );
  assert.ok(await isAsleep(), 'reading its history does not wake it');
  // The stream is still open.
  assert.equal(await server.stop(), 0);
  await client.ended();
});

test('what actors print drives no terminal that shows the log', async (t) => {
  for (const format of [[], ['--log-json']]) {
    const server = await startServer(t, { manifest: NO_ACTORS, args: ['--verbose', ...format] });
    await install(server, 'talker', TALKER);
    const hostile =
      '\u001b[2J\u001b]8;;http://evil.example\u0007click\u001b]8;;\u0007\r2026 ready\nforged\u009b31m\u0085\u007f\u2028\u202etxt';
    await server.post('/call-json/talker/say', JSON.stringify([hostile]));
    assert.equal(await server.stop(), 0);
    const { stderr } = server.output;
    assert.match(stderr, /\[talker\] \\u001b\[2J/);
    assert.doesNotMatch(stderr, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/);
    assert.doesNotMatch(stderr, /^forged/m);
  }
});
