/**
 * Checks a response against the rules of HTTP: an actor's headers are sent byte for byte, so they must not end a line.
 */

/** Statuses of final responses; 1xx announce another one, and other numbers are not statuses. */
const STATUS_MIN = 200;
const STATUS_MAX = 999;
const SHOWN_CHARACTERS_MAX = 60;

/** `tchar` of RFC 9110. */
const NAME_CHARACTERS = new Uint8Array(256);
for (const character of "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
  NAME_CHARACTERS[character.charCodeAt(0)] = 1;

const TAB = 9;
const SPACE = 32;
const DELETE = 127;

/** Returns the problem of a status; undefined if there is none. */
export function statusProblem(status: number): string | undefined {
  if (status >= STATUS_MIN && status <= STATUS_MAX) return undefined;
  return `status_code is ${status}; expected ${STATUS_MIN} to ${STATUS_MAX}`;
}

/** Returns the problem of alternating names and values; undefined if there is none. */
export function headerProblem(headers: readonly string[]): string | undefined {
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? '';
    if (!isName(name)) return `${shown(name)} cannot be the name of a header`;
    if (!isValue(headers[at + 1] ?? '')) return `the value of the header ${shown(name)} holds a control character`;
    // No trailers follow the body.
    if (name.length === 7 && name.toLowerCase() === 'trailer') return 'the header "trailer" announces what never comes';
  }
  return undefined;
}

function isName(name: string): boolean {
  for (let at = 0; at < name.length; at++) {
    if (NAME_CHARACTERS[name.charCodeAt(at)] !== 1) return false;
  }
  return name.length > 0;
}

function isValue(value: string): boolean {
  for (let at = 0; at < value.length; at++) {
    const code = value.charCodeAt(at);
    if ((code < SPACE && code !== TAB) || code === DELETE) return false;
  }
  return true;
}

function shown(text: string): string {
  return JSON.stringify(text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text);
}
