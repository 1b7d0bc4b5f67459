/** One end of a way between two servers: what it says, and how much of what it has taken is not durable yet. */
import type { CallJournal } from '../call-journal.ts';
import { Queue } from '../queue.ts';
import type { Conversation, LinkMessage } from './exchange.ts';

/** Bytes of messages that are taken and not durable, above which nothing more should come. */
const HELD_BYTES_MAX = 16 * 2 ** 20;
/** Bytes that each message counts besides its payload. */
const MESSAGE_BYTES = 256;

interface TalkOptions {
  readonly journal: Pick<CallJournal, 'whenDurable'>;
  /** Returns the next message that has to arrive. */
  readonly owed: () => LinkMessage | undefined;
  readonly take: (message: LinkMessage, talk: Talk) => void;
  readonly wake: () => void;
}

export class Talk implements Conversation {
  /** Another way has taken the place of this one. */
  isOver = false;
  readonly #options: TalkOptions;
  /** Messages that need not arrive: the other side asks again. */
  readonly #prompt = new Queue<LinkMessage>();
  #heldBytes = 0;

  constructor(options: TalkOptions) {
    this.#options = options;
  }

  get isBusy(): boolean {
    return this.#heldBytes > HELD_BYTES_MAX;
  }

  next(): LinkMessage | undefined {
    return this.isOver ? undefined : (this.#prompt.shift() ?? this.#options.owed());
  }

  took(message: LinkMessage): void {
    if (!this.isOver) this.#options.take(message, this);
  }

  /** Something may be said. */
  wake(): void {
    if (!this.isOver) this.#options.wake();
  }

  /** Says something that need not be durable, and need not arrive. */
  say(message: LinkMessage): void {
    this.#prompt.push(message);
    this.wake();
  }

  /** Keeps a message that cannot be taken yet. Returns what is to be called when it is kept no longer. */
  keep(payload: Uint8Array): () => void {
    const bytes = MESSAGE_BYTES + payload.length;
    this.#heldBytes += bytes;
    return () => {
      this.#heldBytes -= bytes;
      this.wake();
    };
  }

  /** Says something when all that was changed so far is durable. `payload`: what was taken. */
  sayWhenDurable(message: LinkMessage, payload: Uint8Array | undefined): void {
    const bytes = MESSAGE_BYTES + (payload?.length ?? 0);
    this.#heldBytes += bytes;
    this.#options.journal.whenDurable(() => {
      this.#heldBytes -= bytes;
      this.#prompt.push(message);
      this.wake();
    });
  }
}
