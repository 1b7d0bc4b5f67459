/** Default values, each with its unit and its reason. Users rely on those that are called promised: they do not change. */
import { availableParallelism } from 'node:os';
import { usableMemoryBytes } from './machine-memory.ts';

/** Promised: the manifest, relative to the working directory. */
export const MANIFEST_FILE = 'actors.json';

/** Promised: reachable from this machine only. */
export const LISTEN_ADDRESS = '127.0.0.1:7000';

/** Promised: instructions a message may use, in the IC's weighted units; the IC's own limit for an update message. */
export const INSTRUCTION_LIMIT = 40_000_000_000;

/** Promised: cycles of a new actor, enough for about 170 million empty messages. */
export const STARTING_CYCLES = 100_000_000_000_000n;

/** Promised: bytes of stack a guest may use (4 MiB). */
export const WASM_STACK_BYTES = 4 * 1024 * 1024;

/** A thread for every core, and two even on one core, so that one endless loop does not stop the rest. */
export function defaultExecutors(): number {
  return Math.max(2, availableParallelism());
}

/** The rest is for the server itself, for requests, the disk's cache and other processes. */
const MEMORY_SHARE = 3 / 4;

/** With so much memory a compiler that is kept ready (`--watch`) keeps what it needed for one source for the next. */
export const COMPILER_KEEPS_FROM_BYTES = 4e9;

/** 8 TiB less a page. */
export const MEMORY_BYTES_MAX = 2 ** 43 - 4096;

/** ADR 28: bytes of memory that all actors may have together. */
export function defaultMemoryBytes(): number {
  return Math.min(Math.floor(usableMemoryBytes() * MEMORY_SHARE), MEMORY_BYTES_MAX);
}

/** Promised: bytes of heap up to which every message ends with a snapshot (50 MB, decimal). */
export const SNAPSHOT_BELOW_BYTES = 50_000_000;

/** Seconds that running logs again may take after a crash, for the whole host (docs/durability.md). */
export const REPLAY_BUDGET_SECS = 10;

/** Promised: milliseconds between heartbeats. */
export const HEARTBEAT_MS = 1_000;

/** Promised: milliseconds between looks at the global timers. */
export const TIMER_MS = 100;
/** Node calls at once, again and again, what is to be called after longer. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

/** Promised: seconds for which answers are kept under clients' keys: a day, as with most services that know such keys. */
export const IDEMPOTENCY_SECS = 86_400;

/** Promised: seconds after which an outcall is abandoned. */
export const OUTCALL_TIMEOUT_SECS = 30;
/** A day: whoever waits for longer holds a place that others need. */
export const OUTCALL_TIMEOUT_SECS_MAX = 86_400;

/** Promised: recent messages kept for each actor. */
export const HISTORY_ENTRIES = 50;
