/** Names as .did files write them. */
import { KEYWORDS } from '../did-parser.ts';
import { escapeText } from '../escape-text.ts';
import { hashName, labelToId } from '../types.ts';

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** A parameter's or method's name: as it is, or in quotes. */
export function nameWord(name: string): string {
  return IDENTIFIER.test(name) && !KEYWORDS.has(name) ? name : `"${escapeText(name)}"`;
}

/** A field's or tag's label: as a name, or the number that it stands for. */
export function labelWord(label: string): string {
  const id = labelToId(label);
  // No name is written as a label of a number: the parser refuses it.
  return id === hashName(label) ? nameWord(label) : String(id);
}
