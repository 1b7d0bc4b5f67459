import { readdirSync, statSync } from 'node:fs';

/** The file descriptors of this process: files, connections, and what threads wake each other with. */
export interface Descriptors {
  /** Descriptors that the process may have open. */
  readonly limit: number;
  /** Returns the number of descriptors that the process has open. */
  inUse(): number;
}

/** Connections at once, whatever the descriptors allow: about 15 KiB each, with what the system keeps for it. */
const CONNECTIONS_MAX = 16_384;
/** Connections that are always taken. */
const CONNECTIONS_MIN = 16;
/** Connections until the server takes work: for probes. The descriptors that recovery will open are not known yet. */
export const STARTING_CONNECTIONS_MAX = 64;
/**
 * Descriptors kept free for what storage, compiler and new threads open until the next look (RocksDB keeps each of
 * its files open).
 */
const RESERVE_FACTOR = 1 / 4;
const RESERVE_MIN = 64;
const RESERVE_MAX = 4096;

export interface ConnectionBound {
  readonly connectionsMax: number;
  /** Explains to the operator how the bound came about. */
  readonly reason: string;
  /** True if there are too few descriptors even for the connections that are always taken. */
  readonly isTight: boolean;
}

/**
 * Returns the number of connections that the descriptors leave room for, beside a reserve and everything else that is
 * open now.
 */
export function connectionBound(descriptors: Descriptors, connections: number): ConnectionBound {
  const { limit } = descriptors;
  const others = Math.max(0, descriptors.inUse() - connections);
  const reserve = Math.min(RESERVE_MAX, Math.max(RESERVE_MIN, Math.ceil(limit * RESERVE_FACTOR)));
  const room = limit - others - reserve;
  const limitText = Number.isFinite(limit) ? String(limit) : 'any number of';
  return {
    connectionsMax: Math.min(CONNECTIONS_MAX, Math.max(CONNECTIONS_MIN, room)),
    reason: `of the ${limitText} descriptors that this process may open, ${others} are in use and ${reserve} stay free for files`,
    isTight: room < CONNECTIONS_MIN,
  };
}

/** Read once a process: the system's report takes milliseconds. */
let knownLimit: number | undefined;

/**
 * Returns the descriptors as the system tells them. The limit is the one in force: Node raises the soft limit to the
 * hard one when it starts, so `ulimit -n` of the shell may say less.
 */
export function systemDescriptors(): Descriptors {
  return { limit: (knownLimit ??= limitInForce()), inUse: countOpen };
}

function limitInForce(): number {
  const report: typeof process.report & { excludeNetwork?: boolean } = process.report;
  const { excludeEnv, excludeNetwork = false } = report;
  // Nothing else of it is wanted, and names of other machines would be looked up.
  report.excludeNetwork = true;
  report.excludeEnv = true;
  try {
    const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
    const soft = userLimits?.open_files?.soft;
    return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY;
  } finally {
    report.excludeNetwork = excludeNetwork;
    report.excludeEnv = excludeEnv;
  }
}

function countOpen(): number {
  // Linux tells the number as the folder's size since version 6.2; a folder that is not there has none.
  const told = statSync('/proc/self/fd', { throwIfNoEntry: false })?.size ?? 0;
  return told > 0 ? told : readdirSync('/dev/fd').length;
}
