/** One of many that together may hold so many bytes. */
export interface BudgetMember {
  /** Something was added since this was last set to false. */
  isRecent: boolean;
  /**
   * Gives up about half of what it holds, the oldest first, and says so to the budget; called again, it ends with
   * nothing.
   */
  shrink(): void;
}

/**
 * A bound on what all actors hold together, besides the bound of each: with 10,000 actors that one says little. Members
 * give way as pages of memory do ("second chance"), since an order of last use would have to be kept with every
 * message: members take turns, those with something new are passed over once, the others give up half.
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

  /** Removes a member, whose bytes must have been taken off before. */
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
