/**
 * A port with a deliberate mistake, between the shipped commit queue and the shipped port: messages wait in it until
 * the server's next round, and the mistake is made on the waiting messages.
 */
import type { StoragePort, StorageReceiver } from '../../../subsystems/storage/commit-queue.ts';
import type { ToStorage } from '../../../subsystems/storage/storage-wire.ts';

export interface Mistake {
  /** Returns the messages that arrive instead of these. */
  readonly arrive?: (messages: readonly ToStorage[]) => readonly ToStorage[];
  /** True if units count as durable when they are handed over. */
  readonly isHasty?: boolean;
}

export class PlantedPort implements StoragePort {
  readonly #port: StoragePort;
  readonly #mistake: Mistake;
  #receiver: StorageReceiver | undefined;
  #waiting: ToStorage[] = [];
  /** Messages on which the mistake has been made. */
  readonly #arriving: ToStorage[] = [];
  /** The newest unit that was handed over, as the queue counts. */
  #handed = 0;
  /** Number of units that arrive in addition to those handed over. */
  #extra = 0;

  constructor(port: StoragePort, mistake: Mistake) {
    this.#port = port;
    this.#mistake = mistake;
  }

  open(receiver: StorageReceiver): void {
    this.#receiver = receiver;
    this.#port.open({
      durable: (last) => {
        if (this.#mistake.isHasty !== true) receiver.durable(Math.min(last - this.#extra, this.#handed));
      },
      receive: (message) => {
        if (message.kind === 'opened') this.#handed = message.last;
        receiver.receive(message);
      },
    });
  }

  copy(): boolean {
    return false;
  }

  send(message: ToStorage): boolean {
    if (message.kind === 'unit') this.#handed++;
    this.#waiting.push(message);
    return true;
  }

  publish(): void {
    if (this.#mistake.isHasty === true) this.#receiver?.durable(this.#handed);
  }

  get hasWaiting(): boolean {
    return this.#waiting.length > 0 || this.#arriving.length > 0;
  }

  /** Lets the waiting messages arrive, as far as there is room. */
  arrive(): void {
    const { arrive = (messages) => messages } = this.#mistake;
    const messages = arrive(this.#waiting);
    this.#extra += unitsOf(messages) - unitsOf(this.#waiting);
    this.#arriving.push(...messages);
    this.#waiting = [];
    while (this.#arriving[0] !== undefined && this.#take(this.#arriving[0])) this.#arriving.shift();
    this.#port.publish();
  }

  #take(message: ToStorage): boolean {
    return (message.kind === 'unit' && this.#port.copy(message.unit)) || this.#port.send(message);
  }

  end(): Promise<void> {
    return this.#port.end();
  }
}

function unitsOf(messages: readonly ToStorage[]): number {
  return messages.filter(({ kind }) => kind === 'unit').length;
}
