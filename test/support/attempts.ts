/**
 * Does it again, up to so many times, until nothing is thrown; what the last attempt throws otherwise. For what is told by the
 * clock, or needs that nobody holds up this thread at one place: a machine that is busy with something else spoils an attempt,
 * and the bug that the test is for spoils all of them.
 */
export async function attempts<T>(count: number, attempt: () => Promise<T>): Promise<T> {
  for (let left = count; ; left--) {
    try {
      return await attempt();
    } catch (error) {
      if (left <= 1) throw error;
    }
  }
}
