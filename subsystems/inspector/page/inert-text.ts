/**
 * Makes texts of actors harmless to look at. Text nodes prevent markup; this file handles characters that are
 * invisible, move other characters, or would be obeyed by a terminal into which somebody pastes them.
 */

/** Names of the C0 characters, by code. */
const NAMES =
  'NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US'.split(
    ' ',
  );

/**
 * Matches C0, DEL, C1, direction marks, zero-width characters and line separators, letters without ink, lone
 * surrogates.
 */
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb]|\u034f|\p{Surrogate}|[\u{e0000}-\u{e007f}]/gu;

/**
 * Returns the text with `⟨ESC⟩` in place of each character without a visible form; line feeds and tabs stay if
 * `hasLines` is true.
 */
export function inertText(text: string, { hasLines = false }: { readonly hasLines?: boolean } = {}): string {
  return text.replaceAll(HIDDEN, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (hasLines && (character === '\n' || character === '\t')) return character;
    // The pictures from U+2400 on are missing in most fonts.
    if (code < 0x20) return `\u27e8${NAMES[code]}\u27e9`;
    if (code === 0x7f) return '\u27e8DEL\u27e9';
    if (code >= 0xd800 && code <= 0xdfff) return '\ufffd';
    return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, '0')}\u27e9`;
  });
}

/** Cuts the text to `charactersMax` characters, for places with little room; an ellipsis shows the cut. */
export function shortText(text: string, charactersMax: number): string {
  return text.length > charactersMax ? `${text.slice(0, charactersMax)}…` : text;
}
