/**
 * Escapes text from outside (names of methods, texts of actors and files), so that it forges no log line and no
 * terminal command.
 */

// The last ranges change the direction of the text after them: a line would show other words than it has.
const UNPRINTABLE = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;
const UNPRINTABLES = new RegExp(UNPRINTABLE.source, 'g');
/** The subset of these characters that `JSON.stringify` does not escape. */
const UNPRINTABLE_IN_JSON = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

/**
 * Returns JSON text in which characters that a terminal might take for a command are escaped; its meaning is unchanged.
 */
export function inert(json: string): string {
  return UNPRINTABLE_IN_JSON.test(json) ? printable(json) : json;
}

/** Returns the text as a single line, whatever it contains. */
export function singleLine(text: string): string {
  return UNPRINTABLE.test(text) ? printable(text) : text;
}

/** Returns the text with later lines indented, so that none looks like a separate log line. */
export function indented(text: string): string {
  return text.split('\n').map(printable).join('\n  ');
}

function printable(text: string): string {
  return text.replace(UNPRINTABLES, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
