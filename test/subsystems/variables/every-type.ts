/** A Motoko actor with a variable of every type that values have, and values for it. */
import fc from '../../support/properties.ts';

export const EVERY_TYPE = `
import Array "mo:core/Array";
import List "mo:core/List";
import Map "mo:core/Map";
import Nat "mo:core/Nat";
import Set "mo:core/Set";
import Text "mo:core/Text";
import VarArray "mo:core/VarArray";

persistent actor {
  type Tree = { #leaf; #node : (Tree, Nat, Tree) };
  type Pair<A, B> = { first : A; second : B };
  type All = {
    nat : Nat; int : Int; nat8 : Nat8; nat16 : Nat16; nat32 : Nat32; nat64 : Nat64;
    int8 : Int8; int16 : Int16; int32 : Int32; int64 : Int64; float : Float; bool : Bool; char : Char;
    text : Text; blob : Blob; bytes : [Nat8]; principal : Principal; nothing : Null; unit : (); empty : {};
    opt : ?Nat; optText : ?Text; optBool : ?Bool; optOpt : ??Nat; optOptOpt : ???Bool; optNull : ?Null; optUnit : ?();
    list : [Int]; texts : [Text]; matrix : [[Nat]]; tuple : (Nat, Text, Bool); tree : Tree;
    variant : { #a; #b : Nat; #c : { x : Int; y : [Text] }; #black : (Nat, Nat) };
    pair : Pair<Nat, Pair<Text, ?Bool>>; service : actor { f : () -> async () }; function : shared query (Nat) -> async Text;
  };
  type Changing = { var n : Nat; name : Text; var next : ?Changing };
  type Seen = { n : Nat; name : Text; next : ?Seen };

  var all : ?All = null;
  var optional : ?Nat = null;
  let fixed : (Nat, Text) = (7, "fixed");
  let cells : [var Int] = [var 1, -2, 3];
  let map = Map.empty<Text, Nat>();
  let set = Set.empty<Nat>();
  let queue = List.empty<{ id : Nat; var label_ : Text }>();
  let chain : Changing = { var n = 1; name = "one"; var next = ?{ var n = 2; name = "two"; var next = null } };
  var rope : Text = "";
  var deep : Tree = #leaf;
  var data : Blob = "";
  var large : [Nat] = [];

  public func put(value : All) : async () { all := ?value };
  public query func get() : async ?All { all };
  public func option(value : ?Nat) : async () { optional := value };
  public query func getOption() : async ?Nat { optional };
  public func grow(n : Nat) : async () {
    var k = 0;
    while (k < n) {
      Map.add(map, Text.compare, "key" # Nat.toText(k * 7919 % n), k);
      Set.add(set, Nat.compare, k * 7919 % n);
      List.add(queue, { id = k; var label_ = "l" # Nat.toText(k) });
      k += 1;
    };
    chain.n += 1;
    cells[0] := 2 ** 70;
  };
  public func shrink() : async () { ignore List.removeLast(queue); ignore Map.delete(map, Text.compare, "key0") };
  public query func entries() : async [(Text, Nat)] { Map.toArray(map) };
  public query func members() : async [Nat] { Set.toArray(set) };
  public query func items() : async [{ id : Nat; label_ : Text }] {
    List.toArray(List.map<{ id : Nat; var label_ : Text }, { id : Nat; label_ : Text }>(queue, func x = { id = x.id; label_ = x.label_ }))
  };
  public query func getCells() : async [Int] { Array.fromVarArray(cells) };
  func seen(c : Changing) : Seen { { n = c.n; name = c.name; next = switch (c.next) { case null null; case (?x) ?seen(x) } } };
  public query func getChain() : async Seen { seen(chain) };
  public func join(part : Text, times : Nat) : async () {
    rope := "";
    var k = 0;
    while (k < times) { rope #= part # Nat.toText(k); k += 1 };
  };
  public query func getRope() : async Text { rope };
  public func circle() : async () { chain.next := ?chain };
  public func deepen(n : Nat) : async () { var k = 0; while (k < n) { deep := #node(#leaf, k, deep); k += 1 } };
  public func fill(bytes : Blob) : async () { data := bytes };
  public func many(n : Nat) : async () { large := Array.tabulate<Nat>(n, func k = k * k) };
};
`;

