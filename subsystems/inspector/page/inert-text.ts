/**
 * Text of actors, made harmless to look at. That it is no markup is what text nodes are for; this is about characters
 * that are not seen, move what is seen, or would be obeyed by a terminal into which somebody copies them.
 */

/** C0, by code. */
const NAMES =
  'NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US'.split(
    ' ',
  );

/** C0, DEL, C1, marks of direction, zero width and line separators, letters without ink, lone surrogates. */
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb]|\u034f|\p{Surrogate}|[\u{e0000}-\u{e007f}]/gu;

/** The text with `⟨ESC⟩` for each character that has no sign of its own; line feeds and tabs stay if it may have lines. */
export function inertText(text: string, { hasLines = false }: { readonly hasLines?: boolean } = {}): string {
  return text.replaceAll(HIDDEN, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (hasLines && (character === '\n' || character === '\t')) return character;
    // Not U+2400 and following: few fonts have those.
    if (code < 0x20) return `\u27e8${NAMES[code]}\u27e9`;
    if (code === 0x7f) return '\u27e8DEL\u27e9';
    if (code >= 0xd800 && code <= 0xdfff) return '\ufffd';
    return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, '0')}\u27e9`;
  });
}

/** At most so many characters of it, for places that have no room; the end says that there was more. */
export function shortText(text: string, charactersMax: number): string {
  return text.length > charactersMax ? `${text.slice(0, charactersMax)}…` : text;
}
