/// A website: the host hands HTTP requests to `http_request`, and sends what it returns.
///
/// `http_request` is a query: it is fast, and nothing it changes is kept. What is to be kept is done by
/// `http_request_update`, which the host calls when the query says `upgrade = ?true`.
import Array "mo:core/Array";
import Nat "mo:core/Nat";
import Principal "mo:core/Principal";
import Text "mo:core/Text";

import Assets "./Assets";
import Http "./Http";

persistent actor Website {
  public type Guest = { name : Text; message : Text };

  transient let guestsMax = 100;
  transient let charactersMax = 200;
  /// The streamed file: so many lines, so many of them in a piece.
  transient let linesMax = 20_000;
  transient let linesOfPiece = 1_000;

  /// The newest first.
  var guestbook : [Guest] = [];

  public query func http_request(request : Http.Request) : async Http.Response {
    let path = Http.path(request.url);
    if (request.method == "POST") {
      if (path == "/sign") return { ok("text/plain", "") with upgrade = ?true };
      return text(405, "this page takes no POST\n");
    };
    if (request.method != "GET" and request.method != "HEAD") return text(405, "use GET\n");
    switch path {
      case "/" html("Guestbook", form("sign") # list());
      case "/live" html("The same, by the JSON API", live());
      case "/lines.txt" {
        // The first piece at once, the others as the client takes them.
        let { body; token } = piece(0);
        let strategy = switch token {
          case (?token) ?#Callback({ callback = nextLines; token });
          case null null;
        };
        { ok("text/plain; charset=utf-8", "") with body; streaming_strategy = strategy };
      };
      case _ switch (Assets.find(path)) {
        case (?asset) {
          let headers = [("content-type", asset.contentType), ("cache-control", "max-age=60")];
          { ok("", "") with headers; body = asset.body };
        };
        case null text(404, "there is no page " # path # "\n");
      };
    };
  };

  public func http_request_update(request : Http.Request) : async Http.Response {
    let ?name = Http.formField(request.body, "name") else return text(400, "the form lacks a name\n");
    let ?message = Http.formField(request.body, "message") else return text(400, "the form lacks a message\n");
    if (not add(name, message)) return text(400, "write something, and not too much\n");
    // The browser asks for the page anew, so that reloading it does not sign again.
    { ok("text/plain", "") with status_code = 303 : Nat16; headers = [("location", "./")] };
  };

  /// The next piece of the file. It is a method like any other: the host calls it with the token that it was given.
  public query func nextLines(token : Http.Token) : async Http.Piece {
    piece(token.line);
  };

  // The same for programs, and for the page /live: by /query-json and /call-json.

  public query func guests() : async [Guest] {
    guestbook;
  };

  /// False: nothing was written, or too much.
  public func sign(name : Text, message : Text) : async Bool {
    add(name, message);
  };

  func add(name : Text, message : Text) : Bool {
    if (name == "" or message == "") return false;
    if (name.size() > charactersMax or message.size() > charactersMax) return false;
    let kept = Nat.min(guestbook.size(), guestsMax - 1);
    let before = guestbook;
    guestbook := Array.tabulate<Guest>(kept + 1, func at = if (at == 0) { { name; message } } else before[at - 1]);
    true;
  };

  func piece(first : Nat) : Http.Piece {
    var lines = "";
    var at = first;
    let end = Nat.min(first + linesOfPiece, linesMax);
    while (at < end) {
      at += 1;
      lines #= "line " # Nat.toText(at) # " of " # Nat.toText(linesMax) # ": all of it comes, piece by piece\n";
    };
    { body = Text.encodeUtf8(lines); token = if (at < linesMax) ?{ line = at } else null };
  };

  // Pages. Links are relative, so that the site works under /site/<ACTOR>/ as well as at a host name of its own.

  func html(title : Text, content : Text) : Http.Response {
    let page = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    # "<title>" # title # "</title><link rel=stylesheet href=style.css><link rel=icon href=logo.svg>"
    # "<body data-actor=" # Principal.toText(Principal.fromActor(Website)) # ">"
    # "<nav><img src=logo.svg alt=''><a href='./'>Guestbook</a><a href=live>Live</a><a href=lines.txt>A long file</a></nav>"
    # "<h1>" # title # "</h1>" # content # "</body></html>\n";
    ok("text/html; charset=utf-8", page);
  };

  func form(action : Text) : Text {
    "<form method=post action=" # action # "><input name=name placeholder='Your name' maxlength=200 required>"
    # "<input name=message placeholder='What you want to say' maxlength=200 required><button>Sign</button></form>";
  };

  func list() : Text {
    var items = "";
    for ({ name; message } in guestbook.vals()) {
      items #= "<li>" # Http.escape(name) # ": " # Http.escape(message) # "</li>";
    };
    "<ul id=guests>" # items # "</ul>";
  };

  func live() : Text {
    form("sign") # "<p id=status>…</p><ul id=guests></ul><script src=app.js></script>";
  };

  func ok(contentType : Text, body : Text) : Http.Response {
    {
      status_code = 200;
      headers = [("content-type", contentType)];
      body = Text.encodeUtf8(body);
      upgrade = null;
      streaming_strategy = null;
    };
  };

  func text(status : Nat16, body : Text) : Http.Response {
    { ok("text/plain; charset=utf-8", body) with status_code = status };
  };
};
