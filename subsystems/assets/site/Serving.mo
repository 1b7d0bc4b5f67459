/// Answers to visitors: which file a path means, in which encoding, how much of it, and with which headers.
import Blob "mo:core/Blob";
import Iter "mo:core/Iter";
import List "mo:core/List";
import Map "mo:core/Map";
import Nat "mo:core/Nat";
import Nat64 "mo:core/Nat64";
import Runtime "mo:core/Runtime";
import Text "mo:core/Text";
import Contents "./Contents";
import Paths "./Paths";
import Redirects "./Redirects";
import Types "./Types";

module {
  public type Encoding = {
    name : Text;
    sha256 : Blob;
    length : Nat64;
    modified : Int;
    /// In their order.
    pieces : [Contents.Piece];
  };

  public type Asset = {
    contentType : Text;
    /// Those of `_headers`; they go before the headers that are put here.
    headers : [Types.HeaderField];
    encodings : [Encoding];
  };

  public type Site = {
    contents : Contents.Contents;
    assets : Map.Map<Text, Asset>;
    rules : [Redirects.Rule];
    /// Never served.
    redirectsKey : Text;
  };

  type Streamed = Types.Token -> ?Types.Strategy;
  type File = { key : Text; asset : Asset };

  public func respond(site : Site, request : Types.Request, streamed : Streamed) : Types.Response {
    if (request.method != "GET" and request.method != "HEAD") {
      return { text(405, "this site is read with GET and HEAD\n") with headers = [("allow", "GET, HEAD")] };
    };
    let ?(path, search) = Paths.split(request.url) else return text(400, "the address is not percent-encoded UTF-8\n");
    let serve = func(file : File, status : Nat16) : Types.Response = answer(site.contents, file, status, request, streamed);
    let follow = func({ status; to } : Redirects.Match) : Types.Response {
      if (status != 200 and status != 404) {
        return moved(status, Paths.relative(to, path) # (if (Text.contains(to, #char '?')) "" else search));
      };
      switch (find(site, Paths.before(to, '?'))) {
        case (?file) serve(file, status);
        case null text(404, "a rule of _redirects leads to " # to # ", which is not there\n");
      };
    };
    switch (Redirects.find(site.rules, path, true)) { case (?found) return follow(found); case null {} };
    switch (find(site, path)) { case (?file) return serve(file, 200); case null {} };
    // Relative links of the page need the slash.
    if (get(site, path # "/index.html") != null) return moved(308, "./" # Paths.encode(Paths.nameOf(path)) # "/" # search);
    switch (Redirects.find(site.rules, path, false)) { case (?found) return follow(found); case null {} };
    switch (get(site, "/404.html")) { case (?file) return serve(file, 404); case null {} };
    // Applications of one page show their own addresses by the history of the browser.
    if (isNavigation(request)) switch (get(site, "/index.html")) { case (?file) return serve(file, 200); case null {} };
    text(404, "there is no " # path # "\n");
  };

  /// The next bytes of a content, no further than `end` and the end of a piece.
  public func part(contents : Contents.Contents, encoding : Encoding, at : Nat64, end : Nat64) : Blob {
    var start : Nat64 = 0;
    for (piece in encoding.pieces.values()) {
      if (at < start + piece.size) {
        return Contents.read(contents, piece, at - start, Nat64.min(end, start + piece.size) - at);
      };
      start += piece.size;
    };
    "";
  };

  public func textOf(contents : Contents.Contents, encoding : Encoding) : Text {
    var text = "";
    var at : Nat64 = 0;
    while (at < encoding.length) {
      let bytes = part(contents, encoding, at, encoding.length);
      let ?more = Text.decodeUtf8(bytes) else Runtime.trap("_redirects is no UTF-8");
      text #= more;
      at += Nat64.fromNat(bytes.size());
    };
    text;
  };

  public func encodingOf(asset : Asset, name : Text) : ?Encoding {
    for (encoding in asset.encodings.values()) if (encoding.name == name) return ?encoding;
    null;
  };

  func get({ assets; redirectsKey } : Site, key : Text) : ?File {
    if (key == redirectsKey) return null;
    switch (Map.get(assets, Text.compare, key)) { case (?asset) ?{ key; asset }; case null null };
  };

  /// The file that a path means: itself, the page of a folder, a page without its `.html`, or a packed form by its name.
  func find(site : Site, path : Text) : ?File {
    if (Text.endsWith(path, #char '/')) return get(site, path # "index.html");
    switch (get(site, path)) { case null {}; case found return found };
    switch (get(site, path # ".html")) { case null {}; case found return found };
    for ((ending, name, contentType) in [(".gz", "gzip", "application/gzip"), (".br", "br", "application/octet-stream")].values()) {
      switch (Text.stripEnd(path, #text ending)) {
        case (?plain) switch (get(site, plain)) {
          case (?{ key; asset }) switch (encodingOf(asset, name)) {
            case (?encoding) return ?{ key; asset = { asset with contentType; encodings = [encoding] } };
            case null {};
          };
          case null {};
        };
        case null {};
      };
    };
    null;
  };

  func answer(
    contents : Contents.Contents,
    { key; asset } : File,
    status : Nat16,
    request : Types.Request,
    streamed : Streamed,
  ) : Types.Response {
    let range = if (status == 200) header(request, "range") else null;
    let ?encoding = chosen(asset, request, range != null) else return text(404, key # " has no content\n");
    let etag = "\"" # Paths.hex(encoding.sha256) # "\"";
    let headers = List.empty<Types.HeaderField>();
    for (field in asset.headers.values()) List.add(headers, field);
    let add = func(name : Text, value : Text) {
      for ((known, _) in asset.headers.values()) if (Text.toLower(known) == name) return;
      List.add(headers, (name, value));
    };
    add("content-type", asset.contentType);
    add("cache-control", "no-cache");
    add("etag", etag);
    if (asset.encodings.size() > 1) add("vary", "accept-encoding");
    // A packed form that is asked for by its own name is a file like any other.
    if (encoding.name != "identity" and asset.encodings.size() > 1) add("content-encoding", encoding.name);
    let empty = func(status : Nat16) : Types.Response = { text(status, "") with headers = List.toArray(headers) };

    if (status == 200 and meets(request, etag)) return empty(304);
    add("accept-ranges", "bytes");
    let whole : (Nat64, Nat64) = (0, encoding.length);
    let wanted = switch range {
      case (?range) if (ifRange(request, etag)) bounds(range, encoding.length) else #all;
      case null #all;
    };
    let (code, (from, end)) : (Nat16, (Nat64, Nat64)) = switch wanted {
      case (#all) (status, whole);
      case (#part bounds) (206, bounds);
      case (#none) {
        List.add(headers, ("content-range", "bytes */" # Nat64.toText(encoding.length)));
        return empty(416);
      };
    };
    if (code == 206) {
      let last = Nat64.toText(end - 1);
      List.add(headers, ("content-range", "bytes " # Nat64.toText(from) # "-" # last # "/" # Nat64.toText(encoding.length)));
    };
    if (request.method == "HEAD") return empty(code);
    let body = part(contents, encoding, from, end);
    let at = from + Nat64.fromNat(body.size());
    let token = { key; content_encoding = encoding.name; sha256 = encoding.sha256; at; end };
    { empty(code) with body; streaming_strategy = if (at < end) streamed(token) else null };
  };

  /// Ranges are of the plain bytes, where there are plain ones.
  func chosen(asset : Asset, request : Types.Request, isPlain : Bool) : ?Encoding {
    if (asset.encodings.size() == 1) return ?asset.encodings[0];
    if (not isPlain) {
      for (name in ["br", "gzip"].values()) {
        if (accepts(request, name)) switch (encodingOf(asset, name)) { case null {}; case found return found };
      };
    };
    encodingOf(asset, "identity");
  };

  func accepts(request : Types.Request, name : Text) : Bool {
    let ?accepted = header(request, "accept-encoding") else return false;
    var result = false;
    for (each in Text.split(accepted, #char ',')) {
      let parts = Iter.toArray(Iter.map<Text, Text>(Text.split(each, #char ';'), func part = Text.trim(part, #char ' ')));
      if (parts.size() > 0 and Text.toLower(parts[0]) == name) {
        result := true;
        for (part in parts.values()) {
          // q=0, q=0.000
          switch (Text.stripStart(Text.toLower(part), #text "q=0")) {
            case (?rest) if (Text.trim(rest, #predicate(func c = c == '.' or c == '0')) == "") result := false;
            case null {};
          };
        };
      };
    };
    result;
  };

  /// True if the client has this content already.
  func meets(request : Types.Request, etag : Text) : Bool {
    let ?known = header(request, "if-none-match") else return false;
    for (each in Text.split(known, #char ',')) {
      let tag = Text.trim(each, #char ' ');
      if (tag == "*" or tag == etag or tag == "W/" # etag) return true;
    };
    false;
  };

  /// True unless the range is wanted of another content than this.
  func ifRange(request : Types.Request, etag : Text) : Bool {
    switch (header(request, "if-range")) { case (?tag) tag == etag; case null true };
  };

  /// One range; several, and what is no range, are answered with the whole (RFC 9110, 14.2).
  func bounds(range : Text, length : Nat64) : { #all; #part : (Nat64, Nat64); #none } {
    let ?spec = Text.stripStart(Text.toLower(range), #text "bytes=") else return #all;
    let parts = Iter.toArray(Text.split(spec, #char '-'));
    if (parts.size() != 2) return #all;
    let first = number(parts[0]);
    let last = number(parts[1]);
    switch (first, last) {
      case (?first, null) {
        if (parts[1] != "") return #all;
        if (first < length) #part(first, length) else #none;
      };
      case (?first, ?last) {
        if (last < first) return #all;
        if (first < length) #part(first, Nat64.min(last, length - 1) + 1) else #none;
      };
      case (null, ?count) {
        if (parts[0] != "") return #all;
        if (count == 0 or length == 0) return #none;
        #part(length - Nat64.min(count, length), length);
      };
      case _ #all;
    };
  };

  /// Digits; as many as no file has bytes for are as good as any more.
  func number(text : Text) : ?Nat64 {
    let trimmed = Text.trim(text, #char ' ');
    if (trimmed == "") return null;
    for (character in trimmed.chars()) if (character < '0' or character > '9') return null;
    if (trimmed.size() > 15) return ?999_999_999_999_999;
    switch (Nat.fromText(trimmed)) { case (?number) ?Nat64.fromNat(number); case null null };
  };

  /// A browser that goes to a page, not a script or a picture that a page asks for.
  func isNavigation(request : Types.Request) : Bool {
    switch (header(request, "sec-fetch-mode")) { case (?mode) return mode == "navigate"; case null {} };
    switch (header(request, "accept")) { case (?types) Text.contains(types, #text "text/html"); case null false };
  };

  func header(request : Types.Request, name : Text) : ?Text {
    for ((known, value) in request.headers.values()) if (Text.toLower(known) == name) return ?value;
    null;
  };

  func moved(status : Nat16, location : Text) : Types.Response {
    { text(status, "") with headers = [("location", location)] };
  };

  func text(status : Nat16, body : Text) : Types.Response {
    {
      status_code = status;
      headers = [("content-type", "text/plain; charset=utf-8")];
      body = Text.encodeUtf8(body);
      streaming_strategy = null;
    };
  };
};
