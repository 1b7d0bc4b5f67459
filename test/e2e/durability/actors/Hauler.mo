import Array "mo:core/Array";
import Blob "mo:core/Blob";
import Debug "mo:core/Debug";
import Error "mo:core/Error";
import InternetComputer "mo:core/InternetComputer";
import Nat "mo:core/Nat";
import Nat64 "mo:core/Nat64";
import Region "mo:core/Region";
import Runtime "mo:core/Runtime";
import Text "mo:core/Text";
import VarArray "mo:core/VarArray";

// Takes loads of any size, for as long as it is told, from numbered clients, each of which numbers its loads. Nobody is to see
// a load half taken.
persistent actor Self {
  type Load = {
    client : Nat;
    number : Nat;
    // How long it takes, at least.
    instructions : Nat64;
    replyBytes : Nat;
    lineBytes : Nat;
    end : { #reply; #reject; #trap; #never };
  };
  type Hauler = actor { haul : (Load, Blob) -> async Blob };
  type Report = { begun : Nat; ended : Nat; taken : [Nat]; asked : [Nat]; relayed : [Nat]; delivered : [Nat]; versions : Nat };

  let clients = 16;
  let slotPages : Nat64 = 65;
  let slotBytes = slotPages * 65_536;

  var begun = 0;
  var ended = 0;
  // By client, how many loads: were taken; were to be relayed; have been; and have been taken by the other.
  let taken = VarArray.repeat<Nat>(0, clients);
  let asked = VarArray.repeat<Nat>(0, clients);
  let relayed = VarArray.repeat<Nat>(0, clients);
  let delivered = VarArray.repeat<Nat>(0, clients);
  // The last load's bytes, by client.
  let sizes = VarArray.repeat<Nat>(0, clients);
  let loads = Region.new();
  ignore Region.grow(loads, slotPages * Nat64.fromNat(clients));
  // Text of one letter, for replies and lines.
  let letters = Region.new();
  if (Region.size(letters) == 0) {
    ignore Region.grow(letters, slotPages);
    Region.storeBlob(letters, 0, Blob.fromArray(Array.tabulate<Nat8>(65_536, func _ = 120)));
    var at : Nat64 = 65_536;
    while (at < slotBytes) {
      Region.storeBlob(letters, at, Region.loadBlob(letters, 0, 65_536));
      at += 65_536;
    };
  };
  // How much there is to carry over when the code is replaced.
  var ballast : [Nat] = [];
  // The first, and the upgrades.
  var versions = 0;
  versions += 1;

  func letter(bytes : Nat) : Text {
    switch (Text.decodeUtf8(Region.loadBlob(letters, 0, bytes))) { case (?text) text; case null Runtime.unreachable() };
  };
  func spin(instructions : Nat64) {
    let until = InternetComputer.performanceCounter(0) + instructions;
    while (InternetComputer.performanceCounter(0) < until) {
      var i = 0;
      while (i < 200) i += 1;
    };
  };
  func isNext(client : Nat, number : Nat, last : [var Nat]) {
    if (number != last[client] + 1) Runtime.trap("load " # debug_show number # " after " # debug_show (last[client]));
  };
  func slotOf(client : Nat) : Nat64 { Nat64.fromNat(client) * slotBytes };

  public func haul(load : Load, data : Blob) : async Blob {
    let { client; number } = load;
    isNext(client, number, taken);
    begun += 1;
    Region.storeBlob(loads, slotOf(client), data);
    if (load.end == #reply and load.lineBytes > 0)
      Debug.print("hauled " # debug_show client # " " # debug_show number # " " # letter(load.lineBytes));
    spin(load.instructions);
    sizes[client] := data.size();
    taken[client] := number;
    switch (load.end) {
      case (#trap) Runtime.trap("dropped");
      case (#never) loop { begun += 1 };
      case _ {};
    };
    ended += 1;
    if (load.end == #reject) throw Error.reject(letter(load.replyBytes));
    Region.loadBlob(letters, 0, load.replyBytes);
  };

  // Has another take it, and answers with the bytes of its reply or reject.
  public func relay(to : Principal, load : Load, data : Blob) : async Nat {
    let { client; number } = load;
    isNext(client, number, asked);
    asked[client] := number;
    let hauler = actor (debug_show to) : Hauler;
    let next = delivered[client] + 1;
    let bytes = try {
      let reply = await hauler.haul({ load with number = next }, data);
      delivered[client] := next;
      reply.size();
    } catch (error) {
      // What rejects is kept, and what traps is not.
      if (Error.code(error) == #canister_reject) delivered[client] := next;
      Error.message(error).size();
    };
    isNext(client, number, relayed);
    relayed[client] := number;
    bytes;
  };

  // Whoever looks sees loads as a whole.
  public query func look(data : Blob) : async Report {
    assert data.size() <= Nat64.toNat(slotBytes);
    {
      begun;
      ended;
      taken = Array.fromVarArray(taken);
      asked = Array.fromVarArray(asked);
      relayed = Array.fromVarArray(relayed);
      delivered = Array.fromVarArray(delivered);
      versions;
    };
  };
  // A piece of a client's last load.
  public query func stored(client : Nat, from : Nat, bytes : Nat) : async Blob {
    let rest = Nat.min(bytes, if (from < sizes[client]) sizes[client] - from else 0);
    Region.loadBlob(loads, slotOf(client) + Nat64.fromNat(from), rest);
  };

  public func fill(items : Nat) : async () { ballast := Array.tabulate<Nat>(items, func i = i * i) };
  public query func filled() : async Nat { ballast.size() };
};
