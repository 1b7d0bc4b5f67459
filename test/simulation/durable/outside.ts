/**
 * The world outside, which no crash of the host touches: it counts requests and answers them when the simulation says
 * so. Each request has the number of its message. Each number may arrive once, in whatever life, and only from a
 * message that nobody forgets.
 */
import assert from 'node:assert/strict';
import type { OutcallRequest, OutcallResponse, Outcalls } from '../../../subsystems/outcalls/index.ts';
import type { Ledger } from './ledger-state.ts';
import type { Sent } from './sent.ts';

const SYS_TRANSIENT = 2;
const ANSWER: OutcallResponse = { status: 200, headers: [{ name: 'x', value: 'y' }], body: Buffer.from('outside') };

export class Outside implements Outcalls {
  /** Number of outcalls that have arrived, by the number of their message. */
  readonly #arrived = new Map<number, number>();
  readonly #waiting: (() => void)[] = [];
  /** Number of outcalls that were under way when the host crashed. */
  lost = 0;

  send({ url }: OutcallRequest): Promise<OutcallResponse> {
    const number = Number(new URL(url).pathname.slice(1));
    this.#arrived.set(number, (this.#arrived.get(number) ?? 0) + 1);
    return new Promise((resolve) => this.#waiting.push(() => resolve(ANSWER)));
  }

  get canAnswer(): boolean {
    return this.#waiting.length > 0;
  }

  /** Answers the request that has waited for longest. */
  answer(): void {
    this.#waiting.shift()?.();
  }

  /** Drops the waiting requests: the host is gone, and nobody gets the answers. */
  lose(): void {
    this.lost += this.#waiting.splice(0).length;
  }

  /** Checks the outcalls at the end; returns the number of callers that were told to try again. */
  check(sent: readonly Sent[], ledgers: ReadonlyMap<string, Ledger>): number {
    let transient = 0;
    for (const { number, actor, isOutside } of sent) {
      const times = this.#arrived.get(number) ?? 0;
      if (!isOutside) {
        assert.equal(times, 0, `message ${number} asked nobody outside`);
        continue;
      }
      const what = `the outcall of message ${number} of ${actor}`;
      assert.ok(times <= 1, `${what} was sent ${times} times`);
      const entries = ledgers.get(actor)?.entries.filter((entry) => entry.number === number);
      if (entries === undefined) continue;
      const entryOf = (kind: string) => entries.find((entry) => entry.kind === kind);
      if (times === 1) assert.ok(entryOf('sent'), `${what} has left, and the actor has forgotten that it asked`);
      if (entryOf('done') !== undefined) assert.equal(times, 1, `${what} was answered, and never sent`);
      const failed = entryOf('failed');
      if (failed === undefined) continue;
      assert.equal(Number(failed.amount), SYS_TRANSIENT, `${what} is rejected for the host's reasons alone`);
      transient++;
    }
    return transient;
  }
}
