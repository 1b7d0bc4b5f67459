/**
 * Starts counting this thread's processor time; the returned function returns the milliseconds counted so far. Tests of
 * short work use this time, since on a busy machine everything takes long by the clock.
 */
export function startCpuTimer(): () => number {
  const start = process.threadCpuUsage();
  return () => {
    const { user, system } = process.threadCpuUsage(start);
    return (user + system) / 1000;
  };
}
