/// The contents of the files, in stable memory: pieces of one region, each written once and read as a whole or in part.
/// Room that is given back is used again, so that a site that is deployed every day does not grow.
import Map "mo:core/Map";
import Nat64 "mo:core/Nat64";
import Region "mo:core/Region";
import Runtime "mo:core/Runtime";

module {
  /// A place in the region.
  public type Piece = { offset : Nat64; size : Nat64 };

  public type Contents = {
    region : Region.Region;
    /// Bytes from the start that have been given out once.
    var end : Nat64;
    /// Free places below the end, by their offsets: no two of them touch.
    free : Map.Map<Nat64, Nat64>;
  };

  let pageBytes : Nat64 = 65_536;

  public func empty() : Contents {
    { region = Region.new(); var end = 0; free = Map.empty() };
  };

  /// Writes bytes to a place of their own. Traps when the region cannot grow: nothing has changed then.
  public func write(contents : Contents, bytes : Blob) : Piece {
    let size = Nat64.fromNat(bytes.size());
    if (size == 0) return { offset = 0; size };
    let offset = switch (take(contents, size)) {
      case (?offset) offset;
      case null {
        let offset = contents.end;
        let pages = (offset + size + pageBytes - 1) / pageBytes;
        let has = Region.size(contents.region);
        if (pages > has and Region.grow(contents.region, pages - has) == 0xffff_ffff_ffff_ffff) {
          Runtime.trap("the site is full: its files have 4 GiB of stable memory");
        };
        contents.end += size;
        offset;
      };
    };
    Region.storeBlob(contents.region, offset, bytes);
    { offset; size };
  };

  /// Bytes of a piece, from a place in it.
  public func read(contents : Contents, piece : Piece, from : Nat64, size : Nat64) : Blob {
    assert from + size <= piece.size;
    Region.loadBlob(contents.region, piece.offset + from, Nat64.toNat(size));
  };

  public func release(contents : Contents, piece : Piece) {
    if (piece.size == 0) return;
    var offset = piece.offset;
    var size = piece.size;
    switch (before(contents, offset)) {
      case (?(at, length)) {
        if (at + length == offset) {
          Map.remove(contents.free, Nat64.compare, at);
          offset := at;
          size += length;
        };
      };
      case null {};
    };
    let behind = offset + size;
    switch (Map.take(contents.free, Nat64.compare, behind)) {
      case (?length) size += length;
      case null {};
    };
    if (offset + size == contents.end) contents.end := offset else Map.add(contents.free, Nat64.compare, offset, size);
  };

  /// The first free place that is large enough.
  func take(contents : Contents, size : Nat64) : ?Nat64 {
    for ((offset, length) in Map.entries(contents.free)) {
      if (length >= size) {
        Map.remove(contents.free, Nat64.compare, offset);
        if (length > size) Map.add(contents.free, Nat64.compare, offset + size, length - size);
        return ?offset;
      };
    };
    null;
  };

  func before(contents : Contents, offset : Nat64) : ?(Nat64, Nat64) {
    Map.reverseEntriesFrom(contents.free, Nat64.compare, offset).next();
  };
};
