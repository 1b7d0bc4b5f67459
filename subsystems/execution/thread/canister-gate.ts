/**
 * The only way into the canisters of a thread: each canister has at most one piece of work at a time, in order of
 * arrival. All work asks here first, whatever brings it and however its bytes came.
 *
 * A canister whose message is suspended is closed, and work that arrives for it waits. When the message has ended, the
 * waiting work is due; the canister stays closed until none of it is left, so that no later work overtakes it.
 *
 * Executor thread; knows handles and work, and touches no canister.
 */
export class CanisterGate<Work> {
  /** Waiting work of closed canisters by handle, in order. */
  readonly #waiting = new Map<number, Work[]>();
  /** Closed canisters whose message has ended and that have waiting work, in turn. */
  readonly #due: number[] = [];
  readonly #own: (work: Work) => Work;

  /** `own` returns the same work in a form that lasts, with bytes of its own. */
  constructor(own: (work: Work) => Work) {
    this.#own = own;
  }

  /** True if waiting work can be done now. */
  get hasDue(): boolean {
    return this.#due.length > 0;
  }

  /**
   * Returns true if the work may be done now. Otherwise it waits, for a message under way or for work that came before.
   */
  admits(handle: number, work: Work): boolean {
    const waiting = this.#waiting.get(handle);
    waiting?.push(this.#own(work));
    return waiting === undefined;
  }

  /** Closes a canister: its message, which was admitted, has not ended. */
  close(handle: number): void {
    this.#waiting.set(handle, []);
  }

  /** Notes that the message that had closed the canister has ended. */
  ended(handle: number): void {
    const waiting = this.#waiting.get(handle);
    if (waiting === undefined)
      throw new Error(`a message of canister ${handle} has ended that had not closed the gate`);
    if (waiting.length === 0) this.#waiting.delete(handle);
    else this.#due.push(handle);
  }

  /**
   * Hands the next piece of due work to `begin`, which returns true if the work has ended; otherwise it is suspended,
   * and `ended` follows. Takes one piece of one canister, then one of the next: no canister has to wait for all of
   * another's work.
   */
  work(begin: (work: Work) => boolean): void {
    const handle = this.#due.shift();
    const work = handle === undefined ? undefined : this.#waiting.get(handle)?.shift();
    if (handle === undefined || work === undefined) throw new Error('no work is due');
    if (begin(work)) this.ended(handle);
  }
}
