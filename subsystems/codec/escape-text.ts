/**
 * Returns a text as written between quotes in .did files and Candid values, without control characters and line breaks.
 */
export function escapeText(text: string): string {
  return text.replaceAll(/["\\\x00-\x1f\x7f-\x9f\u2028\u2029]/g, (character) => {
    const letter = { '"': '\\"', '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }[character];
    return letter ?? `\\u{${character.charCodeAt(0).toString(16)}}`;
  });
}
