/**
 * Records and messages that cross between the main thread and an executor, and their layout in the ring.
 *
 *   main → executor
 *     TASK      one `Task` for one canister (task-record.ts)
 *     SLEEP     puts a canister to sleep (sleep-record.ts)
 *     ROUSE     wakes a canister from the packed state that the executor has kept (sleep-record.ts)
 *     COMMAND   nothing: the next message of the port is a `Command` (port-messages.ts)
 *   executor → main
 *     CALL      one `OutgoingCall` of the step that follows (step-record.ts)
 *     STEP      one `Step` and the canister's gauges (step-record.ts)
 *     CHANGES   changes of the step that follows, for storage (step-record.ts)
 *     DEBUG     one `OutputLine` (debug-record.ts)
 *     REST      answers a SLEEP, a ROUSE or the command `wake` if there is no more to tell, and work that was taken
 *               back (sleep-record.ts)
 *     MESSAGE   nothing: the next message of the port is a `PortMessage`
 *
 * The bytes of a record (an argument, a reply, changes, a line) travel behind it in the ring, or, over
 * INLINE_BYTES_MAX, by the port, and then the record says so. The record and its handling are the same either way: the
 * size decides only how the bytes are carried. Rare messages go by the port as a whole (structured clone), with a
 * marker record in the ring that keeps the order. So the nth message of the port belongs to the nth record that
 * announces one.
 *
 * Both sides: one writes records, the other reads them. The layout of bytes in the ring is in ring-bytes.ts.
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
