/**
 * The management interface's types in the codec's JSON: a blob is base64 text, a principal its text, a nat a number or
 * decimal digits, an opt `null` or the value, a variant an object with one key.
 */

import type { CandidReply } from './candid-reply.ts';

export type NatJson = number | string;
export type BlobJson = string;
export type PrincipalJson = string;
type Opt<T> = T | null;
/** A variant: one of several keys; a key without payload holds `null`. */
export type OneOf<T> = { readonly [K in keyof T]?: T[K] };

export type VisibilityJson = OneOf<{ controllers: null; public: null; allowed_viewers: readonly PrincipalJson[] }>;

export interface SettingsJson {
  readonly controllers: Opt<readonly PrincipalJson[]>;
  readonly compute_allocation: Opt<NatJson>;
  readonly memory_allocation: Opt<NatJson>;
  readonly freezing_threshold: Opt<NatJson>;
  readonly reserved_cycles_limit: Opt<NatJson>;
  readonly minimum_incoming_canister_call_cycles: Opt<NatJson>;
  readonly log_visibility: Opt<VisibilityJson>;
  readonly snapshot_visibility: Opt<VisibilityJson>;
  readonly status_visibility: Opt<VisibilityJson>;
  readonly wasm_memory_limit: Opt<NatJson>;
  readonly wasm_memory_threshold: Opt<NatJson>;
  readonly log_memory_limit: Opt<NatJson>;
  readonly environment_variables: Opt<readonly EnvironmentVariableJson[]>;
}
interface EnvironmentVariableJson {
  readonly name: string;
  readonly value: string;
}
export type DefiniteSettingsJson = { readonly [K in keyof SettingsJson]: NonNullable<SettingsJson[K]> };

export type InstallModeJson = OneOf<{
  install: null;
  reinstall: null;
  upgrade: Opt<{
    readonly skip_pre_upgrade: Opt<boolean>;
    readonly wasm_memory_persistence: Opt<OneOf<{ keep: null; replace: null; Keep: null; Replace: null }>>;
  }>;
}>;

type SourceJson = OneOf<{ taken_from_canister: null; metadata_upload: null }>;

export interface ChangeJson {
  readonly timestamp_nanos: NatJson;
  readonly canister_version: NatJson;
  readonly origin: OneOf<{
    from_user: { readonly user_id: PrincipalJson };
    from_canister: { readonly canister_id: PrincipalJson; readonly canister_version: Opt<NatJson> };
  }>;
  readonly details: OneOf<{
    creation: { readonly controllers: readonly PrincipalJson[]; readonly environment_variables_hash: Opt<BlobJson> };
    code_uninstall: null;
    code_deployment: {
      readonly mode: OneOf<{ install: null; reinstall: null; upgrade: null }>;
      readonly module_hash: BlobJson;
    };
    load_snapshot: {
      readonly from_canister_id: Opt<PrincipalJson>;
      readonly snapshot_id: BlobJson;
      readonly canister_version: NatJson;
      readonly taken_at_timestamp: NatJson;
      readonly source: SourceJson;
    };
    controllers_change: { readonly controllers: readonly PrincipalJson[] };
  }>;
}

export interface SnapshotJson {
  readonly id: BlobJson;
  readonly taken_at_timestamp: NatJson;
  readonly total_size: NatJson;
}

export type GlobalJson = OneOf<{
  i32: number;
  i64: NatJson;
  f32: number | string;
  f64: number | string;
  v128: NatJson;
}>;

/** Metadata that an uploaded snapshot states; `read_canister_snapshot_metadata` answers more. */
interface SnapshotMetadataJson {
  readonly wasm_module_size: NatJson;
  readonly globals: readonly GlobalJson[];
  readonly wasm_memory_size: NatJson;
  readonly stable_memory_size: NatJson;
  readonly certified_data: BlobJson;
  readonly global_timer: Opt<OneOf<{ inactive: null; active: NatJson }>>;
  readonly on_low_wasm_memory_hook_status: Opt<OneOf<{ condition_not_satisfied: null; ready: null; executed: null }>>;
}

export interface RangeJson {
  readonly offset: NatJson;
  readonly size: NatJson;
}
interface PlaceJson {
  readonly offset: NatJson;
}
interface ChunkHashJson {
  readonly hash: BlobJson;
}

