/** Names of methods, texts of actors and of files come from outside: printed, they forge no line and drive no terminal. */

// The last ones turn the direction of what follows: a line would show other words than it has.
const UNPRINTABLE = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;
const UNPRINTABLES = new RegExp(UNPRINTABLE.source, 'g');
/** What of that JSON leaves as it is. */
const UNPRINTABLE_IN_JSON = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

/** JSON text with all that a terminal might take for a command escaped; it means the same. */
export function inert(json: string): string {
  return UNPRINTABLE_IN_JSON.test(json) ? printable(json) : json;
}

/** One line, whatever was in the text. */
export function singleLine(text: string): string {
  return UNPRINTABLE.test(text) ? printable(text) : text;
}

/** Lines behind the first one begin with blanks, so that none is taken for a line of its own. */
export function indented(text: string): string {
  return text.split('\n').map(printable).join('\n  ');
}

function printable(text: string): string {
  return text.replace(UNPRINTABLES, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
