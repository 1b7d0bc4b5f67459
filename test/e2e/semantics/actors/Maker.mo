import Prim "mo:⛔";
import Cycles "mo:core/Cycles";
import Error "mo:core/Error";
import Item "Item";

persistent actor {
  type Item = Item.Item;
  var made : ?Item = null;
  func item() : Item { switch made { case (?i) i; case null { assert false; loop {} } } };

  public func make(n : Nat, cycles : Nat) : async Principal {
    let i = await (with cycles) Item.Item(n);
    made := ?i;
    Prim.principalOfActor(i);
  };
  public func tryMake(n : Nat) : async Text {
    try { ignore await Item.Item(n); "made" } catch (e) Error.message(e);
  };
  public func add(n : Nat) : async Nat { await item().add(n) };
  public func read() : async { count : Nat; extra : Nat } { await item().get() };
  public func upgrade(n : Nat) : async Principal {
    let i = await (system Item.Item)(#upgrade (item()))(n);
    Prim.principalOfActor(i);
  };
  public func reinstall(n : Nat) : async Principal {
    let i = await (system Item.Item)(#reinstall (item()))(n);
    Prim.principalOfActor(i);
  };
  public func makeWith(n : Nat, controllers : [Principal]) : async Principal {
    let i = await (system Item.Item)(#new { settings = ?{ controllers = ?controllers; compute_allocation = null; memory_allocation = null; freezing_threshold = null } })(n);
    Prim.principalOfActor(i);
  };
  public query func balance() : async Nat { Cycles.balance() };
};