interface Target {
  readonly canister_id: PrincipalJson;
}
interface Sent {
  readonly sender_canister_version: Opt<NatJson>;
}
interface Snapshotted extends Target {
  readonly snapshot_id: BlobJson;
}
interface EcdsaKeyJson {
  readonly curve: OneOf<{ secp256k1: null }>;
  readonly name: string;
}
export interface SchnorrKeyJson {
  readonly algorithm: OneOf<{ bip340secp256k1: null; ed25519: null }>;
  readonly name: string;
}
interface Derivation<K> {
  readonly derivation_path: readonly BlobJson[];
  readonly key_id: K;
}
interface PublicKeyJson {
  readonly public_key: BlobJson;
  readonly chain_code: BlobJson;
}
interface Created {
  readonly canister_id: PrincipalJson;
}

interface InstallCodeJson extends Target, Sent {
  readonly mode: InstallModeJson;
  readonly wasm_module: BlobJson;
  readonly arg: BlobJson;
}

interface InstallChunkedCodeJson extends Sent {
  readonly mode: InstallModeJson;
  readonly target_canister: PrincipalJson;
  readonly store_canister: Opt<PrincipalJson>;
  readonly chunk_hashes_list: readonly ChunkHashJson[];
  readonly wasm_module_hash: BlobJson;
  readonly arg: BlobJson;
}

interface CanisterStatusJson {
  readonly status: OneOf<{ running: null; stopping: null; stopped: null }>;
  readonly ready_for_migration: boolean;
  readonly version: NatJson;
  readonly settings: DefiniteSettingsJson;
  readonly module_hash: Opt<BlobJson>;
  readonly memory_size: NatJson;
  readonly memory_metrics: MemoryMetricsJson;
  readonly cycles: NatJson;
  readonly reserved_cycles: NatJson;
  readonly idle_cycles_burned_per_day: NatJson;
  readonly query_stats: {
    readonly num_calls_total: NatJson;
    readonly num_instructions_total: NatJson;
    readonly request_payload_bytes_total: NatJson;
    readonly response_payload_bytes_total: NatJson;
  };
}

export interface MemoryMetricsJson {
  readonly wasm_memory_size: number;
  readonly stable_memory_size: number;
  readonly global_memory_size: number;
  readonly wasm_binary_size: number;
  readonly custom_sections_size: number;
  readonly canister_history_size: number;
  readonly wasm_chunk_store_size: number;
  readonly snapshots_size: number;
  readonly log_memory_store_size: number;
}

interface HttpHeaderJson {
  readonly name: string;
  readonly value: string;
}
export interface HttpRequestJson {
  readonly url: string;
  readonly max_response_bytes: Opt<NatJson>;
  readonly method: OneOf<{ get: null; head: null; post: null; put: null; delete: null; patch: null }>;
  readonly headers: readonly HttpHeaderJson[];
  readonly body: Opt<BlobJson>;
  readonly transform: Opt<{
    readonly function: { readonly principal: PrincipalJson; readonly method: string };
    readonly context: BlobJson;
  }>;
  readonly is_replicated: Opt<boolean>;
}

