/** Actors in WebAssembly text that behave as no compiled actor would; the host answers as specified and stays quick. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { wat } from '../../support/wat.ts';
import { type Actor, assertQuick, compileActor, type Host, sharedHost, startHost } from './host.ts';

const ODD = wat(await readFile(new URL('./actors/odd.wat', import.meta.url), 'utf8'));
const NOBODY = Buffer.from('8000000000ffffff0101', 'hex');
/** Bound of the calls from one actor to another (docs/execution-rules.md). */
const QUEUE_LENGTH = 500;

interface State {
  readonly steps: number;
  readonly cleanups: number;
  readonly timers: number;
  readonly sent: number;
  readonly refusal: number;
}

class OddHost {
  readonly host: Host;

  constructor(host: Host) {
    this.host = host;
  }

  async send(actor: Actor, method: string, argument: Uint8Array = new Uint8Array(0)): Promise<[number, Buffer]> {
    const response = await this.host.server.fetch(`/call/${actor.name}/${method}`, {
      method: 'POST',
      body: new Uint8Array(argument),
    });
    return [response.status, Buffer.from(await response.arrayBuffer())];
  }

  async fails(
    actor: Actor,
    method: string,
    argument?: Uint8Array,
  ): Promise<{ status: number; code: number; message: string }> {
    const [status, body] = await this.send(actor, method, argument);
    return { status, ...(JSON.parse(body.toString()) as { code: number; message: string }) };
  }

  async state(actor: Actor): Promise<State> {
    const [status, body] = await this.send(actor, 'state');
    assert.equal(status, 200, body.toString());
    return stateIn(body);
  }
}

function stateIn(body: Buffer): State {
  const [steps = 0, cleanups = 0, timers = 0, sent = 0, refusal = 0] = Array.from({ length: 5 }, (_, index) =>
    body.readUInt32LE(4 * index),
  );
  return { steps, cleanups, timers, sent, refusal };
}

async function start(args?: readonly string[]): Promise<{ odd: OddHost; host: Host; a: Actor; b: Actor }> {
  const host = await (args === undefined ? sharedHost() : startHost({ args }));
  return { odd: new OddHost(host), host, a: await host.install('a', ODD), b: await host.install('b', ODD) };
}

suite('answers that do not come, come twice, or late', () => {
  test('a method that returns without a reply is 500, and keeps what it did', async () => {
    const { odd, a } = await start();
    const silent = await odd.fails(a, 'silent');
    assert.deepEqual([silent.status, silent.code], [500, 5]);
    assert.match(silent.message, /did not reply/);
    assert.equal((await odd.state(a)).steps, 1);
    assert.equal((await odd.fails(a, 'silent_query')).status, 500);
  });

  test('a trap takes a reply back, and so does a second reply', async () => {
    const { odd, a } = await start();
    for (const method of ['reply_and_trap', 'reply_twice']) {
      const failed = await odd.fails(a, method);
      assert.deepEqual([failed.status, failed.code], [400, 5], method);
    }
    assert.equal((await odd.state(a)).steps, 0);
    const refused = await odd.fails(a, 'refuse');
    assert.deepEqual(refused, { status: 400, code: 4, message: 'refused' });
    assert.equal((await odd.state(a)).steps, 1);
  });

  test('a reply may come from a callback, also after the callback of another call has trapped', async () => {
    const { odd, a, b } = await start();
    const [status, body] = await odd.send(a, 'deferred', b.id);
    assert.deepEqual([status, stateIn(body).steps], [200, 1]);
    const [second, after] = await odd.send(a, 'one_of_two', b.id);
    assert.deepEqual([second, stateIn(after).steps, stateIn(after).cleanups], [200, 2, 1]);
    const [self] = await odd.send(a, 'deferred', a.id);
    assert.equal(self, 200);
  });

  test('a reply over the limit is refused, one below it arrives whole', async () => {
    const { odd, a } = await start();
    const bytes = (length: number): Buffer => {
      const argument = Buffer.alloc(4);
      argument.writeUInt32LE(length);
      return argument;
    };
    const [status, body] = await odd.send(a, 'large_reply', bytes(2 * 1024 * 1024));
    assert.deepEqual([status, body.length], [200, 2 * 1024 * 1024]);
    assert.equal((await odd.fails(a, 'large_reply', bytes(2 * 1024 * 1024 + 1))).status, 400);
  });
});

