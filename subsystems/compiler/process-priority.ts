import { readdirSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';

const NICENESS_MAX = 19;

/**
 * Makes all threads of a process, and the threads that they start, nicer by `niceness`: they then have what others
 * leave of the processors. Does nothing except on Linux; a process or a thread that is gone is left out. Only root
 * can raise the priority again.
 */
export function lowerPriority(pid: number, niceness: number): void {
  for (const thread of threadsOf(pid)) {
    try {
      setPriority(thread, Math.min(NICENESS_MAX, getPriority(thread) + niceness));
    } catch {
      // The thread has ended.
    }
  }
}

/** On Linux each thread has a priority of its own, and the process's id stands for its first thread only. */
function threadsOf(pid: number): readonly number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [];
  }
}
