/**
 * The type of every import a canister may ask for, declared once.
 *
 * Validation checks a module's imports against this table in the module's pointer width; the instrumenter derives from
 * it how a value crosses to JavaScript; the system API implements exactly these names.
 *
 * | letter | in the module           | what the host function receives or returns                                    |
 * | ------ | ----------------------- | ----------------------------------------------------------------------------- |
 * | `I`    | i32 or i64 by the width | Number, unsigned; above 2^53 rounded (no such address, size or index exists)  |
 * | `bits` | i32 or i64 by the width | exact bits: Number (signed) in 32-bit modules, BigInt (signed) in 64-bit ones |
 * | `u64`  | i64                     | Number; as an argument unsigned, rounded above 2^53; as a result −1 stays −1  |
 * | `i64`  | i64                     | BigInt, signed                                                                |
 * | `i32`  | i32                     | Number, signed                                                                |
 *
 * Numbers instead of BigInts are not a nicety: an i64 that crosses as a BigInt costs about 13 ns, as a double 2 ns.
 */
export type HostType = 'I' | 'bits' | 'u64' | 'i64' | 'i32';

export interface Ic0Signature {
  readonly params: readonly HostType[];
  readonly result: HostType | undefined;
  /** Legacy imports that a 64-bit module may not ask for. */
  readonly isOnly32Bit: boolean;
}

function signature(params: string, result?: HostType): Ic0Signature {
  return { params: split(params), result, isOnly32Bit: false };
}
function legacy(params: string, result?: HostType): Ic0Signature {
  return { params: split(params), result, isOnly32Bit: true };
}
function split(params: string): readonly HostType[] {
  return params === '' ? [] : (params.split(' ') as HostType[]);
}

/** A blob is read by asking for its size and copying a part of it: `(destination, offset, size)`. */
const SIZE = signature('', 'I');
const COPY = signature('I I I');

export const IC0_SIGNATURES = {
  // Message data
  msg_arg_data_size: SIZE,
  msg_arg_data_copy: COPY,
  msg_caller_size: SIZE,
  msg_caller_copy: COPY,
  msg_caller_info_data_size: SIZE,
  msg_caller_info_data_copy: COPY,
  msg_caller_info_signer_size: SIZE,
  msg_caller_info_signer_copy: COPY,
  msg_reject_code: signature('', 'i32'),
  msg_reject_msg_size: SIZE,
  msg_reject_msg_copy: COPY,
  msg_deadline: signature('', 'i64'),
  msg_method_name_size: SIZE,
  msg_method_name_copy: COPY,
  accept_message: signature(''),

  // Responding
  msg_reply_data_append: signature('I I'),
  msg_reply: signature(''),
  msg_reject: signature('I I'),

  // Cycles; 128-bit amounts go in as (high, low) and come out as 16 bytes at an address
  msg_cycles_available128: signature('I'),
  msg_cycles_accept128: signature('i64 i64 I'),
  msg_cycles_refunded128: signature('I'),
  canister_cycle_balance128: signature('I'),
  canister_liquid_cycle_balance128: signature('I'),
  cycles_burn128: signature('i64 i64 I'),
  call_cycles_add128: signature('i64 i64'),
  mint_cycles128: signature('i64 i64 I'),
  mint_cycles: signature('i64', 'i64'),

  // Outgoing calls; an `env` comes back with exactly the bits it had
  call_new: signature('I I I I I bits I bits'),
  call_on_cleanup: signature('I bits'),
  call_data_append: signature('I I'),
  call_with_best_effort_response: signature('i32'),
  call_perform: signature('', 'i32'),

  // Stable memory
  stable64_size: signature('', 'u64'),
  stable64_grow: signature('u64', 'u64'),
  stable64_write: signature('u64 u64 u64'),
  stable64_read: signature('u64 u64 u64'),

  // Time, timer, identity, version
  time: signature('', 'i64'),
  global_timer_set: signature('i64', 'i64'),
  performance_counter: signature('i32', 'u64'),
  canister_self_size: SIZE,
  canister_self_copy: COPY,
  subnet_self_size: SIZE,
  subnet_self_copy: COPY,
  canister_status: signature('', 'i32'),
  canister_version: signature('', 'u64'),
  is_controller: signature('I I', 'i32'),
  in_replicated_execution: signature('', 'i32'),
  root_key_size: SIZE,
  root_key_copy: COPY,

  // Certified data, environment, costs, debugging
  certified_data_set: signature('I I'),
  data_certificate_present: signature('', 'i32'),
  data_certificate_size: SIZE,
  data_certificate_copy: COPY,
  env_var_count: SIZE,
  env_var_name_size: signature('I', 'I'),
  env_var_name_copy: signature('I I I I'),
  env_var_name_exists: signature('I I', 'i32'),
  env_var_value_size: signature('I I', 'I'),
  env_var_value_copy: signature('I I I I I'),
  cost_call: signature('u64 u64 I'),
  cost_create_canister: signature('I'),
  cost_http_request: signature('u64 u64 I'),
  cost_http_request_v2: signature('I I I'),
  cost_sign_with_ecdsa: signature('I I i32 I', 'i32'),
  cost_sign_with_schnorr: signature('I I i32 I', 'i32'),
  cost_vetkd_derive_key: signature('I I i32 I', 'i32'),
  debug_print: signature('I I'),
  trap: signature('I I'),

  // Only for 32-bit modules
  msg_cycles_available: legacy('', 'i64'),
  msg_cycles_refunded: legacy('', 'i64'),
  msg_cycles_accept: legacy('i64', 'i64'),
  canister_cycle_balance: legacy('', 'i64'),
  call_cycles_add: legacy('i64'),
  stable_size: legacy('', 'I'),
  stable_grow: legacy('I', 'i32'),
  stable_write: legacy('I I I'),
  stable_read: legacy('I I I'),
} as const satisfies Record<string, Ic0Signature>;

/** The name of an import of module `ic0`. */
export type Ic0Name = keyof typeof IC0_SIGNATURES;

/** The signature of an import by a name that may be anything. */
export function ic0Signature(name: string): Ic0Signature | undefined {
  return Object.hasOwn(IC0_SIGNATURES, name) ? IC0_SIGNATURES[name as Ic0Name] : undefined;
}
