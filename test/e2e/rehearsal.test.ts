/** Real servers: upgrades are rehearsed on copies, with messages that were recorded, and nothing of that stays. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { compileMotoko } from '../support/motoko.ts';
import { showing, writeTokens } from '../support/token-file.ts';
import { Deployment } from './durability/deployment.ts';
import type { Host } from './semantics/host.ts';
import { begun, call, FLAGS, HOLDER, PEER, SHOP, traffic } from './shop.ts';

type Change = readonly [from: string, to: string];
/** New code that does the same in other instructions, and one query more. */
const SAME: readonly Change[] = [
  ['items := [item];', 'var k = 0; while (k < 50) { k += 1 }; items := [item];'],
  ['public query func sum()', 'public query func more() : async Nat { 1 };\n public query func sum()'],
];
/** New code that cannot read an old variant. */
const MISREADS: readonly Change[] = [['case (#voucher n) { n }', 'case (#voucher n) { assert n > 1_000; n }']];
const TELLS_OTHERWISE: readonly Change[] = [['Peer).tell(n)', 'Peer).tell(n + 1)']];

const modules = new Map<string, Uint8Array>();
async function shop(changes: readonly Change[] = []): Promise<Uint8Array> {
  let source = SHOP;
  for (const [from, to] of changes) {
    assert.ok(source.includes(from), from);
    source = source.replace(from, to);
  }
  let wasm = modules.get(source);
  if (wasm === undefined) modules.set(source, (wasm = (await compileMotoko(source)).wasm));
  return wasm;
}
let peer: Uint8Array;
let holder: Uint8Array;
before(async () => {
  [peer, holder] = [(await compileMotoko(PEER)).wasm, (await compileMotoko(HOLDER)).wasm];
});

interface End {
  readonly outcome: string;
  readonly reply?: string;
  readonly message?: string;
}
interface Report {
  readonly upgraded: boolean;
  readonly code?: number;
  readonly message?: string;
  readonly hooks: { readonly outcome: string; readonly message: string | null; readonly instructions: number };
  readonly replayed: {
    readonly from: { readonly seq: number } | null;
    readonly to: { readonly seq: number } | null;
    readonly why: string | null;
    readonly count: number;
    readonly same: number;
    readonly different: number;
    readonly diverged: number;
    readonly broken: number;
    readonly leftOut: number;
    readonly inexact: number;
    readonly instructions: { readonly was: { p50: number; most: number }; readonly is: { p50: number; most: number } };
    readonly differences: readonly {
      readonly seq: number;
      readonly method: string;
      readonly args: string;
      readonly was: End;
      readonly is: End;
      readonly calls: { readonly notMade: readonly string[]; readonly added: readonly string[] };
      readonly behindDivergence: boolean;
    }[];
    readonly probes: readonly {
      readonly method: string;
      readonly same: boolean;
      readonly was: End;
      readonly is: End;
    }[];
  } | null;
}

async function started(
  t: TestContext,
  args = FLAGS,
): Promise<{ deployment: Deployment; host: Host; principal: string }> {
  const deployment = await Deployment.create(t, { args, modules: { shop: await shop(), peer, holder } });
  await deployment.start();
  const { principal } = await deployment.host.find('peer');
  return { deployment, host: deployment.host, principal };
}

async function upgrade(host: Host, wasm: Uint8Array, query: string): Promise<{ status: number; report: Report }> {
  const { status, body } = await host.server.post(`/upgrade/shop?${query}`, wasm);
  return { status, report: JSON.parse(body) as Report };
}

function replayed({ replayed: messages }: Report): NonNullable<Report['replayed']> {
  assert.ok(messages !== null);
  return messages;
}

/** All that can be seen of the actors, the executor's counts aside. */
async function visible(host: Host): Promise<string> {
  const parts = await Promise.all(
    ['/x/time/state/shop', '/x/time/state/peer', '/history/shop', '/actors', '/x/time/timeline/shop?limit=1000'].map(
      async (path) => (await host.server.get(path)).body,
    ),
  );
  return parts.join('\n');
}

