/** The management canister as clients of the Internet Computer see it: an actor of theirs, with paths of its own. */
import type * as agentModule from 'icp-core-6/agent';
import type * as candidModule from 'icp-core-6/candid';
import type * as principalModule from 'icp-core-6/principal';

type Principal = principalModule.Principal;

interface Core {
  readonly agent: typeof agentModule;
  readonly candid: typeof candidModule;
  readonly principal: typeof principalModule;
}

interface AboutCanister {
  readonly canister_id: Principal;
}

interface Chunk {
  readonly hash: Uint8Array;
}

interface Snapshot {
  readonly id: Uint8Array;
}

interface AboutSnapshot extends AboutCanister {
  readonly snapshot_id: Uint8Array;
}

interface Settings {
  readonly controllers: [] | [readonly Principal[]];
}

interface Status {
  readonly status: Readonly<Record<string, null>>;
  readonly settings: { readonly controllers: readonly Principal[] };
  readonly cycles: bigint;
}

interface ManagementActor {
  provisional_create_canister_with_cycles(argument: {
    readonly amount: [] | [bigint];
    readonly settings: [] | [Settings];
  }): Promise<AboutCanister>;
  create_canister(argument: { readonly settings: [] | [Settings] }): Promise<AboutCanister>;
  update_settings(argument: AboutCanister & { readonly settings: Settings }): Promise<void>;
  install_code(
    argument: AboutCanister & {
      readonly mode: object;
      readonly wasm_module: Uint8Array;
      readonly arg: Uint8Array;
    },
  ): Promise<void>;
  upload_chunk(argument: AboutCanister & { readonly chunk: Uint8Array }): Promise<Chunk>;
  stored_chunks(argument: AboutCanister): Promise<readonly Chunk[]>;
  clear_chunk_store(argument: AboutCanister): Promise<void>;
  install_chunked_code(argument: {
    readonly mode: object;
    readonly target_canister: Principal;
    readonly chunk_hashes_list: readonly Chunk[];
    readonly wasm_module_hash: Uint8Array;
    readonly arg: Uint8Array;
  }): Promise<void>;
  start_canister(argument: AboutCanister): Promise<void>;
  stop_canister(argument: AboutCanister): Promise<void>;
  delete_canister(argument: AboutCanister): Promise<void>;
  uninstall_code(argument: AboutCanister): Promise<void>;
  canister_status(argument: AboutCanister): Promise<Status>;
  provisional_top_up_canister(argument: AboutCanister & { readonly amount: bigint }): Promise<void>;
  deposit_cycles(argument: AboutCanister): Promise<void>;
  raw_rand(): Promise<Uint8Array>;
  take_canister_snapshot(argument: AboutCanister): Promise<Snapshot>;
  load_canister_snapshot(argument: AboutSnapshot): Promise<void>;
  list_canister_snapshots(argument: AboutCanister): Promise<readonly Snapshot[]>;
  delete_canister_snapshot(argument: AboutSnapshot): Promise<void>;
  read_canister_snapshot_data(argument: AboutSnapshot & { readonly kind: object }): Promise<{ chunk: Uint8Array }>;
}

/** The same, asked by queries. */
interface ManagementQueries {
  canister_status(argument: AboutCanister): Promise<Status>;
  fetch_canister_logs(
    argument: AboutCanister,
  ): Promise<{ readonly canister_log_records: readonly { readonly content: Uint8Array }[] }>;
}

function typesOf({ IDL }: typeof candidModule) {
  const about = { canister_id: IDL.Principal };
  const settings = IDL.Record({ controllers: IDL.Opt(IDL.Vec(IDL.Principal)) });
  const blob = IDL.Vec(IDL.Nat8);
  const chunk = IDL.Record({ hash: blob });
  const snapshot = IDL.Record({ id: blob });
  const mode = IDL.Variant({ install: IDL.Null, reinstall: IDL.Null });
  const states = IDL.Variant({ running: IDL.Null, stopping: IDL.Null, stopped: IDL.Null });
  const status = IDL.Record({
    status: states,
    settings: IDL.Record({ controllers: IDL.Vec(IDL.Principal) }),
    cycles: IDL.Nat,
  });
  return { about, settings, blob, chunk, snapshot, mode, status };
}

