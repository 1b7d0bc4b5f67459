/**
 * Turns for connections to other servers. Their number is limited for each canister, each server and the host. Outcalls
 * without a place wait; the first one that could run goes first. The number of waiting outcalls and their bytes are
 * limited, too; the next one beyond a limit is refused.
 */
import { abortReason } from '../../outcalls/index.ts';

export interface OutcallBounds {
  /** Running outcalls of one canister, so that none takes all places. */
  readonly ofCanisterMax: number;
  /** Running outcalls to one host and port: the number of connections that a polite client opens to a server. */
  readonly toHostMax: number;
  /** Running outcalls of all canisters: each may hold two million bytes of request and of response, 512 MB together. */
  readonly activeMax: number;
  /** Waiting outcalls of all canisters. */
  readonly waitingMax: number;
  /** Waiting outcalls of one canister, so that none fills the queue. */
  readonly waitingOfCanisterMax: number;
  /** Bytes of the waiting requests. */
  readonly waitingBytesMax: number;
}

export const OUTCALL_BOUNDS: OutcallBounds = {
  ofCanisterMax: 32,
  toHostMax: 32,
  activeMax: 128,
  waitingMax: 2000,
  waitingOfCanisterMax: 500,
  waitingBytesMax: 128 * 1024 * 1024,
};

/** An outcall that wants to be sent. */
export interface Turn {
  /** Id of the canister. */
  readonly canister: string;
  readonly host: string;
  readonly bytes: number;
}

interface Waiting {
  readonly turn: Turn;
  readonly begin: () => void;
}

export class OutcallTurns {
  readonly #bounds: OutcallBounds;
  readonly #ofCanister = new Map<string, number>();
  readonly #toHost = new Map<string, number>();
  readonly #waitingOfCanister = new Map<string, number>();
  readonly #waiting = new Set<Waiting>();
  #active = 0;
  #waitingBytes = 0;

  constructor(bounds: OutcallBounds = OUTCALL_BOUNDS) {
    this.#bounds = bounds;
  }

  get active(): number {
    return this.#active;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Asks for a turn. Returns undefined if the outcall has its turn; a promise that resolves when it has, and rejects
   * with the signal's reason when `signal` is aborted; or a text with the reason why it may not even wait.
   */
  enter(turn: Turn, signal: AbortSignal): Promise<void> | string | undefined {
    if (this.#mayBegin(turn)) {
      this.#begin(turn);
      return undefined;
    }
    const { waitingMax, waitingOfCanisterMax, waitingBytesMax } = this.#bounds;
    if (this.#waiting.size >= waitingMax) return `${waitingMax} outcalls wait on this host already`;
    if ((this.#waitingOfCanister.get(turn.canister) ?? 0) >= waitingOfCanisterMax)
      return `${waitingOfCanisterMax} outcalls of this actor wait already`;
    if (this.#waitingBytes + turn.bytes > waitingBytesMax)
      return `outcalls that wait on this host have ${waitingBytesMax} bytes already`;
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.delete(waiting);
        this.#waitingBytes -= turn.bytes;
        add(this.#waitingOfCanister, turn.canister, -1);
        signal.removeEventListener('abort', give);
      };
      const give = (): void => {
        leave();
        reject(abortReason(signal));
      };
      const waiting: Waiting = {
        turn,
        begin: () => {
          leave();
          this.#begin(turn);
          resolve();
        },
      };
      this.#waiting.add(waiting);
      this.#waitingBytes += turn.bytes;
      add(this.#waitingOfCanister, turn.canister, 1);
      signal.addEventListener('abort', give);
    });
  }

  /** Ends a turn and starts waiting outcalls. */
  leave(turn: Turn): void {
    this.#active--;
    add(this.#ofCanister, turn.canister, -1);
    add(this.#toHost, turn.host, -1);
    for (const waiting of this.#waiting) {
      if (this.#active >= this.#bounds.activeMax) return;
      if (this.#mayBegin(waiting.turn)) waiting.begin();
    }
  }

  #mayBegin({ canister, host }: Turn): boolean {
    const { activeMax, ofCanisterMax, toHostMax } = this.#bounds;
    return (
      this.#active < activeMax &&
      (this.#ofCanister.get(canister) ?? 0) < ofCanisterMax &&
      (this.#toHost.get(host) ?? 0) < toHostMax
    );
  }

  #begin({ canister, host }: Turn): void {
    this.#active++;
    add(this.#ofCanister, canister, 1);
    add(this.#toHost, host, 1);
  }
}

function add(counts: Map<string, number>, key: string, more: number): void {
  const count = (counts.get(key) ?? 0) + more;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
