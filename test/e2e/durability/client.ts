/** A client of a server that is killed under it: what it was told, and what it cannot know. */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { type Answer, send } from '../../support/http-client.ts';
import type { Actor } from '../semantics/host.ts';

/** What is sent next. */
export interface Request {
  /** `/call-json/bank/get` */
  readonly target: string;
  readonly body: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface RunOptions {
  readonly isOver?: () => boolean;
  /** Threads of actors may stop: a client ends then, and does not know what came of its request. */
  readonly mayLoseThreads?: boolean;
}

/** Sends one request at a time over a connection of its own, until it is told to end or the server does not answer any more. */
export abstract class Client {
  readonly actor: Actor;
  /** Requests that were answered as done. */
  acknowledged = 0;
  /** One is under way, or was when the server died. */
  isUncertain = false;

  constructor(actor: Actor) {
    this.actor = actor;
  }

  protected abstract next(): Request;

  /** Whether what was asked has been done. Throws when the answer is not as it must be. */
  protected isDone(answer: Answer): boolean {
    assert.equal(answer.status, 200, `${this.actor.name}: ${answer.text.slice(0, 500)}`);
    return true;
  }

  async run(origin: string, { isOver = () => false, mayLoseThreads = false }: RunOptions = {}): Promise<void> {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      while (!isOver()) {
        const { target, body, headers = {} } = this.next();
        this.isUncertain = true;
        const answer = await send(origin, 'POST', target, { agent, body, headers });
        if (mayLoseThreads && answer.status === 503 && answer.text.includes("the actor's thread has stopped")) return;
        if (this.isDone(answer)) this.acknowledged++;
        this.isUncertain = false;
      }
    } catch (error) {
      // The connection ended without an answer, as it does when a server is killed.
      if (!(error instanceof Error && 'code' in error && LOST.includes(String(error.code)))) throw error;
    } finally {
      agent.destroy();
    }
  }

  /** What came of the uncertain request: `done` of its kind are in the state. `canBeDone`: it might have been. */
  protected settle(done: number, canBeDone = true): void {
    const { actor, acknowledged, isUncertain } = this;
    const text = `${actor.name}: ${acknowledged} were acknowledged, ${done} are there`;
    assert.ok(done >= acknowledged, text);
    assert.ok(done <= acknowledged + Number(isUncertain && canBeDone), text);
    this.acknowledged = done;
    this.isUncertain = false;
  }
}

const LOST: readonly string[] = ['ECONNRESET', 'ECONNREFUSED', 'EPIPE'];
