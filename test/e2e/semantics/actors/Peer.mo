import Array "mo:core/Array";
import Blob "mo:core/Blob";
import Cycles "mo:core/Cycles";
import Error "mo:core/Error";
import Runtime "mo:core/Runtime";
import VarArray "mo:core/VarArray";

// Does to others what a test asks for. Installed several times.
persistent actor Self {
  public type Caught = { code : Text; message : Text };
  type Peer = actor {
    add : Nat -> async Nat;
    get : query () -> async Nat;
    refuse : Text -> async Nat;
    boom : Nat -> async Nat;
    notify : Nat -> ();
    notifyBoom : Nat -> ();
    take : Nat -> async Nat;
    takeAndBoom : Nat -> async Nat;
    takeOneWay : Nat -> ();
    takeOneWayAndBoom : Nat -> ();
    size : Blob -> async Nat;
    zeros : Nat -> async Blob;
    hold : () -> async Nat;
    trace : Nat -> async ();
    who : () -> async Principal;
    absent : () -> async Nat;
    tree : composite query ([Principal]) -> async Nat;
  };

  var count = 0;
  var held = true;
  var holds = 0;
  var order : [Nat] = [];
  var seen : { before : Nat; accepted : Nat; after : Nat } = { before = 0; accepted = 0; after = 0 };

  func peer(p : Principal) : Peer = actor (debug_show p) : Peer;

  func caught(e : Error) : Caught = {
    code = switch (Error.code(e)) {
      case (#system_fatal) "system_fatal";
      case (#system_transient) "system_transient";
      case (#destination_invalid) "destination_invalid";
      case (#canister_reject) "canister_reject";
      case (#canister_error) "canister_error";
      case (#system_unknown) "system_unknown";
      case (#future n) "future " # debug_show n;
      case (#call_error { err_code }) "call_error " # debug_show err_code;
    };
    message = Error.message(e);
  };

  // ---- to be called

  public func add(n : Nat) : async Nat { count += n; count };
  public query func get() : async Nat { count };
  public query func addInQuery(n : Nat) : async Nat { count += n; count };
  public func refuse(text : Text) : async Nat { count += 1; throw Error.reject(text) };
  public func boom(n : Nat) : async Nat { count += n; Runtime.trap("boom") };
  public func notify(n : Nat) : () { count += n };
  public func notifyBoom(n : Nat) : () { count += n; Runtime.trap("boom") };
  public func take(n : Nat) : async Nat { Cycles.accept<system>(n) };
  public func takeAndBoom(n : Nat) : async Nat { ignore Cycles.accept<system>(n); Runtime.trap("took and fell") };
  // They have answered before their bodies run.
  public func takeOneWay(n : Nat) : () {
    let before = Cycles.available();
    let accepted = Cycles.accept<system>(n);
    seen := { before; accepted; after = Cycles.available() };
    await step();
    // In a later message of a call that is answered.
    assert Cycles.available() == 0 and Cycles.accept<system>(n) == 0;
    count += 1;
  };
  public func takeOneWayAndBoom(n : Nat) : () { ignore Cycles.accept<system>(n); Runtime.trap("took and fell") };
  public query func taken() : async { before : Nat; accepted : Nat; after : Nat } { seen };
  public func size(data : Blob) : async Nat { data.size() };
  public func zeros(n : Nat) : async Blob { Blob.fromArray(Array.tabulate<Nat8>(n, func _ = 0)) };
  public func trace(n : Nat) : async () { order := Array.concat(order, [n]) };
  public query func traced() : async [Nat] { order };
  public shared ({ caller }) func who() : async Principal { caller };

  // Open until released: a call context with an own call under way at all times.
  public func hold() : async Nat {
    holds += 1;
    while (held) { await step() };
    count;
  };
  public func step() : async () {};
  // Counts the calls of hold that have begun.
  public query func holding() : async Nat { holds };
  public func release() : async () { held := false };
  public func rearm() : async () { held := true };

  // ---- calling

  public func addThere(p : Principal, n : Nat) : async Nat { await peer(p).add(n) };
  public func readThere(p : Principal) : async Nat { await peer(p).get() };
  public func whoThere(p : Principal) : async Principal { await peer(p).who() };

  // Two commit points: what came before an await stays when what comes after it traps.
  public func addAroundAndTrap(p : Principal, n : Nat) : async Nat {
    count += 1;
    ignore await peer(p).add(n);
    count += 10;
    ignore await peer(p).add(n);
    count += 100;
    Runtime.trap("after the second await");
  };

  // What is called in an execution that traps was never sent.
  public func callAndTrap(p : Principal, n : Nat) : async Nat {
    count += 1;
    peer(p).notify(n);
    ignore peer(p).add(n);
    Runtime.trap("before anything was sent");
  };

  public func tryRefuse(p : Principal, text : Text) : async Caught {
    try { ignore await peer(p).refuse(text); Runtime.trap("it answered") } catch (e) caught(e);
  };
  public func tryBoom(p : Principal) : async Caught {
    try { ignore await peer(p).boom(1_000); Runtime.trap("it answered") } catch (e) caught(e);
  };
  public func tryAdd(p : Principal, n : Nat) : async Caught {
    try { ignore await peer(p).add(n); { code = "ok"; message = "" } } catch (e) caught(e);
  };
  public func tryAbsent(p : Principal) : async Caught {
    try { ignore await peer(p).absent(); Runtime.trap("it answered") } catch (e) caught(e);
  };
  public func tryTree(p : Principal) : async Caught {
    try { ignore await (actor (debug_show p) : actor { tree : ([Principal]) -> async Nat }).tree([]); Runtime.trap("it answered") } catch (e) caught(e);
  };
  public func trySize(p : Principal, n : Nat) : async Caught {
    try {
      let data = Blob.fromArray(Array.tabulate<Nat8>(n, func _ = 7));
      { code = "ok"; message = debug_show (await peer(p).size(data)) };
    } catch (e) caught(e);
  };
  public func tryZeros(p : Principal, n : Nat) : async Caught {
    try { { code = "ok"; message = debug_show (await peer(p).zeros(n)).size() } } catch (e) caught(e);
  };
  public func tryHold(p : Principal) : async Caught {
    try { { code = "ok"; message = debug_show (await peer(p).hold()) } } catch (e) caught(e);
  };

  // The code after `finally` runs also when the callback traps.
  public func trapWithFinally(p : Principal) : async Nat {
    try {
      ignore await peer(p).add(0);
      count += 100;
      Runtime.trap("in the callback");
    } finally { count += 5 };
  };

  public func notifyThere(p : Principal, n : Nat) : async () { peer(p).notify(n) };
  public func notifyBoomThere(p : Principal, n : Nat) : async () { peer(p).notifyBoom(n) };

  public func traceThere(p : Principal, n : Nat) : async () {
    let futures = VarArray.repeat<?(async ())>(null, n);
    for (i in futures.keys()) futures[i] := ?peer(p).trace(i);
    label each for (future in futures.values()) { let ?sent = future else continue each; await sent };
  };

  // Calls to itself, one after the other and many at once.
  public func addToSelf(n : Nat) : async Nat {
    var i = 0;
    while (i < n) { ignore await add(1); i += 1 };
    count;
  };
  public func addToSelfAtOnce(n : Nat) : async Nat {
    let futures = VarArray.repeat<?(async Nat)>(null, n);
    for (i in futures.keys()) futures[i] := ?add(1);
    var last = 0;
    label each for (future in futures.values()) { let ?sent = future else continue each; last := await sent };
    last;
  };

  // State may change while a call is under way.
  public func raceWithSelf() : async { before : Nat; after : Nat } {
    let before = count;
    ignore await add(7);
    { before; after = count };
  };

  // ---- cycles

  public query func balance() : async Nat { Cycles.balance() };
  public func give(p : Principal, attached : Nat, taken : Nat) : async { accepted : Nat; refunded : Nat } {
    let accepted = await (with cycles = attached) peer(p).take(taken);
    { accepted; refunded = Cycles.refunded() };
  };
  // (Motoko tells what was refunded only with a reply.)
  public func giveToBoom(p : Principal, attached : Nat) : async Caught {
    try { ignore await (with cycles = attached) peer(p).takeAndBoom(attached); Runtime.trap("it answered") } catch (e) caught(e);
  };
  public func giveOneWay(p : Principal, attached : Nat, taken : Nat) : async () {
    (with cycles = attached) peer(p).takeOneWay(taken);
  };
  public func giveOneWayToBoom(p : Principal, attached : Nat) : async () {
    (with cycles = attached) peer(p).takeOneWayAndBoom(attached);
  };
  public func giveTooMuch(p : Principal) : async Caught {
    try { ignore await (with cycles = 10 ** 30) peer(p).take(1); Runtime.trap("it answered") } catch (e) caught(e);
  };
  public func burn(n : Nat) : async Nat { Cycles.burn<system>(n) };
  public func tryPatiently(p : Principal, seconds : Nat32) : async Caught {
    try { { code = "ok"; message = debug_show (await (with timeout = seconds) peer(p).hold()) } } catch (e) caught(e);
  };

  // ---- composite queries: the sum of the counts along a path, counting up on the way

  public composite query func tree(path : [Principal]) : async Nat {
    count += 1;
    if (path.size() == 0) return count;
    let rest = Array.tabulate<Principal>(path.size() - 1 : Nat, func i = path[i + 1]);
    let below = await peer(path[0]).tree(rest);
    count += 1;
    count * 1_000 + below;
  };
  public composite query func readAll(peers : [Principal]) : async [Nat] {
    var counts : [Nat] = [];
    for (p in peers.values()) counts := Array.concat(counts, [await peer(p).get()]);
    counts;
  };
  public composite query func readOneself() : async Nat { count += 50; await get() };
};
