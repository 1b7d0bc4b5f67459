import type { Codec } from '../codec/index.ts';

/** Characters of text that stands for a Candid message; of longer ones the begin. */
const CHARACTERS_MAX = 1_024;
/** Bytes that are looked at. */
export const PREVIEW_BYTES_MAX = 4_096;

/**
 * Returns the first bytes of a Candid message as value text, else as hex; what was cut ends with `…`. `isBegin`: the
 * message had more bytes than these.
 */
export function candidPreview(codec: Pick<Codec, 'previewText'>, candid: Uint8Array, isBegin = false): string {
  const shown = candid.subarray(0, PREVIEW_BYTES_MAX);
  const isCut = isBegin || shown.length < candid.length;
  const text = codec.previewText(shown, CHARACTERS_MAX, isCut);
  return text ?? `${Buffer.from(shown).toString('hex')}${isCut ? '…' : ''}`;
}
