/// The records in which an actor gets HTTP requests and answers them: the interface of `http_request`.
import Array "mo:core/Array";
import Blob "mo:core/Blob";
import Text "mo:core/Text";
import VarArray "mo:core/VarArray";

module {
  public type HeaderField = (Text, Text);

  public type Request = {
    method : Text;
    /// Path and query as the client sent them, percent-encoding and all.
    url : Text;
    headers : [HeaderField];
    body : Blob;
  };

  /// Where a streamed body goes on: whatever the actor likes, the host gives it back as it is.
  public type Token = { line : Nat };

  public type Response = {
    status_code : Nat16;
    headers : [HeaderField];
    body : Blob;
    /// ?true: "ask me again, as an update". Everything else of the answer is ignored then.
    upgrade : ?Bool;
    /// Where the rest of the body comes from.
    streaming_strategy : ?{ #Callback : { callback : shared query Token -> async Piece; token : Token } };
  };

  /// One more part of a body; a token says that there is another one.
  public type Piece = { body : Blob; token : ?Token };

  /// `/guests` of `/guests?page=2`.
  public func path(url : Text) : Text {
    switch (Text.split(url, #char '?').next()) { case (?path) path; case null url };
  };

  /// Text that a visitor sent, made harmless inside of HTML.
  public func escape(text : Text) : Text {
    Text.flatMap(
      text,
      func c = switch c {
        case '<' "&lt;";
        case '>' "&gt;";
        case '&' "&amp;";
        case '\"' "&quot;";
        case '\'' "&#39;";
        case _ Text.fromChar(c);
      },
    );
  };

  /// A field of a form: of `name=Ada&text=Hello+there`.
  public func formField(body : Blob, name : Text) : ?Text {
    let ?form = Text.decodeUtf8(body) else return null;
    for (pair in Text.split(form, #char '&')) {
      let ?value = Text.stripStart(pair, #text(name # "=")) else continue;
      return decode(value);
    };
    null;
  };

  /// `Hello+there%21` → `Hello there!`; null if it is not UTF-8.
  func decode(text : Text) : ?Text {
    let coded = Blob.toArray(Text.encodeUtf8(text));
    let plain = VarArray.repeat<Nat8>(0, coded.size());
    var length = 0;
    var at = 0;
    while (at < coded.size()) {
      let byte = coded[at];
      at += 1;
      plain[length] := switch byte {
        case 0x2b 0x20; // + is a blank
        case 0x25 {
          if (at + 2 > coded.size()) return null;
          let ?high = digit(coded[at]) else return null;
          let ?low = digit(coded[at + 1]) else return null;
          at += 2;
          high * 16 + low;
        };
        case _ byte;
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