test('code that does the same answers recorded messages of every kind as before, and nothing of that stays', async (t) => {
  const { deployment, host, principal } = await started(t);
  await begun(host);
  await traffic(host, principal);
  const earlier = await visible(host);
  const { status, report } = await upgrade(host, await shop(SAME), 'dry=1&replay=16');
  const { count, same, leftOut, inexact, differences, probes, why } = replayed(report);
  assert.equal(status, 200);
  assert.deepEqual([report.upgraded, report.hooks.outcome, why], [false, 'done', null]);
  assert.deepEqual({ differences, inexact, leftOut, same }, { differences: [], inexact: 0, leftOut: 0, same: count });
  assert.ok(count >= 16, `${count} messages`);
  assert.deepEqual(
    probes.map(({ method, same: isSame }) => [method, isSame]),
    [
      ['last', true],
      ['sum', true],
    ],
  );
  assert.equal(await visible(host), earlier);
  // Notes of calls are read again from the disk.
  await deployment.kill();
  await deployment.start();
  const again = replayed((await upgrade(deployment.host, await shop(SAME), 'dry=1&replay=16')).report);
  assert.deepEqual([again.differences, again.inexact, again.count], [[], 0, count]);
});

test('code that misreads an old variant is refused with the message that shows it, and done where that is forced', async (t) => {
  const { host, principal } = await started(t);
  await begun(host);
  await traffic(host, principal);
  const misreads = await shop(MISREADS);
  const { differences, broken, different, diverged } = replayed(
    (await upgrade(host, misreads, 'dry=1&replay=3')).report,
  );
  assert.deepEqual([broken, different, diverged], [1, 1, 0], JSON.stringify(differences));
  const [difference] = differences;
  assert.ok(difference !== undefined);
  const { method, was, is, behindDivergence } = difference;
  assert.deepEqual(
    [method, was.outcome, was.reply, is.outcome, behindDivergence],
    ['price', 'reply', '(9 : nat)', 'trap', false],
  );
  assert.match(is.message ?? '', /assertion failed/);
  const refused = await upgrade(host, misreads, 'report=1&replay=3');
  assert.equal(refused.status, 400);
  assert.match(refused.report.message ?? '', new RegExp(`fails in 1 of the last \\d+ messages.*seq:${difference.seq}`));
  assert.equal(replayed(refused.report).broken, 1);
  assert.equal(await call(host, 'price', []), '[9]', 'the old code serves');
  assert.equal((await upgrade(host, misreads, 'report=1&replay=3&force=true')).report.upgraded, true);
  assert.match(await call(host, 'price', []), /assertion failed/);
});

test('under --upgrade-policy warn such code is put in place, and the log says what fails', async (t) => {
  const { host, principal } = await started(t, [...FLAGS, '--upgrade-policy', 'warn']);
  await begun(host);
  await traffic(host, principal);
  const { report } = await upgrade(host, await shop(MISREADS), 'report=1&replay=3');
  assert.equal(report.upgraded, true);
  assert.match(
    host.server.output.stdout,
    /WARNING shop was upgraded, though the new code fails in 1 of the last \d+ messages/,
  );
});

test('messages behind other calls count as diverged, and their callbacks are left out', async (t) => {
  const { host, principal } = await started(t);
  await begun(host);
  await call(host, 'tell', [principal, '5']);
  await call(host, 'price', []);
  await call(host, 'add', [{ book: '1' }]);
  const told = async (): Promise<string> => (await host.server.post('/query-json/peer/count', '[]')).body;
  const earlier = await told();
  const { differences, count, diverged, leftOut, broken, same } = replayed(
    (await upgrade(host, await shop(TELLS_OTHERWISE), 'dry=1&replay=4')).report,
  );
  assert.deepEqual(
    { count, diverged, leftOut, broken, same },
    { count: 3, diverged: 1, leftOut: 1, broken: 0, same: 1 },
  );
  assert.deepEqual(differences[0]?.calls, { notMade: [`tell of ${principal}`], added: [`tell of ${principal}`] });
  // The total lacks what the peer had told.
  assert.deepEqual([differences[1]?.method, differences[1]?.behindDivergence], ['add', true]);
  assert.equal(await told(), earlier, 'no call was sent');
});

