/** Rings of records in shared memory: how threads of this host talk; and what each does for itself. */
export { collectGarbage } from './collect-garbage.ts';
export { createRing, RingConsumer, RingProducer, type TakeRecord } from './message-ring.ts';
export { SpinGate } from './spin-gate.ts';
