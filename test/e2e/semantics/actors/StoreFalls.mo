import Debug "mo:core/Debug";
import Runtime "mo:core/Runtime";

persistent actor {
  var count = 0;
  var words : [var ?Text] = [var null, null, null];
  public query func get() : async { count : Nat; words : [?Text] } {
    { count; words = [words[0], words[1], words[2]] };
  };
  system func postupgrade() {
    count := 1_000;
    Debug.print("falling");
    Runtime.trap("cannot take over");
  };
};
