/**
 * Begins to count this thread's processor time; the function returned tells how many milliseconds of it have passed. What
 * must not take long is held against that: by the clock, a busy machine makes everything long.
 */
export function startCpuTimer(): () => number {
  const start = process.threadCpuUsage();
  return () => {
    const { user, system } = process.threadCpuUsage(start);
    return (user + system) / 1000;
  };
}
