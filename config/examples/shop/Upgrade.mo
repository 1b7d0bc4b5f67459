/// `Shop.mo` with payment in parts. Has a fault: a voucher may be worth more than the order that it pays.
import Array "mo:core/Array";
import Warehouse "canister:warehouse";

persistent actor {
  /// A voucher pays a number of cents.
  type Payment = { #card : Text; #voucher : Nat; #parts : [Nat] };
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
      case (#voucher paid) cents - paid;
      case (#parts all) Array.foldLeft<Nat, Nat>(all, cents, func(left, paid) = left - paid);
    };
  };

  /// Returns how many pieces were ordered.
  public query func total() : async Nat {
    Array.foldLeft<Order, Nat>(orders, 0, func(sum, { pieces }) = sum + pieces);
  };
};
