import Debug "mo:core/Debug";

persistent actor {
  var count = 0;
  var words : [var ?Text] = [var null, null, null];
  transient var session = 0;
  public func put(word : Text) : async Nat {
    words[count % 3] := ?word;
    count += 1;
    session += 1;
    count;
  };
  public query func get() : async { count : Nat; words : [?Text]; session : Nat } {
    { count; words = [words[0], words[1], words[2]]; session };
  };
  public query func version() : async Text { "one" };
  system func preupgrade() { Debug.print("one: before") };
};
