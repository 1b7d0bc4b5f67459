/**
 * Modes in which each import may be called: the one table of them.
 *
 * A mode is a bit, an import's contexts are a mask, and the check in front of every import (`index.ts`) is one `and`.
 * The letters are those of the interface specification.
 *
 * A table: it belongs to no thread.
 */
import type { Ic0Name } from '../../../wasm/index.ts';

/** Kinds of execution. The bit is the mode's place in the masks. */
export const MODES = {
  /** The wasm start function. */
  s: { bit: 1 << 0, text: 'start', isReplicated: true },
  /** `canister_init`, `canister_post_upgrade`. */
  I: { bit: 1 << 1, text: 'init', isReplicated: true },
  /** `canister_pre_upgrade`. */
  G: { bit: 1 << 2, text: 'pre upgrade', isReplicated: true },
  /** An update method. */
  U: { bit: 1 << 3, text: 'update', isReplicated: true },
  /** A query method run by an update-type call. */
  RQ: { bit: 1 << 4, text: 'replicated query', isReplicated: true },
  /** A query method run by a query call. */
  NRQ: { bit: 1 << 5, text: 'non replicated query', isReplicated: false },
  /** A query method run as the transform of an outcall. */
  TQ: { bit: 1 << 6, text: 'transform query', isReplicated: false },
  /** A composite query method. */
  CQ: { bit: 1 << 7, text: 'composite query', isReplicated: false },
  /** Reply and reject callbacks. */
  Ry: { bit: 1 << 8, text: 'reply callback', isReplicated: true },
  Rt: { bit: 1 << 9, text: 'reject callback', isReplicated: true },
  /** Reply and reject callbacks inside a composite query. */
  CRy: { bit: 1 << 10, text: 'composite reply callback', isReplicated: false },
  CRt: { bit: 1 << 11, text: 'composite reject callback', isReplicated: false },
  /** Cleanup callbacks, outside and inside a composite query. */
  C: { bit: 1 << 12, text: 'cleanup', isReplicated: true },
  CC: { bit: 1 << 13, text: 'composite cleanup', isReplicated: false },
  /** `canister_inspect_message`. */
  F: { bit: 1 << 14, text: 'inspect message', isReplicated: false },
  /** A system task: heartbeat, global timer, low wasm memory. */
  T: { bit: 1 << 15, text: 'system task', isReplicated: true },
} as const satisfies Record<string, { readonly bit: number; readonly text: string; readonly isReplicated: boolean }>;

export type Mode = keyof typeof MODES;
const MODE_NAMES = Object.keys(MODES) as readonly Mode[];

const ANSWERING = 'U RQ NRQ TQ CQ Ry Rt CRy CRt';
const CALLER_INFO = 'U RQ NRQ CQ Ry Rt CRy CRt C CC F';
const WITH_ARGUMENT = 'I U RQ NRQ TQ CQ Ry CRy F';
const WITH_CYCLES = 'U RQ Ry Rt';
const CALLING = 'U CQ Ry Rt CRy CRt T';
const PAYING = 'U Ry Rt T';
const REPLICATED = 'I G U RQ Ry Rt C T';
const CERTIFYING = 'I G U Ry Rt T';
const ANYWHERE = '*';
const ANYWHERE_AND_START = '* s';