/** Integers on both sides of the sizes at which their form in memory changes. */
const EDGES = [0n, 1n, 255n]
  .concat([7, 8, 15, 16, 30, 31, 32, 53, 59, 60, 61, 62, 63, 64, 119, 120, 121, 180, 600].flatMap(around))
  .concat(10n ** 50n);

function around(bits: number): readonly bigint[] {
  const power = 2n ** BigInt(bits);
  return [power - 1n, power, power + 1n];
}

function integers(bits: number, isSigned: boolean): fc.Arbitrary<string> {
  const max = 2n ** BigInt(isSigned ? bits - 1 : bits) - 1n;
  const min = isSigned ? -max - 1n : 0n;
  const signed = [...EDGES, max, min].concat(EDGES.map((edge) => -edge));
  const edges = signed.filter((edge) => edge >= min && edge <= max);
  return fc.oneof(fc.constantFrom(...edges), fc.bigInt({ min, max })).map(String);
}

const nat = integers(700, false);
const int = integers(700, true);
const text = fc.oneof(fc.string({ unit: 'grapheme', maxLength: 20 }), fc.constantFrom('', '\u0000"\\\n', 'ß', '🦊'));
const blob = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('base64'));
const float = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom('NaN', 'Infinity', '-Infinity'),
);
const principal = fc.constantFrom('aaaaa-aa', '2vxsx-fae', 'rrkah-fqaaa-aaaaa-aaaaq-cai');
const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4 },
    fc.constant({ leaf: null }),
    fc.tuple(tie('tree'), nat, tie('tree')).map((node) => ({ node })),
  ),
}));
const bool = fc.boolean();
const orNull = <T>(values: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(values);
const bracketed = <T>(values: fc.Arbitrary<T>): fc.Arbitrary<readonly T[]> => fc.array(values, { maxLength: 1 });

/** Values of the type `All` as the JSON of docs/json-encoding.md. */
export const everyValue = fc.record({
  nat,
  int,
  nat8: integers(8, false),
  nat16: integers(16, false),
  nat32: integers(32, false),
  nat64: integers(64, false),
  int8: integers(8, true),
  int16: integers(16, true),
  int32: integers(32, true),
  int64: integers(64, true),
  float,
  bool,
  char: fc.constantFrom(0, 65, 0xdf, 0xd7ff, 0xe000, 0x1f98a, 0x10ffff),
  text,
  blob,
  bytes: blob,
  principal,
  nothing: fc.constant(null),
  unit: fc.constant(null),
  empty: fc.constant({}),
  opt: orNull(nat),
  optText: orNull(text),
  optBool: orNull(bool),
  optOpt: bracketed(orNull(nat)),
  optOptOpt: bracketed(bracketed(orNull(bool))),
  optNull: bracketed(fc.constant(null)),
  optUnit: bracketed(fc.constant(null)),
  list: fc.array(int, { maxLength: 5 }),
  texts: fc.array(text, { maxLength: 5 }),
  matrix: fc.array(fc.array(nat, { maxLength: 3 }), { maxLength: 3 }),
  tuple: fc.tuple(nat, text, bool),
  tree,
  variant: fc.oneof(
    fc.constant({ a: null }),
    nat.map((b) => ({ b })),
    fc.record({ x: int, y: fc.array(text, { maxLength: 3 }) }).map((c) => ({ c })),
    fc.tuple(nat, nat).map((black) => ({ black })),
  ),
  pair: fc.record({ first: nat, second: fc.record({ first: text, second: orNull(bool) }) }),
  service: principal,
  function: fc.record({ principal, method: fc.constantFrom('f', 'another method') }),
});