suite('callbacks that cannot run', () => {
  test('a callback that is no function, or traps, rejects the call and runs the cleanup on the state before', async () => {
    const { odd, a, b } = await start();
    for (const [index, method] of ['bad_callback', 'empty_callback'].entries()) {
      const failed = await odd.fails(a, method, b.id);
      assert.deepEqual([failed.status, failed.code], [400, 5], failed.message);
      const { steps, cleanups } = await odd.state(a);
      assert.deepEqual({ steps, cleanups }, { steps: 0, cleanups: index + 1 });
    }
    const both = await odd.fails(a, 'trapping_cleanup', b.id);
    assert.deepEqual([both.status, both.code], [400, 5]);
    assert.match(both.message, /callback trapped'\n\ncall_on_cleanup also failed:\n\nunreachable$/);
    const { steps, cleanups } = await odd.state(a);
    assert.deepEqual({ steps, cleanups }, { steps: 0, cleanups: 2 }, 'a cleanup that traps leaves nothing');
    assert.equal((await odd.send(a, 'deferred', b.id))[0], 200);
  });

  test('a reject callback sees the code and every cycle that was attached', async () => {
    const { odd, host, a, b } = await start();
    const before = await host.balance(a);
    for (const [callee, code] of [
      [b.id, 5],
      [NOBODY, 3],
    ] as const) {
      const [status, body] = await odd.send(a, 'pay_silent', callee);
      assert.equal(status, 200, body.toString());
      assert.deepEqual(
        [body.readUInt32LE(0), body.readBigUInt64LE(4), body.readBigUInt64LE(12)],
        [code, 5_000_000_000n, 0n],
      );
    }
    assert.ok(before - (await host.balance(a)) < 10_000_000n);
  });
});

suite('without end', () => {
  test('one message sends at most 500 calls to one actor; call_perform answers 2 for the next', async () => {
    const { odd, a, b } = await start();
    for (const callee of [b.id, a.id]) {
      const [status, body] = await odd.send(a, 'flood', callee);
      assert.equal(status, 200, body.toString());
      const { sent, refusal } = stateIn(body);
      assert.deepEqual({ sent, refusal }, { sent: QUEUE_LENGTH, refusal: 2 });
    }
    const beganMs = performance.now();
    let sent = 0;
    while (sent < QUEUE_LENGTH && performance.now() - beganMs < 60_000) {
      sent = stateIn((await odd.send(a, 'flood', b.id))[1]).sent;
    }
    assert.equal(sent, QUEUE_LENGTH, 'the queue is not empty again');
  });

  test('a timer in the past fires once a look, for ever; the host and other actors stay quick', async () => {
    const { odd, host, a } = await start(['--timer-ms', '20']);
    const other = await host.install('other', await compileActor('Peer'));
    const armedMs = performance.now();
    await odd.send(a, 'arm_past');
    const work = (async () => {
      for (let round = 0; round < 20; round++) {
        await sleep(50);
        await host.call(other, 'add', [1]);
      }
    })();
    assertQuick(await host.healthDuring(work));
    await work;
    await host.until(async () => assert.ok((await odd.state(a)).timers >= 20));
    const { timers } = await odd.state(a);
    // One timer in 20 ms, and three times that.
    const timersMax = (3 * (performance.now() - armedMs)) / 20;
    assert.ok(timers <= timersMax, `${timers} where ${timersMax.toFixed(0)} are many`);
    await odd.send(a, 'disarm');
    const { timers: last } = await odd.state(a);
    await sleep(100);
    assert.ok((await odd.state(a)).timers <= last + 1);
  });

  test('an actor that never replies is stopping until it is started again; host and others stay quick', async () => {
    const { odd, host, a } = await start(['--executors', '2']);
    const other = await host.install('other', await compileActor('Peer'));
    const never = odd.fails(a, 'forever');
    await host.until(async () => assert.ok((await odd.state(a)).steps > 10));
    const stopping = host.change(a, 'stop');
    await host.until(async () => assert.equal(await host.status(a), 'stopping'));
    const work = (async () => {
      for (let round = 0; round < 10; round++) {
        await sleep(50);
        await host.call(other, 'add', [1]);
      }
    })();
    const tookMs = await host.healthDuring(work);
    await work;
    assertQuick(tookMs);
    assert.equal((await host.change(a, 'delete')).status, 400);
    assert.equal(await host.status(a), 'stopping');
    await host.change(a, 'start');
    assert.equal((await stopping).status, 503);
    const { steps } = await odd.state(a);
    await host.until(async () => assert.ok((await odd.state(a)).steps > steps));
    assert.equal(await host.server.stop(), 0, 'it does not hold up the end of the server either');
    const ended = await never.catch((error: unknown) => error);
    assert.equal((ended as { status?: number }).status, 503, JSON.stringify(ended));
  });
});
