/**
 * Throws a plain `Error` if the condition does not hold: the program has a bug. (Mistakes that somebody else can mend
 * are ServerErrors.) Assertions also run in production. The message says what is the case; it is built before the
 * condition is tested, so code that runs for every message uses a constant, or `at`.
 */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}

/** Returns the element at the index. Throws `no <noun> <index>` if there is none. */
export function at<T>(array: readonly (T | undefined)[], index: number, noun: string): T {
  const element = array[index];
  if (element === undefined) throw new Error(`no ${noun} ${index}`);
  return element;
}

/**
 * Returns the number at the index; throws like `at`. A separate function, because V8 is faster when one place sees one
 * kind of array, and `at` sees arrays of objects.
 */
export function numberAt(numbers: ArrayLike<number>, index: number, noun: string): number {
  const number = numbers[index];
  if (number === undefined) throw new Error(`no ${noun} ${index}`);
  return number;
}
