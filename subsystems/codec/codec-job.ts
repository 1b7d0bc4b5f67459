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

/** What the main thread asks of the worker; the bytes are handed over, not shared. */
export interface CodecRequest {
  readonly target: CodecTarget;
  readonly direction: CodecDirection;
  readonly isLossless: boolean;
  readonly bytes: Uint8Array;
}

/** What the worker answers: the bytes, or an error's parts (an error object would lose its class on the way). */
export type CodecResponse =
  | { readonly bytes: Uint8Array }
  | { readonly code: string; readonly message: string }
  | { readonly bug: string };
