/**
 * Repeats `attempt` up to `count` times until it succeeds; throws the error of the last attempt. For tests that depend
 * on the clock, or that need this thread not to be held up at one point: a machine that is busy with other work spoils
 * one attempt, and the bug that the test is for spoils all of them.
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
