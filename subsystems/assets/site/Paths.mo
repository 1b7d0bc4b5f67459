/// Paths of requests: decoded, encoded again, and made relative for redirects.
import Array "mo:core/Array";
import Blob "mo:core/Blob";
import Char "mo:core/Char";
import Nat8 "mo:core/Nat8";
import Text "mo:core/Text";
import VarArray "mo:core/VarArray";

module {
  /// `/a b` and `?c` of `/a%20b?c#d`; null if it is no percent-encoded UTF-8.
  public func split(url : Text) : ?(Text, Text) {
    let whole = before(url, '#');
    let coded = before(whole, '?');
    let ?path = decode(coded) else return null;
    let ?rest = Text.stripStart(whole, #text coded) else return null;
    ?(path, rest);
  };

  /// What stands in front of a character, or all.
  public func before(text : Text, end : Char) : Text {
    switch (Text.split(text, #char end).next()) { case (?part) part; case null text };
  };

  /// A path of this site as a reference that is relative to a request's path: a site does not know where it is served.
  public func relative(target : Text, path : Text) : Text {
    let ?rest = Text.stripStart(target, #char '/') else return target;
    var up = "";
    var depth = 0;
    for (character in path.chars()) if (character == '/') depth += 1;
    while (depth > 1) {
      up #= "../";
      depth -= 1;
    };
    (if (up == "") "./" else up) # rest;
  };

  /// The last part of a path.
  public func nameOf(path : Text) : Text {
    var name = "";
    for (part in Text.split(path, #char '/')) name := part;
    name;
  };

  /// Text with `%` in place of all that means something in an address, or is not ASCII.
  public func encode(text : Text) : Text {
    Text.flatMap(
      text,
      func character = if (isPlain(character)) Text.fromChar(character) else {
        var coded = "";
        for (byte in Text.encodeUtf8(Text.fromChar(character)).values()) coded #= "%" # hexOfByte(byte);
        coded;
      },
    );
  };

  public func hex(bytes : Blob) : Text {
    var text = "";
    for (byte in bytes.values()) text #= hexOfByte(byte);
    text;
  };

  func isPlain(character : Char) : Bool {
    character < '\u{7f}' and (
      Char.isAlphabetic(character) or Char.isDigit(character) or Text.contains("-._~!$'()*+,;=@/", #char character)
    );
  };

  let digits = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f"];

  func hexOfByte(byte : Nat8) : Text = digits[(byte / 16).toNat()] # digits[(byte % 16).toNat()];

  func decode(text : Text) : ?Text {
    if (not Text.contains(text, #char '%')) return ?text;
    let coded = Blob.toArray(Text.encodeUtf8(text));
    let plain = VarArray.repeat<Nat8>(0, coded.size());
    var length = 0;
    var at = 0;
    while (at < coded.size()) {
      let byte = coded[at];
      at += 1;
      plain[length] := if (byte != 0x25) byte else {
        if (at + 2 > coded.size()) return null;
        let ?high = digit(coded[at]) else return null;
        let ?low = digit(coded[at + 1]) else return null;
        at += 2;
        high * 16 + low;
      };
      length += 1;
    };
    Text.decodeUtf8(Blob.fromArray(Array.tabulate<Nat8>(length, func index = plain[index])));
  };

  func digit(byte : Nat8) : ?Nat8 {
    if (byte >= 0x30 and byte <= 0x39) return ?(byte - 0x30);
    let small = byte | 0x20;
    if (small >= 0x61 and small <= 0x66) return ?(small - 0x57);
    null;
  };
};
