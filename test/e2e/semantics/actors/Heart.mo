import Timer "mo:core/Timer";

persistent actor Self {
  var beats = 0;
  var echoes = 0;
  var fired = 0;
  system func heartbeat() : async () {
    beats += 1;
    await echo();
  };
  public func echo() : async () { echoes += 1 };
  public func fireSoon() : async () {
    ignore Timer.setTimer<system>(#milliseconds 1, func() : async () { fired += 1 });
  };
  public query func counts() : async { beats : Nat; echoes : Nat; fired : Nat } { { beats; echoes; fired } };
};
