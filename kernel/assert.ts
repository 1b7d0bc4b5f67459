/**
 * Throws if the condition does not hold: the mistake is ours, not somebody's who could mend it (those are ServerErrors).
 * Asserted in production, too. The message says what is the case, and is put together before the condition is looked at:
 * on the way of every message let it be a constant, or use `at`.
 */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}

/** The element that is known to be there. Throws `no <noun> <index>` if it is not. */
export function at<T>(array: readonly (T | undefined)[], index: number, noun: string): T {
  const element = array[index];
  if (element === undefined) throw new Error(`no ${noun} ${index}`);
  return element;
}

/** The same of numbers: apart, because V8 is quick with one kind of array at a place, and the arrays that `at` sees are of objects. */
export function numberAt(numbers: ArrayLike<number>, index: number, noun: string): number {
  const number = numbers[index];
  if (number === undefined) throw new Error(`no ${noun} ${index}`);
  return number;
}
