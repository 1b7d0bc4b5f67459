/**
 * A large message that comes while another one of the same actor executes waits for its end, as a small one does,
 * whoever sends it; and after SIGKILL every acknowledged change is there.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { before, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { compileMotoko } from '../../support/motoko.ts';
import type { Actor, Host } from '../semantics/host.ts';
import { Deployment } from './deployment.ts';

/** Duration of the message that the large one interrupts, on an otherwise idle machine. */
const WORK_MS = 300;
/** Time after which that message executes. */
const BEGUN_MS = 80;
/** 40,000 numbers: 80,000 bytes of Candid, more than a ring carries beside its record. */
const NUMBERS = Array.from({ length: 40_000 }, (_, n) => n % 10_000);
const LARGE_BYTES = 200_000;
/** Limit for tests: a message that gets into another one may never be answered. */
const TIME = { timeout: 60_000 };
/** Rounds of a loop that take WORK_MS. */
let rounds = 20_000_000;

interface Seen {
  readonly a: number;
  readonly b: number;
  readonly others: number;
}

interface Scene {
  readonly host: Host;
  /** The working actor. */
  readonly busy: Actor;
  readonly other: Actor;
}

const QUERY = 'a query with a large argument';
const UPDATE = 'an update with a large argument';
const CALL = 'a large call of another actor';
const CALLBACK = 'a large reply of another actor';
const ALL = [QUERY, UPDATE, CALL, CALLBACK] as const;

/** Requests that come meanwhile; each resolves with the state that it saw of the busy actor. */
const MEANWHILE: Readonly<Record<string, (scene: Scene) => Promise<unknown>>> = {
  [QUERY]: ({ host, busy }) => host.query(busy, 'lookMany', [NUMBERS]),
  [UPDATE]: ({ host, busy }) => host.call(busy, 'addMany', [NUMBERS]),
  [CALL]: ({ host, busy, other }) => host.call(other, 'pass', [busy.principal, LARGE_BYTES]),
};
/** An inspection sees all updates from outside; it refuses a half-changed state. */
const INSPECTION = `system func inspect({ arg : Blob }) : Bool { arg.size() < 1_000_000 and a == b };`;

let plain: Uint8Array;
let inspecting: Uint8Array;
/** A deployment without flags. */
let deployment: Deployment;
before(async (t) => {
  const source = await readFile(new URL('./actors/Halves.mo', import.meta.url), 'utf8');
  plain = (await compileMotoko(source)).wasm;
  inspecting = (await compileMotoko(source.replace('// <inspect>', INSPECTION))).wasm;
  deployment = await open(t as TestContext, [], { plain, other: plain, inspecting });
  await adjust(deployment.host, await deployment.host.find('other'));
});

async function open(
  t: TestContext,
  args: readonly string[],
  modules: Readonly<Record<string, Uint8Array>>,
): Promise<Deployment> {
  const opened = await Deployment.create(t, { args, modules });
  await opened.start();
  return opened;
}

/** Finds the number of rounds that take WORK_MS, with growing numbers, while the code is being optimised. */
async function adjust(host: Host, actor: Actor): Promise<void> {
  for (;;) {
    const began = performance.now();
    await host.call(actor, 'echo', [rounds, 1]);
    const tookMs = performance.now() - began;
    if (tookMs > 0.8 * WORK_MS) return;
    rounds = Math.round(rounds * Math.min(4, WORK_MS / tookMs));
  }
}

/**
 * Begins work of WORK_MS at an actor and sends the others in its middle: all of them see the work whole. Returns the
 * state that the actor must have from then on, after everything that was acknowledged.
 */
async function meet(tested: Deployment, name: string, names: readonly string[]): Promise<Seen> {
  const { host } = tested;
  const scene = { host, busy: await host.find(name), other: await host.find('other') };
  const { busy, other } = scene;
  const fetched = names.includes(CALLBACK) ? [host.call(busy, 'fetch', [other.principal, LARGE_BYTES])] : [];
  if (fetched.length > 0) await host.until(async () => assert.ok(await host.query(other, 'asked')));
  const { start, work } = await begin(host, busy);
  if (fetched.length > 0) await host.call(other, 'release');
  const late = names.flatMap((each) => MEANWHILE[each]?.(scene) ?? []);
  // All of them are awaited, even if the first has failed.
  const ends = await Promise.allSettled([work, ...fetched, ...late]);
  const whole = { a: start.a + 1, b: start.b + 1 };
  for (const end of ends) {
    if (end.status === 'rejected') throw end.reason;
    const { a, b } = end.value as Seen;
    assert.deepEqual({ a, b }, whole, 'the work was seen half done');
  }
  return { ...whole, others: start.others + names.filter((each) => each !== QUERY).length };
}

/**
 * Begins the work, and returns the state before it. If the machine was slower when the rounds were measured, more
 * rounds are needed.
 */
async function begin(host: Host, busy: Actor): Promise<{ readonly start: Seen; readonly work: Promise<unknown> }> {
  for (;;) {
    const start = (await host.query(busy, 'look')) as Seen;
    assert.equal(start.a, start.b);
    let isWorking = true;
    const work = host.call(busy, 'work', [rounds]).finally(() => (isWorking = false));
    await sleep(BEGUN_MS);
    if (isWorking) return { start, work };
    await work;
    rounds *= 2;
  }
}

/** Checks that actors have their expected state after SIGKILL, and go on. */
async function killAndLook(tested: Deployment, expected: Readonly<Record<string, Seen>>): Promise<void> {
  await tested.kill();
  const host = await tested.start();
  for (const [name, seen] of Object.entries(expected)) {
    const actor = await host.find(name);
    assert.deepEqual(await host.query(actor, 'look'), seen);
    assert.deepEqual(await host.call(actor, 'work', [1]), { ...seen, a: seen.a + 1, b: seen.b + 1 });
  }
}

test(`${QUERY} waits for the end of the message that executes, and nothing acknowledged is lost`, TIME, async () => {
  await killAndLook(deployment, { plain: await meet(deployment, 'plain', [QUERY]) });
});

const met: Record<string, Seen> = {};
for (const name of [UPDATE, CALL, CALLBACK]) {
  test(`${name} waits for the end of the message that executes`, TIME, async () => {
    met['plain'] = await meet(deployment, 'plain', [name]);
  });
}

test('a large message that is inspected waits for the end of the message that executes', TIME, async () => {
  met['inspecting'] = await meet(deployment, 'inspecting', [UPDATE]);
});

test('nothing acknowledged of all that is lost', TIME, async () => {
  assert.deepEqual(Object.keys(met), ['plain', 'inspecting'], 'they have met');
  await killAndLook(deployment, met);
});

// With one live actor, a reply comes to a sleeping one: it is there before the work that wakes the actor, too.
const AWAKE = ALL.filter((name) => name !== CALLBACK);
for (const [flags, names] of [
  [['--snapshot-below', '0'], ALL],
  [['--live-cap', '1'], AWAKE],
  [['--executors', '1'], ALL],
] as const) {
  test(`all of them at once wait for the end of the message that executes (${flags.join(' ')})`, TIME, async (t) => {
    const opened = await open(t, flags, { inspecting, other: inspecting });
    await killAndLook(opened, { inspecting: await meet(opened, 'inspecting', names) });
  });
}
