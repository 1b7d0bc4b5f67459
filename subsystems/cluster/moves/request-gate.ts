/**
 * Requests for actors that are about to move: new ones wait, and those under way are known. Streams are not waited for:
 * they end with the move.
 *
 * Main thread; a set for each actor that has requests.
 */
import { idToText } from '../../ic/index.ts';

/** A request under way. */
export interface OpenRequest {
  /** True if its answer is a stream that has begun. */
  readonly isOpenEnded?: boolean;
  once(event: 'close', over: () => void): unknown;
}

interface Requested {
  readonly id: Uint8Array;
}

export class RequestGate {
  readonly #open = new Map<Requested, Set<OpenRequest>>();
  readonly #closed = new Map<string, PromiseWithResolvers<void>>();

  /** Lets a request in for an actor of this server; or returns a promise, after which its place is to be looked up. */
  enter(actor: Requested, request: OpenRequest): Promise<void> | undefined {
    const waiting = this.waitFor(actor.id);
    if (waiting !== undefined) return waiting;
    let requests = this.#open.get(actor);
    if (requests === undefined) this.#open.set(actor, (requests = new Set()));
    requests.add(request);
    request.once('close', () => {
      requests.delete(request);
      if (requests.size === 0 && this.#open.get(actor) === requests) this.#open.delete(actor);
    });
    return undefined;
  }

  /** Returns what requests for an actor wait for; undefined: nothing. */
  waitFor(id: Uint8Array): Promise<void> | undefined {
    return this.#closed.size === 0 ? undefined : this.#closed.get(idToText(id))?.promise;
  }

  isQuiet(actor: Requested): boolean {
    for (const { isOpenEnded = false } of this.#open.get(actor) ?? []) if (!isOpenEnded) return false;
    return true;
  }

  /** Has requests for an actor wait until what is returned is called. */
  close(id: Uint8Array): () => void {
    const idText = idToText(id);
    const opened = Promise.withResolvers<void>();
    this.#closed.set(idText, opened);
    return () => {
      if (this.#closed.get(idText) === opened) this.#closed.delete(idText);
      opened.resolve();
    };
  }
}
