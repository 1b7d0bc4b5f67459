/** Writes names as .did files do. */
import { KEYWORDS } from '../did-parser.ts';
import { escapeText } from '../escape-text.ts';
import { hashName, labelToId } from '../types.ts';

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Returns a parameter's or method's name, in quotes if necessary. */
export function nameWord(name: string): string {
  return IDENTIFIER.test(name) && !KEYWORDS.has(name) ? name : `"${escapeText(name)}"`;
}

/** Returns a field's or tag's label: a name, or the number that it stands for. */
export function labelWord(label: string): string {
  const id = labelToId(label);
  // A name that looks like the label of a number cannot occur: the parser refuses it.
  return id === hashName(label) ? nameWord(label) : String(id);
}
