/// A journal for each user. The server proves who calls (`docs/jwt.md`), and the actor keeps apart what they wrote.
import Array "mo:core/Array";
import List "mo:core/List";
import Map "mo:core/Map";
import Principal "mo:core/Principal";
import Runtime "mo:core/Runtime";
import Text "mo:core/Text";
import Time "mo:core/Time";

persistent actor Journal {
  public type Entry = {
    text : Text;
    /// Nanoseconds since 1970.
    writtenAt : Time.Time;
  };

  /// Bounds keep one user from using up the actor's memory.
  transient let charactersMax = 1_000;
  transient let entriesMax = 1_000;

  let journals = Map.empty<Principal, List.List<Entry>>();

  /// The caller's principal.
  public query ({ caller }) func whoami() : async Principal { caller };

  /// Appends to the caller's journal.
  public shared ({ caller }) func write(text : Text) : async () {
    // Whoever calls without a proof is anonymous.
    if (Principal.isAnonymous(caller)) Runtime.trap("log in first");
    if (text.size() == 0 or text.size() > charactersMax) Runtime.trap("an entry has 1 to 1,000 characters");
    let journal = switch (Map.get(journals, Principal.compare, caller)) {
      case (?known) known;
      case null {
        let fresh = List.empty<Entry>();
        Map.add(journals, Principal.compare, caller, fresh);
        fresh;
      };
    };
    if (List.size(journal) >= entriesMax) Runtime.trap("the journal is full");
    List.add(journal, { text; writtenAt = Time.now() });
  };

  /// The caller's journal, the newest entry first.
  public query ({ caller }) func entries() : async [Entry] {
    switch (Map.get(journals, Principal.compare, caller)) {
      case (?journal) Array.reverse(List.toArray(journal));
      case null [];
    };
  };
};
