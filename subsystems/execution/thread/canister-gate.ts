/**
 * The one way into the canisters of a thread: at most one piece of work at a time in each of them, in the order in which
 * they came. Whatever brings the work, and however its bytes came, it asks here first.
 *
 * A canister whose message is suspended is closed, and what comes for it waits. When the message has ended, what has waited
 * is due; the canister stays closed until none of it is left, so that nothing that comes later gets ahead.
 *
 * Executor thread; knows handles and work, and touches no canister.
 */
export class CanisterGate<Work> {
  /** By handle, for those that are closed: what waits, in order. */
  readonly #waiting = new Map<number, Work[]>();
  /** Closed canisters whose message has ended and for which something waits, in turn. */
  readonly #due: number[] = [];
  readonly #own: (work: Work) => Work;

  /** `own`: the same work, which lasts: with bytes of its own. */
  constructor(own: (work: Work) => Work) {
    this.#own = own;
  }

  /** Something waits that may be done now. */
  get hasDue(): boolean {
    return this.#due.length > 0;
  }

  /** Whether the work may be done now. If not, because of a message under way or of what came before, it waits. */
  admits(handle: number, work: Work): boolean {
    const waiting = this.#waiting.get(handle);
    waiting?.push(this.#own(work));
    return waiting === undefined;
  }

  /** The canister's message, which has been admitted, has not ended. */
  close(handle: number): void {
    this.#waiting.set(handle, []);
  }

  /** The message that had closed the canister has ended. */
  ended(handle: number): void {
    const waiting = this.#waiting.get(handle);
    if (waiting === undefined)
      throw new Error(`a message of canister ${handle} has ended that had not closed the gate`);
    if (waiting.length === 0) this.#waiting.delete(handle);
    else this.#due.push(handle);
  }

  /**
   * Hands the next piece of work that is due to `begin`, which returns whether it has ended; one that has not is suspended,
   * and `ended` follows. One piece of one canister, then the next one's: nobody has to wait for all that waits for another.
   */
  work(begin: (work: Work) => boolean): void {
    const handle = this.#due.shift();
    const work = handle === undefined ? undefined : this.#waiting.get(handle)?.shift();
    if (handle === undefined || work === undefined) throw new Error('no work is due');
    if (begin(work)) this.ended(handle);
  }
}
