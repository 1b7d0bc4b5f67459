/**
 * Calls of other shards that have come before they can be taken: caller or callee is about to come here or to leave, or
 * the callee has moved more often than this server has heard. Main thread; lists by canister.
 */
import { idToText } from '../../ic/index.ts';
import type { LinkMessage } from './exchange.ts';
import type { Talk } from './talk.ts';

type Call = LinkMessage & { readonly kind: 'call' };
type Take = (shard: number, message: LinkMessage, talk: Talk) => void;

export class Early {
  readonly #take: Take;
  /** Canisters whose calls wait, whatever their number. */
  readonly #closed = new Set<string>();
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(take: Take) {
    this.#take = take;
  }

  isClosed(id: Uint8Array): boolean {
    return this.#closed.size > 0 && this.#closed.has(idToText(id));
  }

  /** Has calls to that canister, and from it, wait until what is returned is called. */
  close(id: Uint8Array): () => void {
    const idText = idToText(id);
    this.#closed.add(idText);
    return () => {
      if (this.#closed.delete(idText)) this.again(id);
    };
  }

  add(shard: number, message: Call, talk: Talk): void {
    const { callee, name } = message;
    const idText = idToText(this.isClosed(name.sender) ? name.sender : callee);
    const release = talk.keep(message.argument);
    const waiting = this.#waiting.get(idText) ?? [];
    this.#waiting.set(idText, waiting);
    waiting.push(() => {
      release();
      // A call of a way that is over is sent again on another.
      if (!talk.isOver) this.#take(shard, message, talk);
    });
  }

  /** More is known of that canister: its calls are looked at again. */
  again(id: Uint8Array): void {
    if (this.isClosed(id)) return;
    const idText = idToText(id);
    const waiting = this.#waiting.get(idText) ?? [];
    this.#waiting.delete(idText);
    for (const take of waiting) take();
  }
}
