import Prim "mo:⛔";
import Runtime "mo:core/Runtime";
import Peer "canister:peer";

persistent actor {
  public func names() : async [Text] { Runtime.envVarNames<system>() };
  public func variable(name : Text) : async ?Text { Runtime.envVar<system>(name) };
  public func addToPeer(n : Nat) : async Nat { await Peer.add(n) };
  public func peerId() : async Principal { Prim.principalOfActor(Peer) };
};
