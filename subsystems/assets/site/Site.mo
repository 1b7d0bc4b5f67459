/// The website of a folder: `"assets": "dist"` in the manifest, with no `main` beside it.
///
/// The host puts the files here with the methods of the Internet Computer's asset canister: it opens a batch, sends
/// contents in chunks, and commits operations. Only a commit changes what visitors get, all at once. Contents are in
/// stable memory (Contents.mo), what is known of them in the heap.
import Array "mo:core/Array";
import Blob "mo:core/Blob";
import Iter "mo:core/Iter";
import List "mo:core/List";
import Map "mo:core/Map";
import Nat "mo:core/Nat";
import Nat64 "mo:core/Nat64";
import Principal "mo:core/Principal";
import Runtime "mo:core/Runtime";
import Text "mo:core/Text";
import Time "mo:core/Time";
import Contents "./Contents";
import Redirects "./Redirects";
import Serving "./Serving";
import Types "./Types";

persistent actor Site {
  /// The rules of the file `_redirects`, which is never served.
  transient let redirectsKey = "/_redirects";

  let contents = Contents.empty();
  let assets = Map.empty<Text, Serving.Asset>();
  /// Chunks of the open batch.
  let staged = Map.empty<Types.ChunkId, Contents.Piece>();
  var batch : Types.BatchId = 0;
  var chunks : Types.ChunkId = 0;
  var rules : [Redirects.Rule] = [];

  /// Opens a batch. There is one at a time: chunks of an earlier one that was not committed are dropped.
  public shared ({ caller }) func create_batch({}) : async { batch_id : Types.BatchId } {
    refuseUnlessController(caller);
    for (piece in Map.values(staged)) Contents.release(contents, piece);
    Map.clear(staged);
    batch += 1;
    { batch_id = batch };
  };

  public shared ({ caller }) func create_chunk({ batch_id : Types.BatchId; content : Blob }) : async { chunk_id : Types.ChunkId } {
    refuseUnlessOpen(caller, batch_id);
    { chunk_id = stage(content) };
  };

  public shared ({ caller }) func create_chunks({ batch_id : Types.BatchId; content : [Blob] }) : async {
    chunk_ids : [Types.ChunkId];
  } {
    refuseUnlessOpen(caller, batch_id);
    { chunk_ids = Array.map<Blob, Types.ChunkId>(content, stage) };
  };

  /// Does all of the operations, in their order, or none of them.
  public shared ({ caller }) func commit_batch({ batch_id : Types.BatchId; operations : [Types.Operation] }) : async () {
    refuseUnlessOpen(caller, batch_id);
    for (operation in operations.values()) apply(operation);
    for (piece in Map.values(staged)) Contents.release(contents, piece);
    Map.clear(staged);
    batch += 1;
    rules := currentRules();
  };

  /// Files in the order of their keys: `length` of them from number `start` on.
  public query func list({ start : ?Nat; length : ?Nat }) : async [Types.Listed] {
    let first = switch start { case (?first) first; case null 0 };
    let listed = Iter.drop(Map.entries(assets), first);
    let part = switch length { case (?length) Iter.take(listed, length); case null listed };
    Iter.toArray(
      Iter.map<(Text, Serving.Asset), Types.Listed>(
        part,
        func((key, { contentType; headers; encodings })) = {
          key;
          content_type = contentType;
          headers = ?headers;
          encodings = Array.map<Serving.Encoding, Types.ListedEncoding>(
            encodings,
            func({ name; sha256; length; modified }) = {
              content_encoding = name;
              sha256 = ?sha256;
              length = Nat64.toNat(length);
              modified;
            },
          );
        },
      )
    );
  };

  public query func http_request(request : Types.Request) : async Types.Response {
    let site = { contents; assets; rules; redirectsKey };
    Serving.respond(site, request, func token = ?#Callback { callback = http_request_streaming_callback; token });
  };

  /// The next part of a body. Traps if the file is another one by now: a client must not take a mixture for a file.
  public query func http_request_streaming_callback(token : Types.Token) : async Types.Part {
    let ?asset = Map.get(assets, Text.compare, token.key) else Runtime.trap(token.key # " is gone");
    let ?encoding = Serving.encodingOf(asset, token.content_encoding) else Runtime.trap(token.key # " is gone");
    if (encoding.sha256 != token.sha256) Runtime.trap(token.key # " has changed");
    let body = Serving.part(contents, encoding, token.at, token.end);
    let at = token.at + Nat64.fromNat(body.size());
    { body; token = if (at < token.end) ?{ token with at } else null };
  };

  func refuseUnlessController(caller : Principal) {
    if (not Principal.isController(caller)) Runtime.trap(Principal.toText(caller) # " may not change this site: it is no controller");
  };

  func refuseUnlessOpen(caller : Principal, id : Types.BatchId) {
    refuseUnlessController(caller);
    if (id != batch) Runtime.trap("batch " # Nat.toText(id) # " is not open: another one has begun");
  };

  func stage(content : Blob) : Types.ChunkId {
    chunks += 1;
    Map.add(staged, Nat.compare, chunks, Contents.write(contents, content));
    chunks;
  };

  func apply(operation : Types.Operation) {
    switch operation {
      case (#CreateAsset { key; content_type; headers }) {
        if (Map.containsKey(assets, Text.compare, key)) Runtime.trap(key # " is there already");
        put(key, { contentType = content_type; headers = orNone(headers); encodings = [] });
      };
      case (#SetAssetContent { key; content_encoding; chunk_ids; sha256 = ?sha256 }) {
        let asset = without(key, content_encoding);
        let pieces = Array.map<Types.ChunkId, Contents.Piece>(
          chunk_ids,
          func id = switch (Map.take(staged, Nat.compare, id)) {
            case (?piece) piece;
            case null Runtime.trap("there is no chunk " # Nat.toText(id));
          },
        );
        var length : Nat64 = 0;
        for ({ size } in pieces.values()) length += size;
        let encoding = { name = content_encoding; sha256; length; modified = Time.now(); pieces };
        put(key, { asset with encodings = Array.concat(asset.encodings, [encoding]) });
      };
      case (#SetAssetContent { key }) Runtime.trap("the content of " # key # " comes without its sha256");
      case (#UnsetAssetContent { key; content_encoding }) put(key, without(key, content_encoding));
      case (#SetAssetProperties { key; headers }) switch headers {
        case (?headers) put(key, { known(key) with headers = orNone(headers) });
        case null {};
      };
      case (#DeleteAsset { key }) {
        for (encoding in known(key).encodings.values()) drop(encoding);
        Map.remove(assets, Text.compare, key);
      };
      case (#Clear {}) {
        for (asset in Map.values(assets)) for (encoding in asset.encodings.values()) drop(encoding);
        Map.clear(assets);
      };
    };
  };

  func currentRules() : [Redirects.Rule] {
    let ?asset = Map.get(assets, Text.compare, redirectsKey) else return [];
    let ?encoding = Serving.encodingOf(asset, "identity") else return [];
    Redirects.parse(Serving.textOf(contents, encoding));
  };

  func orNone(headers : ?[Types.HeaderField]) : [Types.HeaderField] {
    switch headers { case (?headers) headers; case null [] };
  };

  func put(key : Text, asset : Serving.Asset) = Map.add(assets, Text.compare, key, asset);

  func known(key : Text) : Serving.Asset {
    switch (Map.get(assets, Text.compare, key)) {
      case (?asset) asset;
      case null Runtime.trap("there is no file " # key);
    };
  };

  /// An asset less one encoding, whose room is given back.
  func without(key : Text, name : Text) : Serving.Asset {
    let asset = known(key);
    let kept = List.empty<Serving.Encoding>();
    for (encoding in asset.encodings.values()) {
      if (encoding.name == name) drop(encoding) else List.add(kept, encoding);
    };
    { asset with encodings = List.toArray(kept) };
  };

  func drop({ pieces } : Serving.Encoding) {
    for (piece in pieces.values()) Contents.release(contents, piece);
  };
};