/** The JSON form of `name : (argument) -> (result)`, for every method that is offered. */
interface MethodTypes {
  create_canister: [argument: Sent & { readonly settings: Opt<SettingsJson> }, result: Created];
  provisional_create_canister_with_cycles: [
    argument: Sent & {
      readonly amount: Opt<NatJson>;
      readonly settings: Opt<SettingsJson>;
      readonly specified_id: Opt<PrincipalJson>;
    },
    result: Created,
  ];
  update_settings: [argument: Target & Sent & { readonly settings: SettingsJson }, result: void];
  install_code: [argument: InstallCodeJson, result: void];
  install_chunked_code: [argument: InstallChunkedCodeJson, result: void];
  upload_chunk: [argument: Target & { readonly chunk: BlobJson }, result: ChunkHashJson];
  clear_chunk_store: [argument: Target, result: void];
  stored_chunks: [argument: Target, result: readonly ChunkHashJson[]];
  uninstall_code: [argument: Target & Sent, result: void];
  start_canister: [argument: Target, result: void];
  stop_canister: [argument: Target, result: void];
  delete_canister: [argument: Target, result: void];
  canister_status: [argument: Target, result: CanisterStatusJson];
  canister_metrics: [argument: Target, result: { readonly cycles_consumed: Readonly<Record<string, NatJson>> }];
  canister_info: [
    argument: Target & { readonly num_requested_changes: Opt<NatJson> },
    result: {
      readonly total_num_changes: NatJson;
      readonly recent_changes: readonly ChangeJson[];
      readonly module_hash: Opt<BlobJson>;
      readonly controllers: readonly PrincipalJson[];
    },
  ];
  canister_metadata: [argument: Target & { readonly name: string }, result: { readonly value: BlobJson }];
  deposit_cycles: [argument: Target, result: void];
  provisional_top_up_canister: [argument: Target & { readonly amount: NatJson }, result: void];
  raw_rand: [argument: void, result: BlobJson];
  fetch_canister_logs: [
    argument: Target,
    result: {
      readonly canister_log_records: readonly {
        readonly idx: NatJson;
        readonly timestamp_nanos: NatJson;
        readonly content: BlobJson;
      }[];
    },
  ];
  list_canisters: [
    argument: void,
    result: { readonly canisters: readonly { readonly start: PrincipalJson; readonly end: PrincipalJson }[] },
  ];
  take_canister_snapshot: [
    argument: Target & Sent & { readonly replace_snapshot: Opt<BlobJson>; readonly uninstall_code: Opt<boolean> },
    result: SnapshotJson,
  ];
  load_canister_snapshot: [argument: Snapshotted & Sent, result: void];
  list_canister_snapshots: [argument: Target, result: readonly SnapshotJson[]];
  delete_canister_snapshot: [argument: Snapshotted, result: void];
  read_canister_snapshot_metadata: [
    argument: Snapshotted,
    result: SnapshotMetadataJson & {
      readonly source: SourceJson;
      readonly taken_at_timestamp: NatJson;
      readonly wasm_chunk_store: readonly ChunkHashJson[];
      readonly canister_version: NatJson;
    },
  ];
  read_canister_snapshot_data: [
    argument: Snapshotted & {
      readonly kind: OneOf<{
        wasm_module: RangeJson;
        wasm_memory: RangeJson;
        stable_memory: RangeJson;
        wasm_chunk: ChunkHashJson;
      }>;
    },
    result: { readonly chunk: BlobJson },
  ];
  upload_canister_snapshot_metadata: [
    argument: Target & SnapshotMetadataJson & { readonly replace_snapshot: Opt<BlobJson> },
    result: { readonly snapshot_id: BlobJson },
  ];
  upload_canister_snapshot_data: [
    argument: Snapshotted & {
      readonly kind: OneOf<{
        wasm_module: PlaceJson;
        wasm_memory: PlaceJson;
        stable_memory: PlaceJson;
        wasm_chunk: null;
      }>;
      readonly chunk: BlobJson;
    },
    result: void,
  ];
  ecdsa_public_key: [
    argument: Derivation<EcdsaKeyJson> & { readonly canister_id: Opt<PrincipalJson> },
    result: PublicKeyJson,
  ];
  sign_with_ecdsa: [
    argument: Derivation<EcdsaKeyJson> & { readonly message_hash: BlobJson },
    result: { readonly signature: BlobJson },
  ];
  schnorr_public_key: [
    argument: Derivation<SchnorrKeyJson> & { readonly canister_id: Opt<PrincipalJson> },
    result: PublicKeyJson,
  ];
  sign_with_schnorr: [
    argument: Derivation<SchnorrKeyJson> & {
      readonly message: BlobJson;
      readonly aux: Opt<OneOf<{ bip341: { readonly merkle_root_hash: BlobJson } }>>;
    },
    result: { readonly signature: BlobJson },
  ];
  http_request: [argument: HttpRequestJson, result: CandidReply];
  node_metrics_history: [argument: unknown, result: readonly []];
  subnet_info: [argument: unknown, result: { readonly replica_version: string; readonly registry_version: NatJson }];
}
export type MethodName = keyof MethodTypes;
export type ArgumentOf<M extends MethodName> = MethodTypes[M][0];
export type ResultOf<M extends MethodName> = MethodTypes[M][1];
