/// A counter: the smallest actor that remembers something.
///
/// An actor's variables are its database. What a message changes is kept when the message ends well, and undone as if it
/// had never happened when it does not. `persistent` lets the variables also survive an upgrade to new code.
import Runtime "mo:core/Runtime";

persistent actor Counter {
  var count : Nat = 0;

  /// Adds one, and answers with the new value.
  public func inc() : async Nat {
    count += 1;
    count;
  };

  /// Adds any amount, and answers with the new value.
  public func add(amount : Nat) : async Nat {
    count += amount;
    count;
  };

  /// A query only looks: it is faster than an update, and nothing it changes is kept.
  public query func get() : async Nat {
    count;
  };

  /// Changes the count, then fails: the caller sees the reason, and the count is what it was before.
  public func boom() : async () {
    count += 1_000_000;
    Runtime.trap("boom: this change will be undone");
  };

  /// Never ends by itself. The host stops it at the instruction limit and undoes what it did.
  public func spin() : async () {
    loop { count += 1 };
  };
};
