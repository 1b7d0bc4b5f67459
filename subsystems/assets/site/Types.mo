/// The interface of the Internet Computer's asset canister, as far as this one has it, and the records of websites.
module {
  public type HeaderField = (Text, Text);
  public type BatchId = Nat;
  public type ChunkId = Nat;

  public type CreateAsset = { key : Text; content_type : Text; headers : ?[HeaderField] };
  public type SetAssetContent = {
    key : Text;
    /// `identity`, `gzip` or `br`.
    content_encoding : Text;
    chunk_ids : [ChunkId];
    sha256 : ?Blob;
  };
  public type Operation = {
    #CreateAsset : CreateAsset;
    #SetAssetContent : SetAssetContent;
    #UnsetAssetContent : { key : Text; content_encoding : Text };
    #SetAssetProperties : { key : Text; headers : ??[HeaderField] };
    #DeleteAsset : { key : Text };
    #Clear : {};
  };

  public type ListedEncoding = { content_encoding : Text; sha256 : ?Blob; length : Nat; modified : Int };
  public type Listed = {
    key : Text;
    content_type : Text;
    /// Null where the interface comes from: there they have a method of their own.
    headers : ?[HeaderField];
    encodings : [ListedEncoding];
  };

  public type Request = { method : Text; url : Text; headers : [HeaderField]; body : Blob };
  /// Where a body goes on: the file as it was when the answer began, and the bytes that are left.
  public type Token = { key : Text; content_encoding : Text; sha256 : Blob; at : Nat64; end : Nat64 };
  public type Part = { body : Blob; token : ?Token };
  public type Strategy = { #Callback : { callback : shared query Token -> async Part; token : Token } };
  public type Response = {
    status_code : Nat16;
    headers : [HeaderField];
    body : Blob;
    streaming_strategy : ?Strategy;
  };
};
