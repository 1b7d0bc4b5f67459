import Array "mo:core/Array";
import CertifiedData "mo:core/CertifiedData";
import Debug "mo:core/Debug";
import List "mo:core/List";
import Region "mo:core/Region";
import Runtime "mo:core/Runtime";
import Timer "mo:core/Timer";

// Keeps something in every place where an actor can keep something, and calls others of its kind.
persistent actor Self {
  type Keeper = actor { add : Nat -> async Nat; credit : Nat -> async () };
  func keeper(p : Principal) : Keeper = actor (debug_show p) : Keeper;

  let numbers = List.empty<Nat>();
  let blobs = List.empty<Blob>();
  let region = Region.new();
  ignore Region.grow(region, 1);
  var count = 0;
  var fired = 0;
  var repeated = 0;
  var steps = 0;
  var chains = 0;
  var pool = 1_000_000;
  var seen : ?Text = null;

  public func append(n : Nat) : async Nat {
    List.add(numbers, n);
    Debug.print("kept " # debug_show n);
    List.size(numbers);
  };
  public query func all() : async [Nat] { List.toArray(numbers) };
  public query func since(index : Nat) : async [Nat] {
    let first : Nat = if (index < List.size(numbers)) index else List.size(numbers);
    Array.tabulate<Nat>(List.size(numbers) - first, func i = List.at(numbers, first + i));
  };
  public func fill(n : Nat) : async Nat {
    var i = 0;
    while (i < n) { List.add(numbers, i); i += 1 };
    List.size(numbers);
  };
  // For large messages that leave little behind.
  public func weigh(data : Blob) : async Nat { List.add(numbers, data.size()); List.size(numbers) };
  public func keep(data : Blob) : async Nat {
    List.add(blobs, data);
    List.add(numbers, data.size());
    List.size(numbers);
  };
  public query func size() : async Nat { List.size(numbers) };

  public func add(n : Nat) : async Nat { count += n; count };
  public query func get() : async Nat { count };

  public func store(offset : Nat64, value : Nat64) : async () { Region.storeNat64(region, offset, value) };
  public query func load(offset : Nat64) : async Nat64 { Region.loadNat64(region, offset) };
  public func certify(data : Blob) : async () { CertifiedData.set(data) };

  public func fireAfter(milliseconds : Nat) : async () {
    ignore Timer.setTimer<system>(#milliseconds milliseconds, func() : async () { fired += 1 });
  };
  public func repeatEvery(milliseconds : Nat) : async () {
    ignore Timer.recurringTimer<system>(#milliseconds milliseconds, func() : async () { repeated += 1 });
  };
  public query func timers() : async { fired : Nat; repeated : Nat } { { fired; repeated } };

  public func variable(name : Text) : async ?Text {
    seen := Runtime.envVar<system>(name);
    seen;
  };
  public query func lastSeen() : async ?Text { seen };

  // `n` calls one after the other; each step is counted here before its call, and there by its call.
  public func chain(to : Principal, n : Nat) : async Nat {
    var i = 0;
    while (i < n) {
      steps += 1;
      ignore await keeper(to).add(1);
      i += 1;
    };
    chains += 1;
    chains;
  };
  public query func chained() : async { steps : Nat; chains : Nat } { { steps; chains } };

  // What leaves here arrives there: the sum of all pools is always the same when no transfer is under way.
  public func transfer(to : Principal, n : Nat) : async Nat {
    if (pool < n) return pool;
    pool -= n;
    await keeper(to).credit(n);
    pool;
  };
  public func credit(n : Nat) : async () { pool += n };
  public query func inPool() : async Nat { pool };
};
