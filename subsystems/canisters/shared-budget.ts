/** One of many that together may hold so many bytes. */
export interface BudgetMember {
  /** Something was added since this was last set to false. */
  isRecent: boolean;
  /** Gives up about half of what it holds, the oldest first, and says so to the budget; called again, it ends with nothing. */
  shrink(): void;
}

/**
 * What all actors may hold together, besides what one of them may: with 10,000 of them the one bound says little. Who is
 * over it is decided as pages of memory are chosen ("second chance"), since an order of last use would have to be kept
 * with every message: the members take turns, those with something new are passed over once, the others give up half.
 */
export class SharedBudget {
  readonly #bytesMax: number;
  readonly #members = new Set<BudgetMember>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  join(member: BudgetMember): void {
    this.#members.add(member);
  }

  /** What it held must have been taken off before. */
  leave(member: BudgetMember): void {
    this.#members.delete(member);
  }

  /** A member holds so many bytes more, or fewer, than it last said. */
  changed(bytes: number): void {
    this.#bytes += bytes;
    if (bytes > 0 && this.#bytes > this.#bytesMax) this.#makeRoom();
  }

  #makeRoom(): void {
    // The second time round nobody is passed over; more rounds only help if members are many and small.
    let turnsLeft = 2 * this.#members.size;
    for (const member of this.#members) {
      if (this.#bytes <= this.#bytesMax || turnsLeft-- === 0) return;
      this.#members.delete(member);
      this.#members.add(member);
      if (member.isRecent) member.isRecent = false;
      else member.shrink();
    }
  }
}
