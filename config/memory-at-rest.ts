/**
 * Memory that the server has freed and the C library keeps: the ends of its arenas, one for each of a dozen threads,
 * and free pages between used ones. These take 9 MB of an idle server and 40 MB after a compilation, and only
 * `malloc_trim` returns them to the system. Node reaches it through `node:ffi`, which is experimental: if that is
 * missing or has changed, nothing is returned.
 *
 * A call takes 1 to 5 ms, and 30 ms if there is a gigabyte to return; other threads that allocate wait meanwhile. So
 * the call is made when the server rests after work.
 */
import type { Clock } from '../kernel/index.ts';

/**
 * Interval of checks. Idle threads release their memory within eight seconds; two more checks then return that, too.
 */
const CHECK_MS = 3_000;
/** Share of one processor above which the server is at work; an idle server with two actors takes a twentieth. */
const REST_SHARE = 0.1;
/** Processor time below which work leaves nothing worth returning. */
const WORK_MS_MIN = 50;

export interface MemoryAtRestOptions {
  readonly clock: Pick<Clock, 'every'>;
  /** Returns the processor time of the whole process so far. */
  readonly cpuMs?: () => number;
  /** Returns free memory to the system. */
  readonly free: () => void;
}

/** Returns memory to the system when the process rests after work, until the returned value is disposed of. */
export function giveBackAtRest({ clock, cpuMs = processorMs, free }: MemoryAtRestOptions): Disposable {
  let atCheck = cpuMs();
  let atGivingBack = 0;
  return clock.every(CHECK_MS, () => {
    const now = cpuMs();
    const isAtRest = now - atCheck < CHECK_MS * REST_SHARE;
    atCheck = now;
    if (!isAtRest || now - atGivingBack < WORK_MS_MIN) return;
    free();
    atGivingBack = atCheck = cpuMs();
  });
}

function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** The part of `node:ffi` that is used. A library of null is the process itself. */
interface ForeignFunctions {
  dlopen(
    library: null,
    signatures: { readonly malloc_trim: { readonly arguments: readonly ['uint64']; readonly return: 'int32' } },
  ): { readonly functions: { malloc_trim(padBytes: bigint): number } };
}

/** Returns the function. Throws if the platform lacks it or it cannot be reached, which is no bug. */
export function trimmer(): () => void {
  const emitWarning = process.emitWarning.bind(process);
  // Node would warn that the module is experimental, and an operator can do nothing about it.
  process.emitWarning = () => undefined;
  try {
    const ffi = process.getBuiltinModule('node:ffi') as unknown as ForeignFunctions | undefined;
    if (ffi === undefined) throw new Error(`Node ${process.versions.node} has no node:ffi`);
    const { functions } = ffi.dlopen(null, { malloc_trim: { arguments: ['uint64'], return: 'int32' } });
    return () => void functions.malloc_trim(0n);
  } finally {
    process.emitWarning = emitWarning;
  }
}
