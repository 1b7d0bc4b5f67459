import { defineCapability } from '../../kernel/index.ts';

export type MethodKind = 'update' | 'query' | 'composite_query' | 'oneway';

export interface EncodingOptions {
  /** The encoding that keeps every Candid distinction (`?lossless=1`). */
  readonly lossless: boolean;
}

/**
 * Candid ↔ JSON for one tuple of types, compiled once. All errors are ServerErrors of kind `invalid` that name the place
 * (`args[0].owner: expected a principal`). Small input of ordinary types is converted at once; what is large may go to
 * another thread, so that this one goes on meanwhile.
 */
export interface AnySizeTuple {
  /** UTF-8 JSON text of an array, one element a value → a Candid message. */
  encodeAnySize(json: Uint8Array, options: EncodingOptions): Uint8Array | Promise<Uint8Array>;
  /** A Candid message (hostile input: checked against quotas) → UTF-8 JSON text of an array. */
  decodeAnySize(candid: Uint8Array, options: EncodingOptions): Uint8Array | Promise<Uint8Array>;
  /** Candid value text, `(42, record { a = 1 })`, in UTF-8 that nobody has checked → a Candid message. */
  encodeTextAnySize(utf8: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

/** The same at once, whatever it takes. */
export interface TupleCodec extends AnySizeTuple {
  encode(json: Uint8Array, options: EncodingOptions): Uint8Array;
  decode(candid: Uint8Array, options: EncodingOptions): Uint8Array;
  /** Longer text than `charactersMax` (1 MiB) is refused. */
  encodeText(text: string, charactersMax?: number): Uint8Array;
}

export interface MethodInterface<Tuple extends AnySizeTuple = AnySizeTuple> {
  readonly name: string;
  readonly kind: MethodKind;
  readonly args: Tuple;
  readonly results: Tuple;
}

/** A parsed .did: the service a canister offers. */
export interface CandidInterface<Tuple extends AnySizeTuple = AnySizeTuple> {
  readonly text: string;
  readonly methods: ReadonlyMap<string, MethodInterface<Tuple>>;
  /** Types of the init arguments, when the .did is a service constructor. */
  readonly initArgs: Tuple | undefined;
}

/** How large an interface may be; undefined: what the parser takes at most. */
export interface InterfaceBounds {
  /** Fields, tags, methods, parameters, `opt`s and `vec`s together. */
  readonly partsMax?: number | undefined;
}

/** An HTTP request as a website gets it. Texts have one character a byte (Latin-1), as node:http gives them. */
export interface WebsiteRequest {
  readonly method: string;
  readonly url: string;
  /** Names and values by turns. */
  readonly headers: readonly string[];
  readonly body: Uint8Array;
}

/** What a website answers; not checked for what HTTP allows. Texts have one character a byte. */
export interface WebsiteResponse {
  readonly status: number;
  /** Names and values by turns. */
  readonly headers: readonly string[];
  /** A part of the reply. */
  readonly body: Uint8Array;
  /** The request is to be repeated as an update. */
  readonly isUpgrade: boolean;
  /** Where the rest of the body is. */
  readonly streaming: WebsiteCallback | undefined;
}

/** The method that has more of a body. */
export interface WebsiteCallback {
  readonly canister: Uint8Array;
  readonly method: string;
  /** Its argument: a Candid message. */
  readonly token: Uint8Array;
}

export interface WebsiteChunk {
  readonly body: Uint8Array;
  /** The argument for the next one; undefined: this was the last. */
  readonly token: Uint8Array | undefined;
}

/** HTTP requests and answers as the Candid records of `http_request`. */
export interface WebsiteCodec {
  /** For `http_request`, or for `http_request_update`. Throws ServerError `invalid` for text that is not UTF-8. */
  encodeRequest(request: WebsiteRequest, isUpdate: boolean): Uint8Array;
  /** A reply is hostile input: bounded in time and memory. Throws ServerError `invalid`. */
  decodeResponse(reply: Uint8Array): WebsiteResponse;
  decodeChunk(reply: Uint8Array): WebsiteChunk;
}

/** Candid as text, as JSON and as bytes. Decoding anything from outside is bounded in time, depth and memory. */
export interface Codec {
  /** Parses .did text; `candidArgs` is the text of the init argument tuple if known apart (`icp:… candid:args`). Throws a ServerError `invalid` with line and column. */
  parseInterface(did: string, candidArgs?: string, bounds?: InterfaceBounds): CandidInterface<TupleCodec>;
  /** As `parseInterface`: at once for short text; long text goes to another thread, and very many types are used only there. */
  parseInterfaceAnySize(
    did: string,
    candidArgs?: string,
    bounds?: InterfaceBounds,
  ): CandidInterface | Promise<CandidInterface>;
  /** Candid value text, `(42 : nat8, record { a = 1 })`, whose types the text itself says → a Candid message. */
  encodeText(text: string): Uint8Array;
  /**
   * A Candid message → value text for logs and histories, at most `charactersMax` long; undefined when it is not Candid.
   * `isCut`: only the first bytes of the message are there; undefined too when they do not hold all of its types.
   */
  previewText(candid: Uint8Array, charactersMax: number, isCut?: boolean): string | undefined;
  /** The self-describing lossless encoding, for canisters without an interface. */
  readonly untyped: TupleCodec;
  readonly websites: WebsiteCodec;
}
export const Codec = defineCapability<Codec>('codec');
