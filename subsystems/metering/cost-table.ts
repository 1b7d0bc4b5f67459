import type { Ic0Name } from '../wasm/index.ts';

/** Charged by the host for each byte a system call copies. */
export const INSTRUCTIONS_PER_BYTE = 1;
/** Charged for each 4 KiB page of stable memory that a message writes for the first time. */
export const INSTRUCTIONS_PER_DIRTY_STABLE_PAGE = 1000;

/** What most system calls cost before the bytes they copy. */
export const SYSTEM_CALL_OVERHEAD_DEFAULT = 500;
const SYSTEM_CALL_OVERHEAD: Partial<Record<Ic0Name, number>> = {
  call_new: 1500,
  call_perform: 5000,
  is_controller: 1000,
  performance_counter: 200,
  debug_print: 100,
  stable_size: 20,
  stable64_size: 20,
  stable_read: 20,
  stable_write: 20,
  stable64_read: 20,
  stable64_write: 20,
  stable_grow: 500,
  stable64_grow: 500,
  cost_http_request_v2: 10000,
};

/** The fixed cost of a system call. The instrumenter charges it; hosts charge only what depends on the arguments. */
export function systemCallOverhead(name: string): number {
  return (SYSTEM_CALL_OVERHEAD as Record<string, number | undefined>)[name] ?? SYSTEM_CALL_OVERHEAD_DEFAULT;
}
