/// Fetches JSON documents from other servers and keeps them: a request to the outside, and a query that tidies the response.
///
/// Worth copying from here: the type of `http_request`, a transform that keeps only what is needed, and what to do when the
/// other server does not answer.
import Blob "mo:core/Blob";
import Error "mo:core/Error";
import Map "mo:core/Map";
import Nat "mo:core/Nat";
import Text "mo:core/Text";
import Time "mo:core/Time";

persistent actor Fetcher {
  public type Header = { name : Text; value : Text };
  public type Response = { status : Nat; headers : [Header]; body : Blob };
  public type TransformArgs = { response : Response; context : Blob };

  /// The management canister, as far as it is used here.
  transient let management = actor "aaaaa-aa" : actor {
    http_request : ({
      url : Text;
      max_response_bytes : ?Nat64;
      method : { #get; #head; #post; #put; #delete; #patch };
      headers : [Header];
      body : ?Blob;
      transform : ?{
        function : shared query TransformArgs -> async Response;
        context : Blob;
      };
      is_replicated : ?Bool;
    }) -> async Response;
  };

  public type Document = { json : Text; fetchedAt : Time.Time };

  public type Result = {
    #ok : Document;
    /// The other server answered, but not with the document.
    #status : Nat;
    #notText;
    /// It did not answer in time, or not at all. Asking again may help.
    #failed : Text;
  };

  /// What one document may have. The host refuses more before it has read it.
  transient let documentBytesMax : Nat64 = 100_000;
  /// Bounds keep callers from using up the actor's memory.
  transient let documentsMax = 1_000;

  let documents = Map.empty<Text, Document>();

  /// Fetches the document at this URL and keeps it. What was kept before stays unless a new one came.
  public func fetch(url : Text) : async Result {
    let response = try {
      await management.http_request({
        url;
        max_response_bytes = ?documentBytesMax;
        method = #get;
        headers = [{ name = "accept"; value = "application/json" }];
        body = null;
        transform = ?{ function = tidy; context = "" };
        is_replicated = ?false;
      });
    } catch (error) return #failed(Error.message(error));
    if (response.status != 200) return #status(response.status);
    // Other messages may have run during the await: state is looked at after it.
    let ?json = Text.decodeUtf8(response.body) else return #notText;
    if (Map.size(documents) >= documentsMax and not Map.containsKey(documents, Text.compare, url)) return #failed("full");
    let document = { json; fetchedAt = Time.now() };
    Map.add(documents, Text.compare, url, document);
    #ok(document);
  };

  /// Runs on what came, before `fetch` goes on: headers such as the date are dropped.
  public query func tidy({ response } : TransformArgs) : async Response {
    { response with headers = [] };
  };

  public query func get(url : Text) : async ?Document {
    Map.get(documents, Text.compare, url);
  };

  public query func count() : async Nat {
    Map.size(documents);
  };
};
