/** Rings of records in shared memory: how threads of this host talk. */
export { createRing, RingConsumer, RingProducer, type TakeRecord } from './message-ring.ts';
export { SpinGate } from './spin-gate.ts';
