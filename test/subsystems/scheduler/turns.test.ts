import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../../../subsystems/ic/index.ts';
import { DurableHost } from './durable-host.ts';
import { MODULE } from './held-execution.ts';

const QUIET = { ...MODULE, entries: new Map([...MODULE.entries].filter(([name]) => name !== 'canister_heartbeat')) };
const STEP_MS = 10;

interface Client {
  told: { readonly outcome: Outcome | undefined } | undefined;
  sentMs: number;
  answers: number;
  longestMs: number;
}

/** A host for two oversized canisters, each with a client who asks again a step after each answer. */
class Fight {
  readonly host = new DurableHost({ liveBytes: 100 }).admit([0, 1], { isAsleep: true, module: QUIET });
  readonly clients: readonly Client[];
  readonly #loadMs: number;
  readonly #loads: { readonly readyMs: number; readonly settle: PromiseWithResolvers<void> }[] = [];

  constructor(loadMs: number) {
    this.#loadMs = loadMs;
    for (const handle of [0, 1]) this.host.bytes.set(handle, 400);
    this.host.holdsWakes = true;
    this.clients = [0, 1].map(() => ({ told: undefined, sentMs: 0, answers: 0, longestMs: 0 }));
  }

  async run(ms: number): Promise<void> {
    const { clock } = this.host;
    for (const endMs = clock.nowMs() + ms; clock.nowMs() < endMs; clock.advance(STEP_MS)) await this.#step();
  }

  async #step(): Promise<void> {
    const { host } = this;
    const nowMs = host.clock.nowMs();
    for (const [handle, client] of this.clients.entries()) {
      if (client.told?.outcome !== undefined) {
        client.answers++;
        client.longestMs = Math.max(client.longestMs, nowMs - client.sentMs);
        client.told = undefined;
      } else if (client.told === undefined) {
        client.sentMs = nowMs;
        client.told = host.deliver(handle, 'query');
      }
    }
    await host.endTurn();
    for (const { settle } of host.held.splice(0)) this.#loads.push({ readyMs: nowMs + this.#loadMs, settle });
    while ((this.#loads[0]?.readyMs ?? Number.POSITIVE_INFINITY) <= nowMs) this.#loads.shift()?.settle.resolve();
    await host.endTurn();
    host.execution.endAll();
    await host.commit();
  }
}

test('one whose load took long keeps its place for an eighth of that: a client who asks on gets many answers for a load', async () => {
  const loadMs = 4000;
  const fight = new Fight(loadMs);
  await fight.run(60_000);
  const { woken } = fight.host;
  for (const [handle, { answers, longestMs }] of fight.clients.entries()) {
    const loads = woken.filter((each) => each === handle).length;
    assert.ok(loads >= 5, `${handle} was loaded ${loads} times`);
    assert.ok(answers >= 15 * loads, `${handle} answered ${answers} times in ${loads} turns`);
    // Two loads, an eighth of one, and what it takes to be asked.
    assert.ok(longestMs <= 2.125 * loadMs + 200, `${handle} answered after ${longestMs} ms`);
  }
});

test('one whose load was short gives way as soon as it is idle', async () => {
  const fight = new Fight(300);
  await fight.run(10_000);
  const turns = fight.host.woken.length;
  assert.ok(turns >= 25, `${turns} turns`);
  for (const { longestMs } of fight.clients) assert.ok(longestMs <= 700, `answered after ${longestMs} ms`);
});
