/**
 * Main thread: what comes and goes with every message, in the order in which it came. Touches the links of its members
 * alone.
 *
 * As a Set, but the links lie in the members. A Set is made anew when its table is full of members that have gone, and
 * the old table refers to the new one: once a collection has moved one such table to the old generation, every later
 * collection takes the tables behind it for alive, with whatever was in them. A third of a kilobyte of each update
 * lived until the next full collection. Here whoever goes refers to nobody.
 */

/** In one list at most. Only the list changes these. */
export interface Member<T> {
  earlier: T | undefined;
  later: T | undefined;
  /** Counts up within a list; 0: it is in none. */
  place: number;
}

export class MemberList<T extends Member<T>> implements Iterable<T> {
  #first: T | undefined = undefined;
  #last: T | undefined = undefined;
  #placesGiven = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Asks for any list's members: nothing here is in a list of another canister. */
  has({ place }: T): boolean {
    return place !== 0;
  }

  add(member: T): void {
    if (member.place !== 0) return;
    member.place = ++this.#placesGiven;
    const last = this.#last;
    member.earlier = last;
    if (last === undefined) this.#first = member;
    else last.later = member;
    this.#last = member;
    this.#size++;
  }

  /** False: it was not there. */
  delete(member: T): boolean {
    if (member.place === 0) return false;
    const { earlier, later } = member;
    if (earlier === undefined) this.#first = later;
    else earlier.later = later;
    if (later === undefined) this.#last = earlier;
    else later.earlier = earlier;
    member.earlier = undefined;
    member.later = undefined;
    member.place = 0;
    this.#size--;
    return true;
  }

  /** Members may come and go meanwhile, as with a Set: who has gone is left out, who came is not. */
  *[Symbol.iterator](): Iterator<T> {
    let member = this.#first;
    while (member !== undefined) {
      const { place, earlier } = member;
      const placeBefore = earlier?.place;
      yield member;
      if (member.place === place) member = member.later;
      else if (earlier !== undefined && earlier.place === placeBefore) member = earlier.later;
      else member = this.#firstBehind(place);
    }
  }

  #firstBehind(place: number): T | undefined {
    let member = this.#first;
    while (member !== undefined && member.place <= place) member = member.later;
    return member;
  }
}
