/**
 * Objects by a hash, linked through themselves: buckets that are an array, and chains through `next`. Not a Map,
 * because what comes and goes thousands of times a second makes V8 replace a Map's table again and again, and a
 * replaced table refers to the one that took its place: once one of them is old, all later ones look alive to the
 * collection of young objects, and so does what was in them. Every call was copied twice for that, and stayed until the
 * next large collection.
 *
 * Main thread: plain data. It grows by as much as it has, once for each doubling.
 */
const FIRST_BUCKETS = 16;

export interface Chained<T> {
  /** 0 ≤ hash < 2^32. */
  readonly hash: number;
  /** Another one of the same bucket. Nobody but the chains touches it. */
  next: T | undefined;
}

export class HashChains<T extends Chained<T>> {
  /** As many as a power of two. */
  #buckets: (T | undefined)[] = emptyBuckets(FIRST_BUCKETS);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /**
   * One of the bucket of that hash; the others of the bucket follow by `next`, in no order. They may have other hashes.
   */
  bucketOf(hash: number): T | undefined {
    const buckets = this.#buckets;
    return buckets[hash & (buckets.length - 1)];
  }

  add(element: T): void {
    if (++this.#count > this.#buckets.length) this.#grow();
    enter(this.#buckets, element);
  }

  /** Returns whether it was there. */
  delete(element: T): boolean {
    const buckets = this.#buckets;
    const at = element.hash & (buckets.length - 1);
    let other = buckets[at];
    if (other === element) buckets[at] = element.next;
    else {
      while (other !== undefined && other.next !== element) other = other.next;
      if (other === undefined) return false;
      other.next = element.next;
    }
    // An element that is gone must not hold on to one that stays.
    element.next = undefined;
    this.#count--;
    return true;
  }

  clear(): void {
    this.#buckets = emptyBuckets(FIRST_BUCKETS);
    this.#count = 0;
  }

  #grow(): void {
    const larger = emptyBuckets<T>(2 * this.#buckets.length);
    for (const newest of this.#buckets) {
      for (let element = newest; element !== undefined;) {
        const { next } = element;
        enter(larger, element);
        element = next;
      }
    }
    this.#buckets = larger;
  }
}

function emptyBuckets<T>(count: number): (T | undefined)[] {
  return Array.from<T | undefined>({ length: count });
}

function enter<T extends Chained<T>>(buckets: (T | undefined)[], element: T): void {
  const at = element.hash & (buckets.length - 1);
  element.next = buckets[at];
  buckets[at] = element;
}
