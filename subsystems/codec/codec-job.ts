import type { FlatInterface } from './flat-interface.ts';

/** Which tuple of types a conversion is for; the worker compiles it from the interface's text. */
export type CodecTarget =
  | { readonly kind: 'untyped' }
  | {
      readonly kind: 'typed';
      readonly did: string;
      readonly candidArgs: string | undefined;
      /** The init arguments when there is no method. */
      readonly method: string | undefined;
      readonly part: 'args' | 'results';
    };

/** `encodeText`: Candid value text; the others are between JSON and Candid. */
export type CodecDirection = 'encode' | 'decode' | 'encodeText';

/** A body to be converted; its bytes are handed over, not shared. */
export interface ConversionRequest {
  readonly target: CodecTarget;
  readonly direction: CodecDirection;
  readonly isLossless: boolean;
  readonly bytes: Uint8Array;
}

/** An interface to be parsed. */
export interface ParseRequest {
  readonly did: string;
  readonly candidArgs: string | undefined;
  readonly partsMax: number | undefined;
}

/** What the main thread asks of the worker: converted bytes, or a FlatInterface. */
export type CodecRequest = ConversionRequest | ParseRequest;
export type CodecResult = Uint8Array | FlatInterface;
