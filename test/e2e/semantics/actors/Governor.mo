import Blob "mo:core/Blob";
import Cycles "mo:core/Cycles";
import Error "mo:core/Error";
import Nat "mo:core/Nat";
import Time "mo:core/Time";

// An actor that runs others through the management canister, and throws dice.
persistent actor Self {
  type Status = { #running; #stopping; #stopped };
  type Settings = {
    controllers : ?[Principal];
    compute_allocation : ?Nat;
    memory_allocation : ?Nat;
    freezing_threshold : ?Nat;
  };
  type Mode = { #install; #reinstall; #upgrade : ?{ wasm_memory_persistence : ?{ #keep; #replace }; skip_pre_upgrade : ?Bool } };
  type Management = actor {
    create_canister : { settings : ?Settings } -> async { canister_id : Principal };
    install_code : { mode : Mode; canister_id : Principal; wasm_module : Blob; arg : Blob } -> async ();
    uninstall_code : { canister_id : Principal } -> async ();
    start_canister : { canister_id : Principal } -> async ();
    stop_canister : { canister_id : Principal } -> async ();
    delete_canister : { canister_id : Principal } -> async ();
    update_settings : { canister_id : Principal; settings : Settings } -> async ();
    canister_status : { canister_id : Principal } -> async { status : Status; module_hash : ?Blob; cycles : Nat; settings : { controllers : [Principal] } };
    deposit_cycles : { canister_id : Principal } -> async ();
    take_canister_snapshot : { canister_id : Principal; replace_snapshot : ?Blob } -> async { id : Blob };
    load_canister_snapshot : { canister_id : Principal; snapshot_id : Blob } -> async ();
    raw_rand : () -> async Blob;
  };
  transient let management = actor "aaaaa-aa" : Management;
  type Peer = actor { add : Nat -> async Nat };
  var snapshot : Blob = "";
  var thrown = 0;

  public func create(cycles : Nat) : async Principal {
    (await (with cycles) management.create_canister({ settings = null })).canister_id;
  };
  public func install(canister_id : Principal, wasm_module : Blob) : async () {
    await management.install_code({ mode = #install; canister_id; wasm_module; arg = to_candid () });
  };
  public func upgrade(canister_id : Principal, wasm_module : Blob) : async () {
    await management.install_code({
      mode = #upgrade(?{ wasm_memory_persistence = ?#keep; skip_pre_upgrade = null });
      canister_id;
      wasm_module;
      arg = to_candid ();
    });
  };
  public func add(to : Principal, n : Nat) : async Nat { await (actor (debug_show to) : Peer).add(n) };
  public func uninstall(canister_id : Principal) : async () { await management.uninstall_code({ canister_id }) };
  public func start(canister_id : Principal) : async () { await management.start_canister({ canister_id }) };
  public func stop(canister_id : Principal) : async () { await management.stop_canister({ canister_id }) };
  public func delete(canister_id : Principal) : async () { await management.delete_canister({ canister_id }) };
  public func deposit(canister_id : Principal, cycles : Nat) : async () {
    await (with cycles) management.deposit_cycles({ canister_id });
  };
  public func giveAway(canister_id : Principal, to : Principal) : async () {
    await management.update_settings({
      canister_id;
      settings = { controllers = ?[to]; compute_allocation = null; memory_allocation = null; freezing_threshold = null };
    });
  };
  public func statusOf(canister_id : Principal) : async { status : Status; isInstalled : Bool; cycles : Nat; controllers : [Principal] } {
    let { status; module_hash; cycles; settings } = await management.canister_status({ canister_id });
    { status; isInstalled = module_hash != null; cycles; controllers = settings.controllers };
  };
  public func take(canister_id : Principal) : async () {
    snapshot := (await management.take_canister_snapshot({ canister_id; replace_snapshot = null })).id;
  };
  public func load(canister_id : Principal) : async () {
    await management.load_canister_snapshot({ canister_id; snapshot_id = snapshot });
  };
  public func tryStatusOf(canister_id : Principal) : async Text {
    try { ignore await management.canister_status({ canister_id }); "answered" } catch (e) Error.message(e);
  };
  public func throwDice() : async { random : Blob; time : Int; thrown : Nat; balance : Nat } {
    let random = await management.raw_rand();
    thrown += Nat.fromNat8((random : Blob)[0]) % 6 + 1;
    { random; time = Time.now(); thrown; balance = Cycles.balance() };
  };
};