test('a span begins behind the last change of code, and where no call was open', async (t) => {
  const { host, principal } = await started(t);
  await begun(host);
  await traffic(host, principal);
  assert.equal((await host.server.post('/upgrade/shop', await shop(SAME))).body, 'upgraded');
  assert.equal(replayed((await upgrade(host, await shop(), 'dry=1&force=true&replay=5')).report).count, 0);
  await call(host, 'add', [{ book: '2' }]);
  const behind = replayed((await upgrade(host, await shop(), 'dry=1&force=true&replay=5')).report);
  assert.deepEqual([behind.count, behind.same], [1, 1]);
  assert.match(behind.why ?? '', /older messages were for other code/);
  const { principal: holding } = await host.find('holder');
  const held = call(host, 'hold', [holding]);
  await host.until(async () => {
    const { body } = await host.server.get('/x/time/timeline/shop?from=now');
    assert.equal((JSON.parse(body) as [{ openCalls: number }])[0].openCalls, 1);
  });
  await call(host, 'add', [{ book: '4' }]);
  const open = replayed((await upgrade(host, await shop(), 'dry=1&force=true&replay=1')).report);
  assert.deepEqual(
    [open.count, open.same, open.inexact, open.why],
    [2, 2, 0, null],
    'one message more, without open calls',
  );
  await host.server.post('/call-json/holder/release', '[]');
  assert.equal(await held, '[5]');
  const ended = replayed((await upgrade(host, await shop(), 'dry=1&force=true&replay=2')).report);
  assert.deepEqual([ended.count, ended.same, ended.inexact], [3, 3, 0]);
});

test('without a timeline the hooks are tried alone; a module that cannot be loaded is refused as ever', async (t) => {
  const { host } = await started(t, ['--heartbeat-ms', '0']);
  const hash = async (): Promise<string> => (await host.server.get('/types/shop')).body;
  const earlier = await hash();
  const { status, report } = await upgrade(host, await shop(SAME), 'dry=1');
  assert.deepEqual([status, report.upgraded, report.hooks.outcome, report.replayed], [200, false, 'done', null]);
  assert.ok(report.hooks.instructions > 0);
  const asked = await upgrade(host, await shop(SAME), 'dry=1&replay=5');
  assert.deepEqual(
    [asked.status, asked.report.message],
    [400, 'this server keeps no timeline: start it with --timeline SECONDS, which needs --state DIR'],
  );
  for (const replay of ['0', '-1', '10001', '1e3', 'x', ''])
    assert.ok([400, 404].includes((await upgrade(host, await shop(SAME), `dry=1&replay=${replay}`)).status), replay);
  assert.equal((await upgrade(host, Buffer.from('no module'), 'dry=1')).status, 400);
  assert.equal(await hash(), earlier);
});

test('the manifest asks for a rehearsal before each upgrade, of a body and of its file', async (t) => {
  const { deployment } = await started(t);
  const manifest = { actors: { shop: { wasm: 'shop.wasm', rehearse: 2 }, peer: { wasm: 'peer.wasm' } } };
  await deployment.kill();
  await writeFile(join(deployment.folder, 'actors.json'), JSON.stringify(manifest));
  await deployment.start();
  const { host } = deployment;
  await begun(host);
  for (const item of [{ book: '1' }, { voucher: '1' }]) await call(host, 'add', [item]);
  await call(host, 'price', []);
  const misreads = await shop(MISREADS);
  await writeFile(join(deployment.folder, 'shop.wasm'), misreads);
  for (const body of [misreads, '']) {
    const answer = await host.server.post('/upgrade/shop', body);
    assert.deepEqual([answer.status, /the new code fails in 1 of/.test(answer.body)], [400, true], answer.body);
  }
  await call(host, 'add', [{ book: '1' }]);
  await call(host, 'add', [{ book: '2' }]);
  const done = await host.server.post('/upgrade/shop', misreads);
  assert.equal(done.body, 'upgraded', 'the last two messages do not show it');
  assert.match((await host.server.post('/upgrade/shop', await shop(SAME))).body, /^upgraded$/);
  assert.match(
    host.server.output.stdout,
    /WARNING shop was upgraded without rehearsal: older messages were for other code/,
  );
});