function updates(candid: typeof candidModule): candidModule.IDL.ServiceClass {
  const { IDL } = candid;
  const { about, settings, blob, chunk, snapshot, mode, status } = typesOf(candid);
  const aboutOne: [candidModule.IDL.Type] = [IDL.Record(about)];
  const aboutSnapshot: [candidModule.IDL.Type] = [IDL.Record({ ...about, snapshot_id: blob })];
  const kind = IDL.Variant({ wasm_module: IDL.Record({ offset: IDL.Nat64, size: IDL.Nat64 }) });
  return IDL.Service({
    provisional_create_canister_with_cycles: IDL.Func(
      [IDL.Record({ amount: IDL.Opt(IDL.Nat), settings: IDL.Opt(settings) })],
      aboutOne,
      [],
    ),
    create_canister: IDL.Func([IDL.Record({ settings: IDL.Opt(settings) })], aboutOne, []),
    update_settings: IDL.Func([IDL.Record({ ...about, settings })], [], []),
    install_code: IDL.Func([IDL.Record({ ...about, mode, wasm_module: blob, arg: blob })], [], []),
    upload_chunk: IDL.Func([IDL.Record({ ...about, chunk: blob })], [chunk], []),
    stored_chunks: IDL.Func(aboutOne, [IDL.Vec(chunk)], []),
    clear_chunk_store: IDL.Func(aboutOne, [], []),
    install_chunked_code: IDL.Func(
      [
        IDL.Record({
          mode,
          target_canister: IDL.Principal,
          chunk_hashes_list: IDL.Vec(chunk),
          wasm_module_hash: blob,
          arg: blob,
        }),
      ],
      [],
      [],
    ),
    start_canister: IDL.Func(aboutOne, [], []),
    stop_canister: IDL.Func(aboutOne, [], []),
    delete_canister: IDL.Func(aboutOne, [], []),
    uninstall_code: IDL.Func(aboutOne, [], []),
    canister_status: IDL.Func(aboutOne, [status], []),
    provisional_top_up_canister: IDL.Func([IDL.Record({ ...about, amount: IDL.Nat })], [], []),
    deposit_cycles: IDL.Func(aboutOne, [], []),
    raw_rand: IDL.Func([], [blob], []),
    take_canister_snapshot: IDL.Func(aboutOne, [snapshot], []),
    load_canister_snapshot: IDL.Func(aboutSnapshot, [], []),
    list_canister_snapshots: IDL.Func(aboutOne, [IDL.Vec(snapshot)], []),
    delete_canister_snapshot: IDL.Func(aboutSnapshot, [], []),
    read_canister_snapshot_data: IDL.Func(
      [IDL.Record({ ...about, snapshot_id: blob, kind })],
      [IDL.Record({ chunk: blob })],
      [],
    ),
  });
}

function queries(candid: typeof candidModule): candidModule.IDL.ServiceClass {
  const { IDL } = candid;
  const { about, blob, status } = typesOf(candid);
  const aboutOne: [candidModule.IDL.Type] = [IDL.Record(about)];
  const logs = IDL.Record({ canister_log_records: IDL.Vec(IDL.Record({ content: blob })) });
  return IDL.Service({
    canister_status: IDL.Func(aboutOne, [status], ['query']),
    fetch_canister_logs: IDL.Func(aboutOne, [logs], ['query']),
  });
}

/** Returns the management canister for an agent, by calls and by queries. */
export function managementOf(
  { agent, candid, principal }: Core,
  by: agentModule.HttpAgent,
): { readonly calls: ManagementActor; readonly queries: ManagementQueries } {
  const canisterId = principal.Principal.fromUint8Array(new Uint8Array());
  // The path names the canister that the call is about.
  const toSubject = (_method: string, args: unknown[]): { effectiveCanisterId: Principal } => {
    const [first] = args as [{ canister_id?: Principal; target_canister?: Principal }?];
    return { effectiveCanisterId: first?.canister_id ?? first?.target_canister ?? canisterId };
  };
  const config = { agent: by, canisterId, callTransform: toSubject, queryTransform: toSubject };
  return {
    calls: agent.Actor.createActor<ManagementActor>(() => updates(candid), config),
    queries: agent.Actor.createActor<ManagementQueries>(() => queries(candid), config),
  };
}
