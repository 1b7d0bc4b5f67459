/// Counts what has left it.
persistent actor {
  var sent : Nat = 0;

  public func send(pieces : Nat) : async () {
    sent += pieces;
  };

  public query func total() : async Nat { sent };
};
