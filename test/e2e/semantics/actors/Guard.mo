import Runtime "mo:core/Runtime";

persistent actor {
  var count = 0;
  var inspected = 0;
  public func open(n : Nat) : async Nat { count += n; count };
  public func closed() : async Nat { count += 100; count };
  public func faulty() : async Nat { count += 1_000; count };
  public func readable() : async Nat { inspected };
  public query func get() : async Nat { count };
  system func inspect({
    caller : Principal;
    arg : Blob;
    msg : { #open : () -> Nat; #closed : () -> (); #faulty : () -> (); #readable : () -> (); #get : () -> () };
  }) : Bool {
    inspected += 1;
    switch msg {
      case (#open n) n() < 10 and arg.size() < 100;
      case (#closed _) debug_show caller != "2vxsx-fae";
      case (#faulty _) Runtime.trap("inspection failed");
      case _ true;
    };
  };
};
