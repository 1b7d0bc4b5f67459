/**
 * Names of actors of other servers, as the store said within the last moments. What is not known is asked, once for all
 * who want to know; that a name is nobody's is believed for a moment, so that nobody can have the store asked at will.
 */
import { type Clock, ServerError } from '../../kernel/index.ts';
import type { ServiceStore } from './index.ts';

/** Names that are remembered. */
const NAMES_MAX = 10_000;
const KNOWN_MS = 30_000;
const UNKNOWN_MS = 100;
/** Names that are being asked for at once; for more, clients are told to come again. */
const ASKED_MAX = 1_000;

interface Known {
  readonly id: Uint8Array | undefined;
  readonly untilMs: number;
}

export class NameTable {
  readonly #store: Pick<ServiceStore, 'findName'>;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #known = new Map<string, Known>();
  readonly #asked = new Map<string, Promise<Uint8Array | undefined>>();

  constructor(store: Pick<ServiceStore, 'findName'>, clock: Pick<Clock, 'nowMs'>) {
    this.#store = store;
    this.#clock = clock;
  }

  /**
   * Returns the id of the actor with that name, undefined for nobody's, or a promise of it. Rejects with what the store
   * says, or with ServerError `owner-missing` when too much is being asked.
   */
  find(name: string): Uint8Array | undefined | Promise<Uint8Array | undefined> {
    const known = this.#known.get(name);
    if (known !== undefined && known.untilMs > this.#clock.nowMs()) return known.id;
    return this.#asked.get(name) ?? this.#ask(name);
  }

  /** The name may mean another actor by now. */
  forget(name: string): void {
    this.#known.delete(name);
  }

  #ask(name: string): Promise<Uint8Array | undefined> {
    if (this.#asked.size >= ASKED_MAX) return Promise.reject(busy());
    const asked = this.#store
      .findName(name)
      .then((id) => this.#remember(name, id))
      .finally(() => this.#asked.delete(name));
    this.#asked.set(name, asked);
    return asked;
  }

  #remember(name: string, id: Uint8Array | undefined): Uint8Array | undefined {
    const untilMs = this.#clock.nowMs() + (id === undefined ? UNKNOWN_MS : KNOWN_MS);
    this.#known.delete(name);
    this.#known.set(name, { id, untilMs });
    const [oldest] = this.#known.keys();
    if (this.#known.size > NAMES_MAX && oldest !== undefined) this.#known.delete(oldest);
    return id;
  }
}

function busy(): ServerError {
  return new ServerError('unavailable', 'owner-missing', `more than ${ASKED_MAX} names of actors are being looked up`);
}
