/** A low-memory hook that was due runs once, whether the server or the actor's executor ends before. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { before, suite, test, type TestContext } from 'node:test';
import { compileMotoko } from '../../support/motoko.ts';
import type { Host } from '../semantics/host.ts';
import { Laboratory, NOTHING, Subject } from '../semantics/laboratory.ts';
import { Deployment } from './deployment.ts';

const PAGE = 65_536;
/** Threshold below which the free memory under 4 GiB always is, whatever the size of the heap. */
const ALWAYS_LOW = { wasm_memory_threshold: 2 ** 32 - PAGE };
const NEVER_LOW = { wasm_memory_threshold: 0 };
const ENDLESS = 10 ** 12;
/** Number of rounds that take a second or more. */
const LONG = 30_000_000;

const ACTOR = `
  persistent actor {
    var lows = 0;
    system func lowmemory<system>() : async* () { lows += 1 };
    public func spin(rounds : Nat64) : async () { var n : Nat64 = 0; while (n < rounds) n += 1 };
    public query func low() : async Nat { lows };
  }`;

let wasm: Uint8Array;
before(async () => {
  ({ wasm } = await compileMotoko(ACTOR));
});

async function runs(host: Host, subject: Subject, expected: number): Promise<void> {
  await host.until(async () => assert.equal(await host.query(subject.actor, 'low'), expected), 15_000);
  await sleep(50);
  assert.equal(await host.query(subject.actor, 'low'), expected);
}

/** Makes an actor whose hook waits behind a message of its own. */
async function waiting(
  host: Host,
  rounds: number,
): Promise<{ lab: Laboratory; subject: Subject; message: Promise<unknown> }> {
  const lab = await Laboratory.open(host);
  const subject = await lab.create();
  const { code, data } = await subject.tryChange('install', NOTHING, wasm);
  assert.equal(code, 0, data.toString());
  const message = host.call(subject.actor, 'spin', [rounds]).catch(() => undefined);
  await host.given(message);
  await subject.set(ALWAYS_LOW);
  return { lab, subject, message };
}

suite('a low-memory hook that waits', () => {
  for (const args of [[], ['--snapshot-below', '0']]) {
    const flags = args.join(' ') || 'no flags';

    test(`runs after SIGKILL (${flags})`, async (t: TestContext) => {
      const deployment = await Deployment.create(t, { args });
      const { lab, subject } = await waiting(await deployment.start(), ENDLESS);
      await deployment.kill();
      let host = await deployment.start();
      await runs(host, subject, 1);
      await deployment.kill();
      host = await deployment.start();
      await runs(host, subject, 1);
      const again = new Subject(lab.in(host), subject.actor);
      await again.set(NEVER_LOW);
      await again.set(ALWAYS_LOW);
      await runs(host, subject, 2);
      await deployment.stop();
    });

    test(`runs after a stop that did not let it begin (${flags})`, async (t: TestContext) => {
      const deployment = await Deployment.create(t, { args });
      const { subject, message } = await waiting(await deployment.start(), LONG);
      await deployment.stop();
      await message;
      await runs(await deployment.start(), subject, 1);
      await deployment.stop();
    });

    test(`runs when the actor is back from an executor that has died (${flags})`, async (t: TestContext) => {
      const preloads = [new URL('./stopped-threads.ts', import.meta.url)];
      const deployment = await Deployment.create(t, { args: ['--executors', '1', ...args], preloads });
      const host = await deployment.start();
      const { subject, message } = await waiting(host, ENDLESS);
      host.server.process.kill('SIGUSR2');
      await message;
      await runs(host, subject, 1);
      await deployment.stop();
    });
  }
});
