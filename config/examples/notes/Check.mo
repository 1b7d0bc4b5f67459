/// Checks of what callers send. A module has no state: its functions depend on their arguments alone.
import Blob "mo:core/Blob";
import Text "mo:core/Text";

module {
  public type Problem = { field : Text; reason : Text };

  let titleCharactersMax = 100;
  let bodyCharactersMax = 10_000;
  let tagsMax = 10;
  let tagCharactersMax = 30;
  let attachmentBytesMax = 1_000_000;

  /// Null if the draft is fine. The argument may have more fields than are named here: a record with more fields is
  /// a subtype of one with fewer.
  public func draft(value : { title : Text; body : Text; tags : [Text]; attachment : ?Blob }) : ?Problem {
    if (Text.trim(value.title, #char ' ') == "") return ?{ field = "title"; reason = "is empty" };
    if (value.title.size() > titleCharactersMax) return tooLong("title", titleCharactersMax);
    if (value.body.size() > bodyCharactersMax) return tooLong("body", bodyCharactersMax);
    if (value.tags.size() > tagsMax) return ?{ field = "tags"; reason = "has more than " # debug_show tagsMax };
    for (tag in value.tags.vals()) {
      if (tag == "" or tag.size() > tagCharactersMax) {
        return ?{ field = "tags"; reason = "holds an empty or very long tag" };
      };
    };
    switch (value.attachment) {
      case (?bytes) if (Blob.size(bytes) > attachmentBytesMax) {
        return ?{ field = "attachment"; reason = "has more than " # debug_show attachmentBytesMax # " bytes" };
      };
      case null {};
    };
    null;
  };

  func tooLong(field : Text, charactersMax : Nat) : ?Problem {
    ?{ field; reason = "has more than " # debug_show charactersMax # " characters" };
  };
};
