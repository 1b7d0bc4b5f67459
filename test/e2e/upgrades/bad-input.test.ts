/** Upgrades that cannot work, and upgrades at a bad moment: the old actor and all others serve on. */
import assert from 'node:assert/strict';
import { after, suite, test } from 'node:test';
import { RawClient } from '../../support/http-client.ts';
import { type InProcessServer, startInProcess } from '../../support/in-process-server.ts';
import { wat } from '../../support/wat.ts';
import { argumentOf, MOOD, type Mood, moduleOf } from './modules.ts';

const endings: (() => Promise<void>)[] = [];
after(async () => {
  for (const end of endings) await end();
});
const LIMIT = 3_000_000;
const WAITING = 5_000;

let server: InProcessServer;
let installed = 0;

/** Makes a ledger that has counted to one. */
async function ledger(persistence: 'enhanced' | 'classical' = 'enhanced'): Promise<string> {
  server ??= await startInProcess(
    { after: (end) => endings.push(end) },
    { args: ['--instruction-limit', String(LIMIT)] },
  );
  const name = `ledger_${++installed}`;
  const module = await moduleOf('base', persistence);
  const { status, body } = await server.post(`/install/${name}?${argumentOf(MOOD.works)}`, module);
  assert.equal(status, 200, body);
  await server.post(`/call-json/${name}/inc`);
  return name;
}

const upgrade = (name: string, module: Uint8Array | '', query = '', mood: Mood = MOOD.works) =>
  server.post(`/upgrade/${name}?${argumentOf(mood)}${query}`, module);
const digestOf = async (name: string): Promise<string> =>
  (JSON.parse((await server.post(`/query-json/${name}/digest`)).body) as [string])[0];

async function refused(name: string, module: Uint8Array | '', message: RegExp, mood?: Mood): Promise<void> {
  const before = await digestOf(name);
  for (const query of ['', '&force=true', '&report=1']) {
    const { status, body } = await upgrade(name, module, query, mood);
    assert.equal(status, 400, body);
    assert.match((JSON.parse(body) as { message: string }).message, message);
    assert.equal(await digestOf(name), before, 'the old code, with its state');
  }
  const counted = JSON.parse((await server.post(`/call-json/${name}/inc`)).body) as [number];
  assert.equal(counted[0], 2, 'it goes on');
}

suite('modules that cannot take the place of an actor', () => {
  test('one that is truncated, imports what is not there, is no module, or is not there', async () => {
    const module = await moduleOf('wider');
    await refused(await ledger(), module.subarray(0, module.length / 2), /the module|section|ends/i);
    const unknown = wat('(module (import "ic0" "fly" (func)) (memory 1) (func (export "canister_update inc")))');
    await refused(await ledger(), unknown, /fly/);
    await refused(await ledger(), Buffer.from('no module'), /module/);
    await refused(await ledger(), '', /^no wasm recorded for that actor$/);
  });

  test('one of 100 MiB is refused, and others are served meanwhile', async () => {
    const [large, other] = [await ledger(), await ledger()];
    const module = await moduleOf('wider');
    // A custom section that makes the module large.
    const filler = Buffer.alloc(100 * 1024 * 1024);
    const length = [0, 7, 14, 21, 28].map((shift) => ((filler.length >>> shift) & 0x7f) | (shift < 28 ? 0x80 : 0));
    filler.set([1, 0x78]);
    const bytes = Buffer.concat([module, Buffer.of(0, ...length), filler]);
    const upgrading = upgrade(large, bytes);
    const served = server.post(`/call-json/${other}/inc`);
    assert.equal((await served).body, '[2]');
    const { status, body } = await upgrading;
    assert.equal(status, 400, body);
    assert.match(body, /104857600|100 MiB/);
    assert.equal(await digestOf(large), '(1, ["1!"], 0)');
  });

  test('one for the other mode of persistence', async () => {
    await refused(await ledger('enhanced'), await moduleOf('base', 'classical'), /keeps its state in its heap/);
    await refused(await ledger('classical'), await moduleOf('base'), /Detected implicit upgrade from classical/);
  });
});