/** Contexts by import, in the notation of the specification: codes separated by spaces, `*` is every mode but `s`. */
const CONTEXTS = {
  msg_arg_data_size: WITH_ARGUMENT,
  msg_arg_data_copy: WITH_ARGUMENT,
  msg_caller_size: ANYWHERE,
  msg_caller_copy: ANYWHERE,
  msg_caller_info_data_size: CALLER_INFO,
  msg_caller_info_data_copy: CALLER_INFO,
  msg_caller_info_signer_size: CALLER_INFO,
  msg_caller_info_signer_copy: CALLER_INFO,
  msg_reject_code: 'Ry Rt CRy CRt C',
  msg_reject_msg_size: 'Rt CRt',
  msg_reject_msg_copy: 'Rt CRt',
  msg_deadline: 'U RQ NRQ CQ Ry Rt CRy CRt',
  msg_method_name_size: 'F',
  msg_method_name_copy: 'F',
  accept_message: 'F',

  msg_reply_data_append: ANSWERING,
  msg_reply: ANSWERING,
  msg_reject: ANSWERING,

  msg_cycles_available: WITH_CYCLES,
  msg_cycles_available128: WITH_CYCLES,
  msg_cycles_accept: WITH_CYCLES,
  msg_cycles_accept128: WITH_CYCLES,
  msg_cycles_refunded: 'Ry Rt',
  msg_cycles_refunded128: 'Ry Rt',
  canister_cycle_balance: ANYWHERE,
  canister_cycle_balance128: ANYWHERE,
  canister_liquid_cycle_balance128: ANYWHERE,
  cycles_burn128: REPLICATED,
  mint_cycles: PAYING,
  mint_cycles128: PAYING,

  call_new: CALLING,
  call_on_cleanup: CALLING,
  call_data_append: CALLING,
  call_with_best_effort_response: CALLING,
  call_perform: CALLING,
  call_cycles_add: PAYING,
  call_cycles_add128: PAYING,

  stable_size: ANYWHERE_AND_START,
  stable_grow: ANYWHERE_AND_START,
  stable_write: ANYWHERE_AND_START,
  stable_read: ANYWHERE_AND_START,
  stable64_size: ANYWHERE_AND_START,
  stable64_grow: ANYWHERE_AND_START,
  stable64_write: ANYWHERE_AND_START,
  stable64_read: ANYWHERE_AND_START,

  time: ANYWHERE,
  global_timer_set: 'I G U Ry Rt C T',
  performance_counter: ANYWHERE_AND_START,

  canister_self_size: ANYWHERE,
  canister_self_copy: ANYWHERE,
  subnet_self_size: ANYWHERE,
  subnet_self_copy: ANYWHERE,
  canister_status: ANYWHERE,
  canister_version: ANYWHERE,
  is_controller: ANYWHERE_AND_START,
  in_replicated_execution: ANYWHERE_AND_START,
  root_key_size: REPLICATED,
  root_key_copy: REPLICATED,

  certified_data_set: CERTIFYING,
  data_certificate_present: ANYWHERE,
  data_certificate_size: 'NRQ CQ',
  data_certificate_copy: 'NRQ CQ',

  env_var_count: ANYWHERE,
  env_var_name_size: ANYWHERE,
  env_var_name_copy: ANYWHERE,
  env_var_name_exists: ANYWHERE,
  env_var_value_size: ANYWHERE,
  env_var_value_copy: ANYWHERE,

  cost_call: ANYWHERE_AND_START,
  cost_create_canister: ANYWHERE_AND_START,
  cost_http_request: ANYWHERE_AND_START,
  cost_http_request_v2: ANYWHERE_AND_START,
  cost_sign_with_ecdsa: ANYWHERE_AND_START,
  cost_sign_with_schnorr: ANYWHERE_AND_START,
  cost_vetkd_derive_key: ANYWHERE_AND_START,

  debug_print: ANYWHERE_AND_START,
  trap: ANYWHERE_AND_START,
} as const satisfies Record<Ic0Name, string>;

/** Returns the mask of an import's modes. */
export function contextMask(name: Ic0Name): number {
  let mask = 0;
  for (const code of CONTEXTS[name].split(' ')) {
    if (code === '*') for (const mode of MODE_NAMES) mask |= mode === 's' ? 0 : MODES[mode].bit;
    else if (isMode(code)) mask |= MODES[code].bit;
    else throw new Error(`ic0.${name}: '${code}' is not a context`);
  }
  return mask;
}

function isMode(code: string): code is Mode {
  return Object.hasOwn(MODES, code);
}
