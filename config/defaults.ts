/**
 * Default values, each with its unit and its reason. Values called promised do not change, because users rely on them.
 */
import { availableParallelism } from 'node:os';
import { usableMemoryBytes } from './machine-memory.ts';

/** Promised: the manifest, relative to the working directory. */
export const MANIFEST_FILE = 'actors.json';

/** Promised: only this machine can reach it. */
export const LISTEN_ADDRESS = '127.0.0.1:7000';

/** Promised: instructions a message may use, in the IC's weighted units; the IC's own limit for an update message. */
export const INSTRUCTION_LIMIT = 40_000_000_000;

/** Promised: cycles of a new actor, enough for about 170 million empty messages. */
export const STARTING_CYCLES = 100_000_000_000_000n;

/** Promised: bytes of stack a guest may use (4 MiB). */
export const WASM_STACK_BYTES = 4 * 1024 * 1024;

/** Returns the number of cores, and at least two, so that one endless loop does not stop the other actors. */
export function defaultExecutors(): number {
  return Math.max(2, availableParallelism());
}

/** Share for actors; the rest is for the server itself, requests, the disk's cache and other processes. */
const MEMORY_SHARE = 3 / 4;

/** With this much memory, a compiler that is kept ready (`--watch`) keeps its memory from one source to the next. */
export const COMPILER_KEEPS_FROM_BYTES = 4e9;

/** 8 TiB less a page. */
export const MEMORY_BYTES_MAX = 2 ** 43 - 4096;

/** Returns the bytes of memory that all actors may have together (ADR 28). */
export function defaultMemoryBytes(): number {
  return Math.min(Math.floor(usableMemoryBytes() * MEMORY_SHARE), MEMORY_BYTES_MAX);
}

/** Promised: bytes of heap up to which every message ends with a snapshot (50 MB, decimal). */
export const SNAPSHOT_BELOW_BYTES = 50_000_000;

/** Promised: seconds of work that the archive may lack; the figure, and six small files a minute. */
export const ARCHIVE_SECS = 10;

/** Days that moments are kept in the archive: a mistake that is found within a month can be looked into. */
export const ARCHIVE_DAYS = 30;

/** Bytes of all timelines: an hour of a thousand small messages a second. */
export const TIMELINE_BYTES: number = 2 ** 30;

/** Seconds that replaying logs after a crash may take, for the whole host (docs/durability.md). */
export const REPLAY_BUDGET_SECS = 10;

/** Promised: milliseconds between heartbeats. */
export const HEARTBEAT_MS = 1_000;

/** Promised: milliseconds between checks of the global timers. */
export const TIMER_MS = 100;
/** Longest delay that Node's timers accept; with a longer one they fire at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

/** Promised: seconds for which answers are kept under clients' keys: one day, as in most services with such keys. */
export const IDEMPOTENCY_SECS = 86_400;

/** Promised: seconds that a synchronous call of an agent waits; the Internet Computer's own time. */
export const AGENT_WAIT_SECS = 10;

/** Promised: seconds after which an outcall is abandoned. */
export const OUTCALL_TIMEOUT_SECS = 30;
/** One day: an outcall that waits for longer holds a place that others need. */
export const OUTCALL_TIMEOUT_SECS_MAX = 86_400;

/** Processes of a node: one that is left alone has all shards of a small service. */
export const CLUSTER_PROCESSES = 8;

/** Processes that wait for shards: those of one of three nodes with six come back at once; each has 120 MB. */
export const CLUSTER_SPARES = 2;

/** Promised: recent messages kept for each actor. */
export const HISTORY_ENTRIES = 50;
