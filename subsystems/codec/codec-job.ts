import type { FlatInterface } from './flat-interface.ts';

/** Tuple of types for a conversion; the worker compiles it from the interface's text. */
export type CodecTarget =
  | { readonly kind: 'untyped' }
  | {
      readonly kind: 'typed';
      readonly did: string;
      readonly candidArgs: string | undefined;
      /** Name of the method; undefined: the init arguments. */
      readonly method: string | undefined;
      readonly part: 'args' | 'results';
    };

/** Direction of a conversion. `encodeText` is from Candid text to Candid; the others are between JSON and Candid. */
export type CodecDirection = 'encode' | 'decode' | 'encodeText';

/** A body to be converted; its bytes are transferred, not shared. */
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

/** An interface whose types are to be told as JSON (description/type-table.ts). */
export interface TableRequest {
  readonly described: string;
  readonly initText: string | undefined;
}

/** Requests of the main thread to the worker, answered by converted bytes or a FlatInterface. */
export type CodecRequest = ConversionRequest | ParseRequest | TableRequest;
export type CodecResult = Uint8Array | FlatInterface;
