/** Types of the settings of a canister, as those who create canisters give them. */
export const CANISTER_SETTINGS_DID = `
type visibility = variant { controllers; public; allowed_viewers : vec principal };
type environment_variable = record { name : text; value : text };
type canister_settings = record {
  controllers : opt vec principal;
  compute_allocation : opt nat;
  memory_allocation : opt nat;
  freezing_threshold : opt nat;
  reserved_cycles_limit : opt nat;
  minimum_incoming_canister_call_cycles : opt nat;
  log_visibility : opt visibility;
  snapshot_visibility : opt visibility;
  status_visibility : opt visibility;
  wasm_memory_limit : opt nat;
  wasm_memory_threshold : opt nat;
  log_memory_limit : opt nat;
  environment_variables : opt vec environment_variable;
};
`;

/**
 * The interface of `aaaaa-aa` in Candid, as this host offers it (interface spec 0.66). Where actors of older compilers
 * send other types, those are accepted, too: `Keep` and `Replace`. Methods that are refused before their argument is
 * read are not listed.
 */
export const MANAGEMENT_DID = `
type canister_id = principal;
type hash = blob;
type snapshot_id = blob;
type chunk_hash = record { hash : blob };
type http_header = record { name : text; value : text };
type http_request_result = record { status : nat; headers : vec http_header; body : blob };
${CANISTER_SETTINGS_DID}
type definite_canister_settings = record {
  controllers : vec principal;
  compute_allocation : nat;
  memory_allocation : nat;
  freezing_threshold : nat;
  reserved_cycles_limit : nat;
  minimum_incoming_canister_call_cycles : nat;
  log_visibility : visibility;
  snapshot_visibility : visibility;
  status_visibility : visibility;
  wasm_memory_limit : nat;
  wasm_memory_threshold : nat;
  log_memory_limit : nat;
  environment_variables : vec environment_variable;
};
type persistence = variant { keep; replace; Keep; Replace };
type install_mode = variant {
  install;
  reinstall;
  upgrade : opt record { skip_pre_upgrade : opt bool; wasm_memory_persistence : opt persistence };
};
type origin = variant {
  from_user : record { user_id : principal };
  from_canister : record { canister_id : principal; canister_version : opt nat64 };
};
type source = variant { taken_from_canister : reserved; metadata_upload : reserved };
type details = variant {
  creation : record { controllers : vec principal; environment_variables_hash : opt blob };
  code_uninstall;
  code_deployment : record { mode : variant { install; reinstall; upgrade }; module_hash : blob };
  load_snapshot : record {
    from_canister_id : opt principal;
    snapshot_id : snapshot_id;
    canister_version : nat64;
    taken_at_timestamp : nat64;
    source : source;
  };
  controllers_change : record { controllers : vec principal };
};
type change = record {
  timestamp_nanos : nat64;
  canister_version : nat64;
  origin : origin;
  details : details;
};
type snapshot = record { id : snapshot_id; taken_at_timestamp : nat64; total_size : nat64 };
type global = variant { i32 : int32; i64 : int64; f32 : float32; f64 : float64; v128 : nat };
type timer = variant { inactive; active : nat64 };
type hook_status = variant { condition_not_satisfied; ready; executed };
type range = record { offset : nat64; size : nat64 };
type place = record { offset : nat64 };
type ecdsa_key_id = record { curve : variant { secp256k1 }; name : text };
type schnorr_key_id = record { algorithm : variant { bip340secp256k1; ed25519 }; name : text };
type public_key = record { public_key : blob; chain_code : blob };
service : {
  create_canister : (record { settings : opt canister_settings; sender_canister_version : opt nat64 }) ->
    (record { canister_id : canister_id });
  provisional_create_canister_with_cycles : (record {
    amount : opt nat;
    settings : opt canister_settings;
    specified_id : opt canister_id;
    sender_canister_version : opt nat64;
  }) -> (record { canister_id : canister_id });
  update_settings : (record {
    canister_id : canister_id; settings : canister_settings; sender_canister_version : opt nat64;
  }) -> ();
  install_code : (record {
    mode : install_mode; canister_id : canister_id; wasm_module : blob; arg : blob; sender_canister_version : opt nat64;
  }) -> ();
  install_chunked_code : (record {
    mode : install_mode;
    target_canister : canister_id;
    store_canister : opt canister_id;
    chunk_hashes_list : vec chunk_hash;
    wasm_module_hash : blob;
    arg : blob;
    sender_canister_version : opt nat64;
  }) -> ();
  upload_chunk : (record { canister_id : canister_id; chunk : blob }) -> (chunk_hash);
  clear_chunk_store : (record { canister_id : canister_id }) -> ();
  stored_chunks : (record { canister_id : canister_id }) -> (vec chunk_hash);
  uninstall_code : (record { canister_id : canister_id; sender_canister_version : opt nat64 }) -> ();
  start_canister : (record { canister_id : canister_id }) -> ();
  stop_canister : (record { canister_id : canister_id }) -> ();
  delete_canister : (record { canister_id : canister_id }) -> ();
  canister_status : (record { canister_id : canister_id }) -> (record {
    status : variant { running; stopping; stopped };
    ready_for_migration : bool;
    version : nat64;
    settings : definite_canister_settings;
    module_hash : opt blob;
    memory_size : nat;
    memory_metrics : record {
      wasm_memory_size : nat;
      stable_memory_size : nat;
      global_memory_size : nat;
      wasm_binary_size : nat;
      custom_sections_size : nat;
      canister_history_size : nat;
      wasm_chunk_store_size : nat;
      snapshots_size : nat;
      log_memory_store_size : nat;
    };
    cycles : nat;
    reserved_cycles : nat;
    idle_cycles_burned_per_day : nat;
    query_stats : record {
      num_calls_total : nat;
      num_instructions_total : nat;
      request_payload_bytes_total : nat;
      response_payload_bytes_total : nat;
    };
  });
  canister_metrics : (record { canister_id : canister_id }) -> (record {
    cycles_consumed : record {
      memory : nat;
      compute_allocation : nat;
      ingress_induction : nat;
      instructions : nat;
      request_and_response_transmission : nat;
      uninstall : nat;
      canister_creation : nat;
      http_outcalls : nat;
      burned_cycles : nat;
    };
  });
  canister_info : (record { canister_id : canister_id; num_requested_changes : opt nat64 }) -> (record {
    total_num_changes : nat64; recent_changes : vec change; module_hash : opt blob; controllers : vec principal;
  });
  canister_metadata : (record { canister_id : canister_id; name : text }) -> (record { value : blob });
  deposit_cycles : (record { canister_id : canister_id }) -> ();
  provisional_top_up_canister : (record { canister_id : canister_id; amount : nat }) -> ();
  raw_rand : () -> (blob);
  fetch_canister_logs : (record { canister_id : canister_id }) -> (record {
    canister_log_records : vec record { idx : nat64; timestamp_nanos : nat64; content : blob };
  });
  list_canisters : () -> (record { canisters : vec record { start : canister_id; end : canister_id } });
  take_canister_snapshot : (record {
    canister_id : canister_id;
    replace_snapshot : opt snapshot_id;
    uninstall_code : opt bool;
    sender_canister_version : opt nat64;
  }) -> (snapshot);
  load_canister_snapshot : (record {
    canister_id : canister_id; snapshot_id : snapshot_id; sender_canister_version : opt nat64;
  }) -> ();
  list_canister_snapshots : (record { canister_id : canister_id }) -> (vec snapshot);
  delete_canister_snapshot : (record { canister_id : canister_id; snapshot_id : snapshot_id }) -> ();
  read_canister_snapshot_metadata : (record { canister_id : canister_id; snapshot_id : snapshot_id }) -> (record {
    source : source;
    taken_at_timestamp : nat64;
    wasm_module_size : nat64;
    globals : vec global;
    wasm_memory_size : nat64;
    stable_memory_size : nat64;
    wasm_chunk_store : vec chunk_hash;
    canister_version : nat64;
    certified_data : blob;
    global_timer : opt timer;
    on_low_wasm_memory_hook_status : opt hook_status;
  });
  read_canister_snapshot_data : (record {
    canister_id : canister_id;
    snapshot_id : snapshot_id;
    kind : variant { wasm_module : range; wasm_memory : range; stable_memory : range; wasm_chunk : chunk_hash };
  }) -> (record { chunk : blob });
  upload_canister_snapshot_metadata : (record {
    canister_id : canister_id;
    replace_snapshot : opt snapshot_id;
    wasm_module_size : nat64;
    globals : vec global;
    wasm_memory_size : nat64;
    stable_memory_size : nat64;
    certified_data : blob;
    global_timer : opt timer;
    on_low_wasm_memory_hook_status : opt hook_status;
  }) -> (record { snapshot_id : snapshot_id });
  upload_canister_snapshot_data : (record {
    canister_id : canister_id;
    snapshot_id : snapshot_id;
    kind : variant { wasm_module : place; wasm_memory : place; stable_memory : place; wasm_chunk };
    chunk : blob;
  }) -> ();
  ecdsa_public_key : (record {
    canister_id : opt canister_id; derivation_path : vec blob; key_id : ecdsa_key_id;
  }) -> (public_key);
  sign_with_ecdsa : (record { message_hash : blob; derivation_path : vec blob; key_id : ecdsa_key_id }) ->
    (record { signature : blob });
  schnorr_public_key : (record {
    canister_id : opt canister_id; derivation_path : vec blob; key_id : schnorr_key_id;
  }) -> (public_key);
  sign_with_schnorr : (record {
    message : blob;
    derivation_path : vec blob;
    key_id : schnorr_key_id;
    aux : opt variant { bip341 : record { merkle_root_hash : blob } };
  }) -> (record { signature : blob });
  http_request : (record {
    url : text;
    max_response_bytes : opt nat64;
    method : variant { get; head; post; put; delete; patch };
    headers : vec http_header;
    body : opt blob;
    transform : opt record {
      function : func (record { response : http_request_result; context : blob }) -> (http_request_result) query;
      context : blob;
    };
    is_replicated : opt bool;
  }) -> (http_request_result);
  node_metrics_history : (record { subnet_id : principal; start_at_timestamp_nanos : nat64 }) -> (vec record {
    timestamp_nanos : nat64;
    node_metrics : vec record {
      node_id : principal; num_blocks_proposed_total : nat64; num_block_failures_total : nat64;
    };
  });
  subnet_info : (record { subnet_id : principal }) -> (record { replica_version : text; registry_version : nat64 });
};
`;
