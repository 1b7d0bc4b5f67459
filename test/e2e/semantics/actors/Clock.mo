import Runtime "mo:core/Runtime";
import Timer "mo:core/Timer";

persistent actor {
  var fired = 0;
  var repeated = 0;
  var trapped = 0;
  transient var repeating : ?Nat = null;

  public func fireAfter(milliseconds : Nat) : async () {
    ignore Timer.setTimer<system>(#milliseconds milliseconds, func() : async () { fired += 1 });
  };
  public func repeatEvery(milliseconds : Nat) : async () {
    repeating := ?Timer.recurringTimer<system>(#milliseconds milliseconds, func() : async () { repeated += 1 });
  };
  public func cancel() : async () {
    switch repeating { case (?id) Timer.cancelTimer(id); case null {} };
  };
  // The job's trap is its own: the next ones still fire.
  public func trapAfter(milliseconds : Nat) : async () {
    ignore Timer.setTimer<system>(#milliseconds milliseconds, func() : async () { trapped += 1; Runtime.trap("in a timer") });
  };
  public query func counts() : async { fired : Nat; repeated : Nat; trapped : Nat } { { fired; repeated; trapped } };
};