test('an actor that sleeps is rehearsed with what is stored of it', async (t) => {
  const { host, principal } = await started(t, [...FLAGS, '--live-cap', '1']);
  await begun(host);
  await traffic(host, principal);
  await host.server.post('/call-json/peer/tell', '["1"]');
  const { report } = await upgrade(host, await shop(SAME), 'dry=1&replay=12');
  const { differences, inexact, leftOut } = replayed(report);
  assert.deepEqual([report.hooks.outcome, differences, inexact, leftOut], ['done', [], 0, 0]);
});

test('the past in a report needs the scope time', async (t) => {
  const may = ['upgrade:shop', 'call:shop'];
  const tokens = await writeTokens({ upgrader: { may }, rehearser: { may: [...may, 'time:shop'] } });
  const deployment = await Deployment.create(t, {
    args: [...FLAGS, '--tokens', tokens],
    modules: { shop: await shop() },
  });
  await deployment.start();
  const { origin } = deployment.host.server;
  const misreads = await shop(MISREADS);
  const ask = async (name: string, query: string): Promise<{ readonly status: number; readonly text: string }> => {
    const url = `${origin}/upgrade/shop?${query}`;
    const answer = await fetch(url, { method: 'POST', headers: showing(name), body: Buffer.from(misreads) });
    return { status: answer.status, text: await answer.text() };
  };
  const refused = await ask('upgrader', 'dry=1&replay=5');
  assert.deepEqual([refused.status, refused.text.includes('time:shop')], [403, true]);
  assert.equal((await ask('upgrader', 'dry=1')).status, 200);
  assert.equal((await ask('rehearser', 'dry=1&replay=5')).status, 200);
});

test('code that never ends is ended by its limit, and an upgrade that is deleted meanwhile is over', async (t) => {
  const { host } = await started(t, [...FLAGS, '--instruction-limit', '300000000']);
  await begun(host);
  for (let n = 0; n < 3; n++) await call(host, 'price', []);
  const loops = await shop([
    ['public func price() : async Nat {', 'public func price() : async Nat { while (total > 0) {}; '],
  ]);
  const { count, broken, differences } = replayed((await upgrade(host, loops, 'dry=1&replay=3')).report);
  assert.deepEqual([count, broken], [3, 3]);
  assert.deepEqual(
    differences.map(({ is }) => is.outcome),
    ['limit', 'limit', 'limit'],
  );
  const upgrading = host.server.post('/upgrade/shop?replay=3&force=true', loops);
  assert.equal((await fetch(`${host.server.origin}/actors/shop?force=true`, { method: 'DELETE' })).status, 200);
  const { status, body } = await upgrading;
  assert.ok(status === 404 || status === 200, body);
});

test('a rehearsal whose client goes away is over, and another one has its place', async (t) => {
  const { host } = await started(t, [...FLAGS, '--instruction-limit', '1000000000000']);
  await begun(host);
  for (let n = 0; n < 3; n++) await call(host, 'price', []);
  const endless: Change = [
    'public func price() : async Nat {',
    'public func price() : async Nat { while (total > 0) {}; ',
  ];
  const loops = await shop([endless]);
  const gone = new AbortController();
  const asked = Array.from({ length: 2 }, () =>
    fetch(`${host.server.origin}/upgrade/shop?dry=1&replay=3`, {
      method: 'POST',
      body: Buffer.from(loops),
      signal: gone.signal,
    }),
  );
  await host.until(async () => assert.equal((await upgrade(host, loops, 'dry=1')).status, 503));
  gone.abort();
  for (const answer of asked) await assert.rejects(answer, { name: 'AbortError' });
  await host.until(async () => assert.equal((await upgrade(host, await shop(SAME), 'dry=1')).status, 200), 20_000);
});
