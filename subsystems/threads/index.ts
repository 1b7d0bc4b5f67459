/**
 * Threads of this host: rings of records in shared memory, by which they talk; jobs for one of them; and each thread's
 * care for its own memory.
 */
export { collectGarbage } from './collect-garbage.ts';
export { EarlyWake } from './early-wake.ts';
export { errorOf, failureOf, type JobFailure } from './job-failure.ts';
export { JobThread } from './job-thread.ts';
export { serveJobs } from './serve-jobs.ts';
export { createRing, RingConsumer, RingProducer } from './message-ring.ts';
export { postInOrder, receiveDue, SpillLine } from './port-ring.ts';
export { RingListener } from './ring-listener.ts';
export { SpinGate } from './spin-gate.ts';
