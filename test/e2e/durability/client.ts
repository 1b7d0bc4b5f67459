/** A client of a server that gets killed: outcomes that it was told, and the one request that it cannot know about. */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { type Answer, send } from '../../support/http-client.ts';
import type { Actor } from '../semantics/host.ts';

/** The next request of a client. */
export interface Request {
  /** `/call-json/bank/get` */
  readonly target: string;
  readonly body: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface RunOptions {
  readonly isOver?: () => boolean;
  /** True if threads of actors may stop: the client then ends without knowing the outcome of its request. */
  readonly mayLoseThreads?: boolean;
}

/** Sends one request at a time over a connection of its own, until it is told to end or the server stops answering. */
export abstract class Client {
  readonly actor: Actor;
  /** Number of requests that were answered as done. */
  acknowledged = 0;
  /** True if a request is under way, or was when the server died. */
  isUncertain = false;

  constructor(actor: Actor) {
    this.actor = actor;
  }

  protected abstract next(): Request;

  /** Returns true if the request was done. Throws if the answer is not a permitted one. */
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

  /**
   * Resolves the uncertain request: `done` requests of its kind are in the state. `canBeDone`: it might be one of them.
   */
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
