/**
 * State that installation, upgrades, uninstallation and snapshots keep and drop (docs/execution-rules.md), shown by
 * actors that run scripts.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { suite, test } from 'node:test';
import { BLOB_AT, type Call, RESULTS_AT } from '../../subsystems/execution/script-canister.ts';
import { compileActor, type Host, sharedHost } from './host.ts';
import { Laboratory, MODULE, modeOf, NOTHING, outgoing, replyWith, script, type Subject } from './laboratory.ts';

const HOST_ARGS = ['--timer-ms', '10', '--heartbeat-ms', '0'];
const FAR = 9_000_000_000_000_000_000n;
const REPLY: readonly Call[] = [['msg_reply']];
const TIMER_SLOT = 21;

const open = async (): Promise<Laboratory> => Laboratory.open(await sharedHost({ args: HOST_ARGS }));
/** Returns the timer and turns it off: setting a timer answers the former one. */
const takeTimer = (subject: Subject): Promise<bigint> => subject.result(['global_timer_set', 0]);
const print = (text: string): { readonly calls: readonly Call[]; readonly blob: Uint8Array } => ({
  calls: [['debug_print', BLOB_AT, text.length]],
  blob: Buffer.from(text),
});

/** Makes an actor with a method that answers only when told to. */
async function holderOn(host: Host): Promise<{ readonly id: Uint8Array; release(): Promise<void> }> {
  const actor = await host.install('holder', await compileActor('Peer'));
  return {
    id: actor.id,
    release: async () => assert.equal((await host.raw(actor, 'release', NOTHING)).status, 200),
  };
}

suite('the global timer', () => {
  test('a change of code turns it off, and what init or post_upgrade sets is kept', async () => {
    const lab = await open();
    const subject = await lab.subject(script([['global_timer_set', FAR]]));
    assert.equal(await takeTimer(subject), FAR, "init's");
    await subject.run([['global_timer_set', FAR], ...REPLY]);
    await subject.change('upgrade');
    assert.equal(await takeTimer(subject), 0n, 'off after an upgrade');
    await subject.run([['global_timer_set', FAR], ...REPLY], { scripts: { 22: [['global_timer_set', FAR - 1n]] } });
    await subject.change('upgrade', script([['global_timer_set', FAR - 2n]]));
    assert.equal(await takeTimer(subject), FAR - 2n, "post_upgrade's, not pre_upgrade's");
    await subject.run([['global_timer_set', FAR], ...REPLY]);
    assert.equal((await subject.tryChange('upgrade', script([['global_timer_set', 5], ['unreachable']]))).code, 5);
    assert.equal(await takeTimer(subject), FAR, 'an upgrade that traps leaves it');
    await subject.run([['global_timer_set', FAR], ...REPLY]);
    await subject.change('reinstall');
    assert.equal(await takeTimer(subject), 0n, 'off after a reinstallation');
    await subject.run([['global_timer_set', FAR], ...REPLY]);
    await subject.manage('uninstall_code');
    await subject.change('install');
    assert.equal(await takeTimer(subject), 0n, 'off after uninstallation');
  });

  test('it is off before its hook runs, a trapped hook leaves it off, and init may arm it to fire', async () => {
    const lab = await open();
    const tells: readonly Call[] = [
      ['global_timer_set', 0],
      ['stable64_grow', 1],
      ['heap_copy', 0x9000, RESULTS_AT, 8],
    ];
    const subject = await lab.subject(
      script(
        [
          ['global_timer_set', 1],
          ['store8', 0x9000, 7],
        ],
        { [TIMER_SLOT]: tells },
      ),
    );
    await lab.host.until(async () => assert.equal(await subject.ask(['stable64_size']), 1n));
    assert.equal(await subject.ask(['load8', 0x9000]), 0n, 'the hook sees no timer');
    const { calls, blob } = print('about to trap');
    await subject.run([['global_timer_set', 1], ...REPLY], {
      blob,
      scripts: { [TIMER_SLOT]: [...calls, ['unreachable']] },
    });
    await lab.host.until(async () => assert.ok((await subject.logs()).some((line) => line === 'about to trap')));
    assert.equal(await takeTimer(subject), 0n);
    assert.equal((await subject.logs()).filter((line) => line === 'about to trap').length, 1, 'once');
  });

  test('a stopped canister keeps it, and it fires after the start', async () => {
    const lab = await open();
    const subject = await lab.subject(
      script([], { [TIMER_SLOT]: [['canister_status'], ['heap_copy', 0x9000, RESULTS_AT, 8], ['stable64_grow', 1]] }),
    );
    const soon = await subject.ask(['time']);
    await subject.run([['global_timer_set', soon + 150_000_000n], ...REPLY]);
    await subject.manage('stop_canister');
    await new Promise((resolve) => setTimeout(resolve, 250));
    await subject.manage('start_canister');
    await lab.host.until(async () => assert.equal(await subject.ask(['stable64_size']), 1n));
    assert.equal(await subject.ask(['load8', 0x9000]), 1n, 'it was running when it fired');
  });
});

