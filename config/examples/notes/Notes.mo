/// Shared notes: everyone has a notebook of their own, and can let others read single notes.
///
/// Worth copying from here: types that describe the interface, results as variants instead of traps, and a check of
/// the caller at the start of every method.
import Array "mo:core/Array";
import Blob "mo:core/Blob";
import Iter "mo:core/Iter";
import Map "mo:core/Map";
import Nat "mo:core/Nat";
import Principal "mo:core/Principal";
import Text "mo:core/Text";
import Time "mo:core/Time";

// A library beside this file: plain functions, no state. "./Check" finds Check.mo, or Check/lib.mo.
import Check "./Check";

persistent actor Notes {
  public type NoteId = Nat;

  /// A note as clients see it.
  public type Note = {
    id : NoteId;
    owner : Principal;
    title : Text;
    body : Text;
    tags : [Text];
    /// Any bytes, an image for example.
    attachment : ?Blob;
    /// Who may read the note besides its owner.
    readers : [Principal];
    /// Nanoseconds since 1970, as everywhere on the Internet Computer.
    createdAt : Time.Time;
    updatedAt : Time.Time;
  };

  /// What a client sends to make a note. A missing optional field is null.
  public type Draft = {
    title : Text;
    body : Text;
    tags : [Text];
    attachment : ?Blob;
  };

  /// Every way a request can fail that the caller may want to handle. A trap would lose the distinction.
  public type Error = {
    #anonymous;
    #notFound : NoteId;
    #forbidden;
    #invalid : { field : Text; reason : Text };
    #full : { notesMax : Nat };
  };

  public type Result<T> = { #ok : T; #err : Error };

  /// Bounds keep one caller from using up the actor's memory.
  transient let notesMaxPerOwner = 1_000;

  // The whole state. Both survive upgrades, because the actor is `persistent`.
  let notes = Map.empty<NoteId, Note>();
  var nextId : NoteId = 1;

  /// Makes a note. `caller` is who sent the message; it cannot be forged, so it is safe to decide by it.
  public shared ({ caller }) func create(draft : Draft) : async Result<Note> {
    if (caller.isAnonymous()) return #err(#anonymous);
    switch (Check.draft(draft)) {
      case (?problem) return #err(#invalid(problem));
      case null {};
    };
    if (countOf(caller) >= notesMaxPerOwner) return #err(#full({ notesMax = notesMaxPerOwner }));

    let now = Time.now();
    let note : Note = {
      draft with
      id = nextId;
      owner = caller;
      readers = [];
      createdAt = now;
      updatedAt = now;
    };
    Map.add(notes, Nat.compare, note.id, note);
    nextId += 1;
    #ok(note);
  };

  /// Replaces what the owner can edit; the rest stays.
  public shared ({ caller }) func update(id : NoteId, draft : Draft) : async Result<Note> {
    switch (Check.draft(draft)) {
      case (?problem) return #err(#invalid(problem));
      case null {};
    };
    change(caller, id, func(note) = { note with title = draft.title; body = draft.body; tags = draft.tags; attachment = draft.attachment });
  };

  /// Lets somebody read a note.
  public shared ({ caller }) func share(id : NoteId, reader : Principal) : async Result<Note> {
    change(
      caller,
      id,
      func(note) {
        if (Array.any<Principal>(note.readers, func(known) = known == reader)) return note;
        { note with readers = Array.concat(note.readers, [reader]) };
      },
    );
  };

  public shared ({ caller }) func delete(id : NoteId) : async Result<()> {
    switch (owned(caller, id)) {
      case (#err(error)) #err(error);
      case (#ok(_)) {
        Map.remove(notes, Nat.compare, id);
        #ok();
      };
    };
  };

  /// One note, if the caller may read it. Queries know their caller too.
  public shared query ({ caller }) func get(id : NoteId) : async Result<Note> {
    switch (Map.get(notes, Nat.compare, id)) {
      case null #err(#notFound(id));
      case (?note) if (mayRead(caller, note)) #ok(note) else #err(#forbidden);
    };
  };

  /// The notes the caller may read, newest last; with a word, only those that contain it in the title, the body or a tag.
  public shared query ({ caller }) func list(word : ?Text) : async [Note] {
    Map.values(notes)
    |> Iter.filter<Note>(_, func(note) = mayRead(caller, note) and matches(note, word))
    |> Iter.toArray(_);
  };

  /// What everyone may know.
  public query func stats() : async { notes : Nat; attachmentBytes : Nat } {
    var attachmentBytes = 0;
    for (note in Map.values(notes)) {
      switch (note.attachment) {
        case (?bytes) attachmentBytes += Blob.size(bytes);
        case null {};
      };
    };
    { notes = Map.size(notes); attachmentBytes };
  };

  // Below: private functions. They run inside the message that calls them.

  func mayRead(caller : Principal, note : Note) : Bool {
    note.owner == caller or Array.any<Principal>(note.readers, func(reader) = reader == caller);
  };

  /// The note, if the caller owns it. Somebody who may not even read it learns only that there is no such note.
  func owned(caller : Principal, id : NoteId) : Result<Note> {
    switch (Map.get(notes, Nat.compare, id)) {
      case (?note) {
        if (note.owner == caller) #ok(note) else if (mayRead(caller, note)) #err(#forbidden) else #err(#notFound(id));
      };
      case null #err(#notFound(id));
    };
  };

  func change(caller : Principal, id : NoteId, edit : Note -> Note) : Result<Note> {
    switch (owned(caller, id)) {
      case (#err(error)) #err(error);
      case (#ok(note)) {
        let changed = { edit(note) with updatedAt = Time.now() };
        Map.add(notes, Nat.compare, id, changed);
        #ok(changed);
      };
    };
  };

  func countOf(owner : Principal) : Nat {
    var count = 0;
    for (note in Map.values(notes)) if (note.owner == owner) count += 1;
    count;
  };

  func matches(note : Note, word : ?Text) : Bool {
    switch (word) {
      case null true;
      case (?some) {
        let pattern = #text(Text.toLower(some));
        let found = func(text : Text) : Bool = Text.contains(Text.toLower(text), pattern);
        found(note.title) or found(note.body) or Array.any<Text>(note.tags, found);
      };
    };
  };
};
