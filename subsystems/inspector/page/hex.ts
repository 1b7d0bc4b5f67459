/** Returns the bytes; undefined if the text is not pairs of hex digits, with blanks and `0x` as somebody likes. */
export function bytesOfHex(text: string): Uint8Array<ArrayBuffer> | undefined {
  const digits = text.replaceAll(/\s/g, '').replace(/^0x/i, '');
  if (!/^(?:[0-9a-f]{2})*$/i.test(digits)) return undefined;
  const bytes = new Uint8Array(digits.length / 2);
  for (let index = 0; index < bytes.length; index++) {
    bytes[index] = Number.parseInt(digits.slice(2 * index, 2 * index + 2), 16);
  }
  return bytes;
}