suite('what a change of code leaves', () => {
  test('stable memory, logs and stored chunks: kept by upgrades; fresh, cleared and kept by reinstallation; gone with the code', async () => {
    const lab = await open();
    const one = print('first life');
    const subject = await lab.subject(script(one.calls, {}, one.blob));
    await subject.manage('upload_chunk', { chunk: Buffer.from('a chunk') });
    const chunks = async (): Promise<number> => ((await subject.manage('stored_chunks')) as unknown[]).length;
    await subject.run([['stable64_grow', 3], ...REPLY]);
    const two = print('upgraded');
    await subject.change('upgrade', script(two.calls, {}, two.blob));
    assert.deepEqual(
      [await subject.ask(['stable64_size']), await chunks(), await subject.logs()],
      [3n, 1, ['first life', 'upgraded']],
    );
    assert.equal((await subject.tryChange('reinstall', script([['unreachable']]))).code, 5);
    assert.deepEqual((await subject.logs()).slice(0, 2), ['first life', 'upgraded']);
    const three = print('second life');
    await subject.change('reinstall', script(three.calls, {}, three.blob));
    assert.deepEqual(
      [await subject.ask(['stable64_size']), await chunks(), await subject.logs()],
      [0n, 1, ['second life']],
    );
    await subject.manage('uninstall_code');
    assert.deepEqual([await chunks(), await subject.logs()], [0, []]);
    const empty = await subject.send(REPLY);
    assert.equal(empty.status, 404);
    const called = await lab.forward(subject.id, 'run', script(REPLY), 1_000n);
    assert.deepEqual([called.code, called.refunded], [5, 1_000n], called.data.toString());
  });

  test('a hook that traps is IC0502, one that calls ic0.trap IC0503; the log has records of both, /logs their words', async () => {
    const lab = await open();
    const one = print('first life');
    const subject = await lab.subject(script(one.calls, {}, one.blob));
    const { data: trapped } = await subject.tryChange('upgrade', script([['unreachable']]));
    assert.equal(trapped.toString(), 'IC0502: unreachable');
    const said = script([['trap', BLOB_AT, 8]], {}, Buffer.from('given up'));
    const called = "Canister called `ic0.trap` with message: 'given up'";
    for (const mode of ['upgrade', 'reinstall'] as const) {
      const { code, data } = await subject.tryChange(mode, said);
      assert.deepEqual([code, data.toString()], [5, `IC0503: ${called}`]);
    }
    await subject.fails([['trap', BLOB_AT, 3]], { blob: Buffer.from('boo') });
    // This is no trap to the replica.
    await subject.fails([['msg_reply'], ['msg_reply']]);
    assert.deepEqual(await subject.logs(), [
      'first life',
      '[TRAP]: unreachable',
      '[TRAP]: given up',
      '[TRAP]: given up',
      '[TRAP]: boo',
    ]);
    const text = (await lab.host.server.get(`/logs/${subject.actor.name}`)).body;
    // Without the stacks.
    const lines = text
      .replaceAll(/Canister Backtrace:\n(\S+\n)+/g, '')
      .trimEnd()
      .split('\n');
    assert.deepEqual(lines.slice(0, 4), ['first life', 'unreachable', called, called]);
    assert.match(lines.slice(4).join(), /'boo',.*already answered/);
  });

  test('callbacks of calls that were open run on the new table and the new heap', async () => {
    const lab = await open();
    for (const mode of ['reinstall', 'upgrade'] as const) {
      const holder = await holderOn(lab.host);
      const subject = await lab.subject();
      const { calls, ...rest } = outgoing(holder.id, 'hold', {
        scripts: { 0: [['store8', 0x9000, 1], ...replyWith(0x9000, 1)] },
      });
      const answered = subject.run(calls, rest);
      await lab.host.until(async () => assert.equal(await subject.ask(['canister_version']), 2n));
      await subject.change(mode, script([], { 0: [['store8', 0x9000, 2], ...replyWith(0x9000, 1)] }));
      await holder.release();
      assert.deepEqual(await answered, Buffer.of(2), mode);
    }
  });

  test('uninstallation answers open calls with code 4; their callbacks never run, and refunds are credited', async () => {
    const lab = await open();
    const holder = await holderOn(lab.host);
    const subject = await lab.subject();
    const fromCanister = outgoing(holder.id, 'hold', {
      cycles: 50_000_000_000,
      scripts: { 0: [['stable64_grow', 1], ...REPLY], 1: [['stable64_grow', 1], ...REPLY] },
    });
    const client = subject.fails(fromCanister.calls, fromCanister);
    await lab.host.until(async () => assert.equal(await subject.ask(['canister_version']), 2n));
    const held = await lab.host.balance(subject.actor);
    await subject.manage('uninstall_code');
    const failed = await client;
    assert.deepEqual([failed.status, failed.code], [400, 4]);
    assert.match(failed.message, /uninstalled/);
    await subject.change('install');
    await holder.release();
    await lab.host.until(async () => {
      const gained = (await lab.host.balance(subject.actor)) - held;
      assert.ok(gained > 49_000_000_000n && gained <= 50_000_000_000n, String(gained));
    });
    assert.equal(await subject.ask(['stable64_size']), 0n);
    await subject.manage('stop_canister');
  });

  test('an uninstalled callee refunds what it had not accepted', async () => {
    const lab = await open();
    const holder = await holderOn(lab.host);
    const subject = await lab.subject();
    const accepts = outgoing(holder.id, 'hold');
    // The subject runs the payload that the proxy forwards: it accepts a part and waits.
    const run = script([['msg_cycles_accept128', 0, 300, 0x9000]]);
    const unanswered = await lab.forward(subject.id, 'run', run, 1_000n);
    assert.deepEqual([unanswered.code, unanswered.refunded], [5, 700n], 'did not reply');
    const pending = subject.fails(accepts.calls, accepts);
    await lab.host.until(async () => assert.ok((await subject.ask(['canister_version'])) >= 3n));
    await subject.manage('uninstall_code');
    assert.equal((await pending).code, 4);
    await holder.release();
  });
});

