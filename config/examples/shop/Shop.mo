/// Takes orders, has the warehouse send them, and writes bills. `docs/time-travel.md` upgrades it to `Upgrade.mo`.
import Array "mo:core/Array";
import Warehouse "canister:warehouse";

persistent actor {
  /// A voucher pays a number of cents.
  type Payment = { #card : Text; #voucher : Nat };
  type Order = { pieces : Nat; cents : Nat; payment : Payment };

  var orders : [Order] = [];

  /// Returns the number of the order.
  public func order(pieces : Nat, cents : Nat, payment : Payment) : async Nat {
    await Warehouse.send(pieces);
    orders := Array.concat(orders, [{ pieces; cents; payment }]);
    orders.size();
  };

  /// Returns the cents that are still to be paid for an order.
  public func bill(number : Nat) : async Nat {
    rest(orders[number - 1]);
  };

  func rest({ cents; payment } : Order) : Nat {
    switch payment {
      case (#card _) cents;
      case (#voucher paid) if (paid >= cents) 0 else cents - paid;
    };
  };

  /// Returns how many pieces were ordered.
  public query func total() : async Nat {
    Array.foldLeft<Order, Nat>(orders, 0, func(sum, { pieces }) = sum + pieces);
  };
};
