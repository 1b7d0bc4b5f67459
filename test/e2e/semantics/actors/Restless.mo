import Prim "mo:⛔";

// Every call that arrives sends two to the other side, without end.
persistent actor Self {
  var received = 0;
  var refused = 0;
  type Other = actor { ping : Principal -> () };
  public func ping(to : Principal) : () {
    received += 1;
    let me = Prim.principalOfActor(Self);
    let other = actor (debug_show to) : Other;
    for (_ in [0, 1].values()) {
      try { other.ping(me) } catch _ { refused += 1 };
    };
  };
  public query func counts() : async { received : Nat; refused : Nat } { { received; refused } };
};
