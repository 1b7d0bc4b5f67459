/**
 * Memory that a server has freed and the C library keeps: the ends of its areas, one for each of a dozen threads, and pages between what is
 * in use. It is 9 MB of an idle server and 40 behind a compilation, and nothing but `malloc_trim` gives it back. Node reaches that by
 * `node:ffi`, which is experimental: where it is missing or has changed, memory stays as it is.
 *
 * A call takes 1 to 5 ms, 30 with a gigabyte to give back, in which other threads wait if they allocate. So it is made when the server rests, after work.
 */
import type { Clock } from '../kernel/index.ts';

/** Threads that fall idle give back what they have within eight seconds: within two of these more that is gone, too. */
const CHECK_MS = 3_000;
/** More of one processor than this is work; an idle server with two actors takes a twentieth of it. */
const REST_SHARE = 0.1;
/** Of processor time: less work than this leaves nothing that counts. */
const WORK_MS_MIN = 50;

export interface MemoryAtRestOptions {
  readonly clock: Pick<Clock, 'every'>;
  /** Processor time of the whole process so far. */
  readonly cpuMs?: () => number;
  /** Gives back what is free. */
  readonly giveBack: () => void;
}

/** Gives memory back when the process has worked and rests, until what is returned is disposed of. */
export function giveBackAtRest({ clock, cpuMs = processorMs, giveBack }: MemoryAtRestOptions): Disposable {
  let atCheck = cpuMs();
  let atGivingBack = 0;
  return clock.every(CHECK_MS, () => {
    const now = cpuMs();
    const isAtRest = now - atCheck < CHECK_MS * REST_SHARE;
    atCheck = now;
    if (!isAtRest || now - atGivingBack < WORK_MS_MIN) return;
    giveBack();
    atGivingBack = atCheck = cpuMs();
  });
}

function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** The part of `node:ffi` that is used: null is the process itself. */
interface ForeignFunctions {
  dlopen(
    library: null,
    signatures: { readonly malloc_trim: { readonly arguments: readonly ['uint64']; readonly return: 'int32' } },
  ): { readonly functions: { malloc_trim(padBytes: bigint): number } };
}

/** Throws where there is no such function, or no way to it: that is no bug. */
export function trimmer(): () => void {
  const emitWarning = process.emitWarning.bind(process);
  // That it is experimental is known here, and nobody else can do anything about it.
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
