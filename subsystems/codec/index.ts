import { defineCapability } from '../../kernel/index.ts';

export type MethodKind = 'update' | 'query' | 'composite_query' | 'oneway';

export interface EncodingOptions {
  /** True for the encoding that keeps every Candid distinction (`?lossless=1`). */
  readonly lossless: boolean;
}

/**
 * Candid ↔ JSON for one tuple of types, compiled once. All errors are ServerErrors of kind `invalid` that name the
 * place (`args[0].owner: expected a principal`). Small input of ordinary types is converted at once; large input may go
 * to another thread, so that this one can go on.
 */
export interface AnySizeTuple {
  /** Encodes UTF-8 JSON text of an array, with one element for each value, as a Candid message. */
  encodeAnySize(json: Uint8Array, options: EncodingOptions): Uint8Array | Promise<Uint8Array>;
  /** Decodes a Candid message (hostile input: checked against quotas) to UTF-8 JSON text of an array. */
  decodeAnySize(candid: Uint8Array, options: EncodingOptions): Uint8Array | Promise<Uint8Array>;
  /** Encodes Candid value text, `(42, record { a = 1 })`, in unchecked UTF-8, as a Candid message. */
  encodeTextAnySize(utf8: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

/** The same conversions, at once and on this thread for any input. */
export interface TupleCodec extends AnySizeTuple {
  encode(json: Uint8Array, options: EncodingOptions): Uint8Array;
  decode(candid: Uint8Array, options: EncodingOptions): Uint8Array;
  /** Encodes Candid value text. Text longer than `charactersMax` (1 MiB) is refused. */
  encodeText(text: string, charactersMax?: number): Uint8Array;
}

export interface MethodInterface<Tuple extends AnySizeTuple = AnySizeTuple> {
  readonly name: string;
  readonly kind: MethodKind;
  readonly args: Tuple;
  readonly results: Tuple;
}

/** A parsed .did: the service that a canister offers. */
export interface CandidInterface<Tuple extends AnySizeTuple = AnySizeTuple> {
  readonly text: string;
  readonly methods: ReadonlyMap<string, MethodInterface<Tuple>>;
  /** Types of the init arguments, if the .did is a service constructor. */
  readonly initArgs: Tuple | undefined;
}

/** Limits on an interface; undefined: the parser's own limits. */
export interface InterfaceBounds {
  /** Fields, tags, methods, parameters, `opt`s and `vec`s together. */
  readonly partsMax?: number | undefined;
}

/** An HTTP request for a website. Texts have one character for each byte (Latin-1), as in node:http. */
export interface WebsiteRequest {
  readonly method: string;
  readonly url: string;
  /** Alternating names and values. */
  readonly headers: readonly string[];
  readonly body: Uint8Array;
}

/** A website's response, not checked against the rules of HTTP. Texts have one character for each byte. */
export interface WebsiteResponse {
  readonly status: number;
  /** Alternating names and values. */
  readonly headers: readonly string[];
  /** The body, a part of the reply's buffer. */
  readonly body: Uint8Array;
  /** True if the request is to be repeated as an update. */
  readonly isUpgrade: boolean;
  /** Callback for the rest of the body. */
  readonly streaming: WebsiteCallback | undefined;
}

/** A method that returns the next part of a body. */
export interface WebsiteCallback {
  readonly canister: Uint8Array;
  readonly method: string;
  /** Argument of the method: a Candid message. */
  readonly token: Uint8Array;
}

export interface WebsiteChunk {
  readonly body: Uint8Array;
  /** Argument for the next part; undefined: this was the last part. */
  readonly token: Uint8Array | undefined;
}

/** HTTP requests and responses as the Candid records of `http_request`. */
export interface WebsiteCodec {
  /**
   * Encodes the argument of `http_request`, or of `http_request_update`. Throws ServerError `invalid` for text that is
   * not UTF-8.
   */
  encodeRequest(request: WebsiteRequest, isUpdate: boolean): Uint8Array;
  /** Decodes a reply, which is hostile input: limited in time and memory. Throws ServerError `invalid`. */
  decodeResponse(reply: Uint8Array): WebsiteResponse;
  decodeChunk(reply: Uint8Array): WebsiteChunk;
}

/**
 * Conversions of Candid between text, JSON and bytes. Decoding input from outside is limited in time, depth and memory.
 */
export interface Codec {
  /**
   * Parses .did text; `candidArgs` is the text of the init argument tuple if it is known separately (`icp:…
   * candid:args`). Throws a ServerError `invalid` with line and column.
   */
  parseInterface(did: string, candidArgs?: string, bounds?: InterfaceBounds): CandidInterface<TupleCodec>;
  /**
   * Parses like `parseInterface`: short text at once, long text in another thread; if there are very many types, they
   * are used only there.
   */
  parseInterfaceAnySize(
    did: string,
    candidArgs?: string,
    bounds?: InterfaceBounds,
  ): CandidInterface | Promise<CandidInterface>;
  /** Encodes Candid value text, `(42 : nat8, record { a = 1 })`, with the types that the text itself states. */
  encodeText(text: string): Uint8Array;
  /**
   * Returns a Candid message as value text for logs and histories, at most `charactersMax` long; undefined if it is not
   * Candid. `isCut`: only the first bytes of the message are there; undefined also if they do not hold all of its
   * types.
   */
  previewText(candid: Uint8Array, charactersMax: number, isCut?: boolean): string | undefined;
  /** The self-describing lossless encoding, for canisters without an interface. */
  readonly untyped: TupleCodec;
  readonly websites: WebsiteCodec;
}
export const Codec = defineCapability<Codec>('codec');