suite('hooks that fail', () => {
  for (const [what, mood, message] of [
    ['trap', MOOD.traps, /assertion failed at Main.mo/],
    ['pass the instruction limit', MOOD.endless, /exceeded the limit of 3000000 instructions/],
  ] as const) {
    for (const persistence of ['enhanced', 'classical'] as const) {
      test(`pre_upgrade and post_upgrade that ${what}, with ${persistence} persistence, change nothing`, async () => {
        const wider = await moduleOf('wider', persistence);
        await refused(await ledger(persistence), wider, message, mood);
        const name = await ledger(persistence);
        assert.equal((await server.post(`/call-json/${name}/arm`, `[${mood}]`)).status, 200);
        await refused(name, wider, message);
        await server.post(`/call-json/${name}/arm`, '[0]');
        assert.equal((await upgrade(name, wider)).body, 'upgraded');
        assert.equal(await digestOf(name), '(2, ["2!"], 0, 7)');
      });
    }
  }

  test('the report of a hook that failed says what was found, what it took, and what it printed', async () => {
    const name = await ledger();
    const { body } = await upgrade(name, await moduleOf('wider'), '&report=1', MOOD.traps);
    const report = JSON.parse(body) as Record<string, unknown> & {
      instructions: number;
      stable: { compatible: boolean };
    };
    assert.deepEqual(Object.keys(report), [
      'upgraded',
      'module',
      'stable',
      'candid',
      'persistence',
      'instructions',
      'code',
      'message',
      'logs',
    ]);
    assert.deepEqual([report['upgraded'], report.stable.compatible, report['code']], [false, true, 5]);
    assert.ok(report.instructions > 1_000 && report.instructions < LIMIT, String(report.instructions));
  });
});

suite('upgrades at a bad moment', () => {
  test('of two at once, one follows the other, and is compared with what that has left', async () => {
    const name = await ledger();
    const [wider, base] = [await moduleOf('wider'), await moduleOf('base')];
    const [first, second] = await Promise.all([upgrade(name, wider), upgrade(name, base)]);
    const digest = await digestOf(name);
    if (first.status === 200 && second.status === 200) {
      // The second upgrade was done first.
      assert.equal(digest, '(1, ["1!"], 0, 7)');
    } else {
      assert.deepEqual([first.status, second.status], [200, 400]);
      assert.match(second.body, /M0169.*`extra`/);
      assert.equal(digest, '(1, ["1!"], 0, 7)');
    }
    const many = await Promise.all(Array.from({ length: 8 }, () => upgrade(name, wider)));
    assert.deepEqual(new Set(many.map(({ body }) => body)), new Set(['upgraded']));
    assert.equal(await digestOf(name), '(1, ["1!"], 0, 7)');
  });

  test(`while ${WAITING} messages wait, each of them is answered, and what was answered well is kept`, async () => {
    const name = await ledger();
    await using client = new RawClient(server.origin);
    const request = `POST /call-json/${name}/inc HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]`;
    client.write(request.repeat(WAITING));
    const upgraded = await upgrade(name, await moduleOf('wider'));
    assert.deepEqual(upgraded, { status: 200, body: 'upgraded' });
    const count = (pattern: RegExp): number => client.received.match(pattern)?.length ?? 0;
    while (count(/HTTP\/1\.1 \d/g) < WAITING && !client.isClosed)
      await new Promise((resolve) => setTimeout(resolve, 50));
    const [done, others] = [count(/HTTP\/1\.1 200 /g), count(/HTTP\/1\.1 400 /g)];
    assert.equal(done + others, WAITING, 'each is answered once');
    assert.ok(done > 0, 'those that came before are executed');
    assert.equal(
      count(/\{"code":5,"message":"[^"]*stopp[^"]*"\}/g),
      others,
      'those that came while it was stopping say so',
    );
    assert.equal(await digestOf(name), `(${showNat(1 + done)}, ["${showNat(1 + done)}!"], 0, 7)`);
  });
});

/** Formats a number as Motoko does. */
function showNat(value: number): string {
  return value.toLocaleString('en-US').replaceAll(',', '_');
}