suite('chunks and snapshots', () => {
  test('a module in chunks is put together, installed and upgraded; another hash or an unknown chunk is refused', async () => {
    const lab = await open();
    const subject = await lab.create();
    const half = Math.ceil(MODULE.length / 2);
    const hashes: unknown[] = [];
    for (const chunk of [MODULE.subarray(0, half), MODULE.subarray(half)])
      hashes.push(await subject.manage('upload_chunk', { chunk }));
    const target = {
      target_canister: subject.principal,
      wasm_module_hash: createHash('sha256').update(MODULE).digest(),
    };
    const install = { ...target, mode: modeOf('install'), chunk_hashes_list: hashes };
    const wrong = await lab.tryManage('install_chunked_code', {
      ...install,
      arg: NOTHING,
      chunk_hashes_list: hashes.toReversed(),
    });
    assert.notEqual(wrong.code, 0);
    const unknown = [{ hash: Buffer.alloc(32) }];
    assert.notEqual(
      (await lab.tryManage('install_chunked_code', { ...install, arg: NOTHING, chunk_hashes_list: unknown })).code,
      0,
    );
    assert.equal((await subject.send(REPLY)).status, 404, 'still empty');
    await lab.manage('install_chunked_code', { ...install, arg: script([['stable64_grow', 2]]) });
    assert.equal(await subject.ask(['stable64_size']), 2n);
    await lab.manage('install_chunked_code', {
      ...install,
      mode: modeOf('upgrade'),
      arg: script([['stable64_grow', 2]]),
    });
    assert.equal(await subject.ask(['stable64_size']), 4n);
  });

  test('loading a snapshot brings heap, globals, stable memory and chunks back; timer and logs stay, nothing runs, the version counts on', async () => {
    const lab = await open();
    const born = print('born');
    const subject = await lab.subject(script(born.calls, {}, born.blob));
    await subject.manage('upload_chunk', { chunk: Buffer.from('first') });
    await subject.run([['store8', 0x9000, 1], ['global_set', 11], ['stable64_grow', 1], ...REPLY]);
    const { id } = (await subject.manage('take_canister_snapshot')) as { id: Uint8Array };
    await subject.manage('clear_chunk_store');
    const later = print('later');
    await subject.run(
      [
        ...later.calls,
        ['store8', 0x9000, 2],
        ['global_set', 22],
        ['stable64_grow', 5],
        ['global_timer_set', FAR],
        ...REPLY,
      ],
      {
        blob: later.blob,
      },
    );
    await subject.run([['heap_grow', 10], ...REPLY]);
    const gauges = async (): Promise<number | undefined> =>
      (await lab.host.inspect()).find(({ name }) => name === subject.actor.name)?.heapBytes;
    assert.equal(await gauges(), 74 * 65_536);
    const version = await subject.ask(['canister_version']);
    await subject.manage('load_canister_snapshot', { snapshot_id: id });
    const state = await subject.results([['load8', 0x9000], ['global_get'], ['stable64_size'], ['canister_version']], {
      isQuery: true,
    });
    assert.deepEqual(state, [1n, 11n, 1n, version + 1n]);
    assert.equal(((await subject.manage('stored_chunks')) as unknown[]).length, 1);
    assert.deepEqual(await subject.logs(), ['born', 'later']);
    assert.equal(await gauges(), 64 * 65_536, 'what is shown of it');
    assert.equal(await takeTimer(subject), FAR);
  });

  test('calls that were open when a snapshot was loaded come back to the loaded state', async () => {
    const lab = await open();
    const holder = await holderOn(lab.host);
    const subject = await lab.subject(script([], { 0: [['store8', 0x9000, 3], ...replyWith(0x9000, 1)] }));
    const { id } = (await subject.manage('take_canister_snapshot')) as { id: Uint8Array };
    const { calls, ...rest } = outgoing(holder.id, 'hold', {
      scripts: { 0: [['store8', 0x9000, 4], ...replyWith(0x9000, 1)] },
    });
    const answered = subject.run(calls, rest);
    await lab.host.until(async () => assert.equal(await subject.ask(['canister_version']), 2n));
    await subject.manage('load_canister_snapshot', { snapshot_id: id });
    await holder.release();
    assert.deepEqual(await answered, Buffer.of(3));
  });
});
