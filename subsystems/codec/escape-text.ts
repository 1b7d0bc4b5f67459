/** A text between quotes as .did files and Candid values have it, without control characters and without what breaks lines. */
export function escapeText(text: string): string {
  return text.replaceAll(/["\\\x00-\x1f\x7f-\x9f\u2028\u2029]/g, (character) => {
    const letter = { '"': '\\"', '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }[character];
    return letter ?? `\\u{${character.charCodeAt(0).toString(16)}}`;
  });
}
