/**
 * What crosses between the main thread and an executor, and how it is laid out in the ring.
 *
 *   main → executor
 *     TASK      one `Task` for one canister (task-record.ts)
 *     SLEEP     a canister is to be put to sleep (sleep-record.ts)
 *     ROUSE     one is to be brought back from what the executor has kept of it (sleep-record.ts)
 *     COMMAND   nothing: the next message of the port is a `Command` (port-messages.ts)
 *   executor → main
 *     CALL      one `OutgoingCall` of the step that follows (step-record.ts)
 *     STEP      one `Step` and the canister's gauges (step-record.ts)
 *     CHANGES   what the step that follows changes, for storage (step-record.ts)
 *     DEBUG     one `OutputLine` (debug-record.ts)
 *     REST      what a SLEEP, a ROUSE or the command `wake` is answered, if there is no more to tell, and what was taken back
 *               (sleep-record.ts)
 *     MESSAGE   nothing: the next message of the port is a `PortMessage`
 *
 * The bytes of a record (an argument, a reply, changes, a line) travel behind it in the ring, or, over INLINE_BYTES_MAX, by
 * the port, and then the record says so. The record is the same either way, and so is whatever is done with it: how large
 * something is decides how its bytes are carried, and nothing else. What is rare goes by the port as a whole (structured
 * clone), with a marker record in the ring that keeps the order. So the nth message of the port belongs to the nth record
 * that announces one.
 *
 * Both sides: the one writes records, the other reads them. How bytes lie in the ring is in ring-bytes.ts.
 */

export const TASK = 1;
export const COMMAND = 2;
export const CALL = 3;
export const STEP = 4;
export const DEBUG = 5;
export const MESSAGE = 6;
export const CHANGES = 7;
export const SLEEP = 8;
export const ROUSE = 9;
export const REST = 10;
