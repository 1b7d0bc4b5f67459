import Array "mo:core/Array";
import Blob "mo:core/Blob";
import Nat "mo:core/Nat";

// A message changes one half of the state, takes its time, and changes the other half. Whoever sees the halves differ has
// got into the middle of it.
persistent actor Self {
  type Halves = actor {
    large : (Blob) -> async Seen;
    echoLater : (Nat) -> async Blob;
  };
  type Seen = { a : Nat; b : Nat; others : Nat };
  func halves(p : Principal) : Halves = actor (debug_show p) : Halves;

  var a = 0;
  var b = 0;
  // Updates that are acknowledged besides `work`.
  var others = 0;
  transient var isAsked = false;
  transient var isReleased = false;

  func seen() : Seen { { a; b; others } };
  func spin(rounds : Nat) {
    var i : Nat32 = 0;
    let end = Nat.toNat32(rounds);
    while (i < end) { i +%= 1 };
  };
  func blobOf(bytes : Nat) : Blob { Blob.fromArray(Array.tabulate<Nat8>(bytes, func i = Nat.toNat8(i % 256))) };

  public func work(rounds : Nat) : async Seen {
    a += 1;
    spin(rounds);
    b += 1;
    seen();
  };
  public query func look() : async Seen { seen() };
  public query func lookMany(numbers : [Nat]) : async Seen { assert numbers.size() > 0; seen() };
  public func addMany(numbers : [Nat]) : async Seen {
    assert numbers.size() > 0;
    others += 1;
    seen();
  };
  public func large(data : Blob) : async Seen {
    assert data.size() > 0;
    others += 1;
    seen();
  };
  // For a while, and then a blob.
  public func echo(rounds : Nat, bytes : Nat) : async Blob {
    spin(rounds);
    blobOf(bytes);
  };
  // A blob, once it is released.
  public func echoLater(bytes : Nat) : async Blob {
    isAsked := true;
    while (not isReleased) await again();
    blobOf(bytes);
  };
  public func again() : async () {};
  public query func asked() : async Bool { isAsked };
  public func release() : async () { isReleased := true };
  // A large reply comes back as a callback.
  public func fetch(from : Principal, bytes : Nat) : async Seen {
    let data = await halves(from).echoLater(bytes);
    assert data.size() == bytes;
    others += 1;
    seen();
  };
  // A large call from here.
  public func pass(to : Principal, bytes : Nat) : async Seen {
    await halves(to).large(blobOf(bytes));
  };
  // <inspect>
};
