/// The rules of `_redirects`. The host has checked them and written each as `<status>\t<force>\t<from>\t<to>`.
import Array "mo:core/Array";
import Iter "mo:core/Iter";
import List "mo:core/List";
import Nat "mo:core/Nat";
import Nat16 "mo:core/Nat16";
import Text "mo:core/Text";
import Paths "./Paths";

module {
  public type Rule = {
    status : Nat16;
    /// True: the rule also holds for files that are there.
    force : Bool;
    from : [Text];
    to : Text;
  };

  /// Where a path goes, as the rule says it, with what the rule names filled in.
  public type Match = { status : Nat16; to : Text };

  public func parse(text : Text) : [Rule] {
    let rules = List.empty<Rule>();
    for (line in Text.split(text, #char '\n')) {
      let fields = Iter.toArray(Text.split(line, #char '\t'));
      if (fields.size() == 4) {
        let ?status = Nat.fromText(fields[0]) else return [];
        List.add(rules, { status = Nat16.fromNat(status); force = fields[1] == "1"; from = parts(fields[2]); to = fields[3] });
      };
    };
    List.toArray(rules);
  };

  /// The first rule that a path meets, among those that are forced, or the others.
  public func find(rules : [Rule], path : Text, force : Bool) : ?Match {
    if (rules.size() == 0) return null;
    let asked = parts(path);
    for (rule in rules.values()) {
      if (rule.force == force) {
        switch (bindings(rule.from, asked)) {
          case (?bound) return ?{ status = rule.status; to = filled(rule.to, bound, rule.status != 200) };
          case null {};
        };
      };
    };
    null;
  };

  func parts(path : Text) : [Text] = Iter.toArray(Text.split(path, #char '/'));

  /// What the names of a pattern stand for in a path; null: it does not fit.
  func bindings(pattern : [Text], path : [Text]) : ?[(Text, Text)] {
    let bound = List.empty<(Text, Text)>();
    var at = 0;
    for (part in pattern.values()) {
      if (part == "*") {
        let rest = if (at < path.size()) Array.sliceToArray(path, at, path.size()) else [];
        List.add(bound, (":splat", Text.join(rest.values(), "/")));
        return ?List.toArray(bound);
      };
      if (at == path.size()) return null;
      if (Text.startsWith(part, #char ':')) {
        if (path[at] == "") return null;
        List.add(bound, (part, path[at]));
      } else if (part != path[at]) return null;
      at += 1;
    };
    if (at == path.size()) ?List.toArray(bound) else null;
  };

  func filled(to : Text, bound : [(Text, Text)], isAddress : Bool) : Text {
    if (not Text.contains(to, #char ':')) return to;
    // Part by part: what is put in for one name is not looked at for another.
    let whole = Array.map<Text, Text>(
      parts(to),
      func part {
        for ((name, value) in bound.values()) if (part == name) return if isAddress Paths.encode(value) else value;
        part;
      },
    );
    Text.join(whole.values(), "/");
  };
};
