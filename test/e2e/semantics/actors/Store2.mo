import Debug "mo:core/Debug";

persistent actor {
  var count = 0;
  var words : [var ?Text] = [var null, null, null];
  var added = "new in two";
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
  public query func addition() : async Text { added };
  public query func version() : async Text { "two" };
  system func postupgrade() { Debug.print("two: after") };
};
