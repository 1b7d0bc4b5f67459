/** Default values, each with its unit and where the number comes from. The contract's table wins over taste. */
import { availableParallelism } from 'node:os';
import { usableMemoryBytes } from './machine-memory.ts';

/** Contract: the manifest, relative to the working directory. */
export const MANIFEST_FILE = 'actors.json';

/** Contract: reachable from this machine only. */
export const LISTEN_ADDRESS = '127.0.0.1:7000';

/** Contract: instructions a message may use, in the IC's weighted units; the IC's own limit for an update message. */
export const INSTRUCTION_LIMIT = 40_000_000_000;

/** Contract: cycles of a new actor, enough for about 170 million empty messages. */
export const STARTING_CYCLES = 100_000_000_000_000n;

/** Contract: bytes of stack a guest may use (4 MiB). */
export const WASM_STACK_BYTES = 4 * 1024 * 1024;

/** decisions.md: a thread for every core, and two even on one core, so that one endless loop does not stop the rest. */
export function defaultExecutors(): number {
  return Math.max(2, availableParallelism());
}

/** The rest is for the server itself, for requests, the disk's cache and other processes. */
const MEMORY_SHARE = 3 / 4;

/** 8 TiB less a page. */
export const MEMORY_BYTES_MAX = 2 ** 43 - 4096;

/** ADR 28: bytes of memory that all actors may have together. */
export function defaultMemoryBytes(): number {
  return Math.min(Math.floor(usableMemoryBytes() * MEMORY_SHARE), MEMORY_BYTES_MAX);
}

/** Contract: bytes of heap up to which every message ends with a snapshot (50 MB, decimal). */
export const SNAPSHOT_BELOW_BYTES = 50_000_000;

/** durability.md: seconds that replaying logs may take after a crash, host-wide. */
export const REPLAY_BUDGET_SECS = 10;

/** Contract: milliseconds between heartbeats. */
export const HEARTBEAT_MS = 1_000;

/** Contract: milliseconds between looks at the global timers. */
export const TIMER_MS = 100;

/** Contract: seconds after which an outcall is abandoned. */
export const OUTCALL_TIMEOUT_SECS = 30;

/** Contract: recent messages kept for each actor. */
export const HISTORY_ENTRIES = 50;
