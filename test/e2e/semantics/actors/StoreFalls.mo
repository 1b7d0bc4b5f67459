import Debug "mo:core/Debug";
import Runtime "mo:core/Runtime";

persistent actor {
  var count = 0;
  var words : [var ?Text] = [var null, null, null];
  public func put(_ : Text) : async Nat { count };
  public query func get() : async { count : Nat; words : [?Text]; session : Nat } {
    { count; words = [words[0], words[1], words[2]]; session = 0 };
  };
  public query func version() : async Text { "falls" };
  system func postupgrade() {
    count := 1_000;
    Debug.print("falling");
    Runtime.trap("cannot take over");
  };
};
