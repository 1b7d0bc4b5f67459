/** Candid text of messages as the server shows it, with ids instead of names. */

/** Matches a text, even a cut one; an id before `=`; the tag of a variant without payload. */
const PARTS = /"(?:[^"\\]|\\[^])*(?:"|$)|\b(\d{1,10})(?= = )|(?<=variant \{ )(\d{1,10})(?= \})/g;

/** Returns the text with the interface's names in place of their ids. */
export function nameFields(text: string, names: ReadonlyMap<number, string>): string {
  return text.replaceAll(PARTS, (part: string, field?: string, tag?: string) => {
    const id = field ?? tag;
    const name = id === undefined ? undefined : names.get(Number(id));
    if (name === undefined) return part;
    return /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
  });
}
