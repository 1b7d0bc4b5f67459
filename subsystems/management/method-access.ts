/** Callers that may use a method, and methods that nobody may use here. */
import type { MethodName } from './candid-types.ts';
import { Refusal, REFUSE } from './refusal.ts';

/** Callers that may use a method; by default updates of users and canisters. */
type Access =
  | 'update'
  /** Updates of canisters; with `canistersAndAdmin`, also of users with the operator's rights. */
  | 'canisters'
  | 'canistersAndAdmin'
  | 'updateAndQuery'
  | 'query';

const ACCESS: Readonly<Record<MethodName, Access>> = {
  create_canister: 'canistersAndAdmin',
  provisional_create_canister_with_cycles: 'update',
  update_settings: 'update',
  install_code: 'update',
  install_chunked_code: 'update',
  upload_chunk: 'update',
  clear_chunk_store: 'update',
  stored_chunks: 'update',
  uninstall_code: 'update',
  start_canister: 'update',
  stop_canister: 'update',
  delete_canister: 'update',
  canister_status: 'updateAndQuery',
  canister_metrics: 'updateAndQuery',
  canister_info: 'canisters',
  canister_metadata: 'canisters',
  deposit_cycles: 'canisters',
  provisional_top_up_canister: 'update',
  raw_rand: 'canisters',
  fetch_canister_logs: 'query',
  list_canisters: 'query',
  take_canister_snapshot: 'update',
  load_canister_snapshot: 'update',
  list_canister_snapshots: 'update',
  delete_canister_snapshot: 'update',
  read_canister_snapshot_metadata: 'update',
  read_canister_snapshot_data: 'update',
  upload_canister_snapshot_metadata: 'update',
  upload_canister_snapshot_data: 'update',
  ecdsa_public_key: 'canisters',
  sign_with_ecdsa: 'canisters',
  schnorr_public_key: 'canisters',
  http_request: 'canisters',
  sign_with_schnorr: 'canisters',
  node_metrics_history: 'canisters',
  subnet_info: 'canisters',
};

const NO_BITCOIN = 'this host is not connected to Bitcoin';
const NO_VETKEYS = 'encrypted keys (vetKD) are not available on this host';

/** Methods of the interface that are refused whatever their argument is. */
const NOT_OFFERED: ReadonlyMap<string, string> = new Map([
  ['flexible_http_request', 'flexible outcalls are not available on this host'],
  ['vetkd_public_key', NO_VETKEYS],
  ['vetkd_derive_key', NO_VETKEYS],
  ['bitcoin_get_balance', NO_BITCOIN],
  ['bitcoin_get_utxos', NO_BITCOIN],
  ['bitcoin_send_transaction', NO_BITCOIN],
  ['bitcoin_get_current_fee_percentiles', NO_BITCOIN],
  ['bitcoin_get_block_headers', NO_BITCOIN],
]);

/** Returns the name as that of a method. Throws a Refusal for one that is not there, or not offered. */
export function expectMethod(name: string): MethodName {
  const reason = NOT_OFFERED.get(name);
  if (reason !== undefined) throw REFUSE.notOffered(reason);
  if (!Object.hasOwn(ACCESS, name)) throw REFUSE.unknownMethod(name);
  return name as MethodName;
}

export function expectAccess(
  method: MethodName,
  { senderIsCanister, isAdmin, isQuery }: { senderIsCanister: boolean; isAdmin: boolean; isQuery: boolean },
): void {
  const access = ACCESS[method];
  if (isQuery) {
    if (access === 'query' || access === 'updateAndQuery') return;
    throw new Refusal(5, 'IC0536', `${method} cannot be called as a query`);
  }
  if (access === 'query') throw REFUSE.notOffered(`${method} can only be called as a query`);
  if (access === 'update' || access === 'updateAndQuery' || senderIsCanister) return;
  if (access === 'canistersAndAdmin' && isAdmin) return;
  throw REFUSE.notOffered(`only canisters can call ${method}`);
}
