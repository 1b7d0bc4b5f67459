import Runtime "mo:core/Runtime";

persistent actor class Item(start : Nat) = Self {
  var count = start;
  transient let extra = start;
  if (start == 666) Runtime.trap("no such item");
  public func add(n : Nat) : async Nat { count += n; count };
  public query func get() : async { count : Nat; extra : Nat } { { count; extra } };
};
