/** Candid value text as the server shows it of messages, which hold ids instead of names. */

/** A text, also one that was cut; an id before `=`; the tag of a variant without payload. */
const PARTS = /"(?:[^"\\]|\\[^])*(?:"|$)|\b(\d{1,10})(?= = )|(?<=variant \{ )(\d{1,10})(?= \})/g;

/** The text with names in the place of the ids that an interface has names for. */
export function nameFields(text: string, names: ReadonlyMap<number, string>): string {
  return text.replaceAll(PARTS, (part: string, field?: string, tag?: string) => {
    const id = field ?? tag;
    const name = id === undefined ? undefined : names.get(Number(id));
    if (name === undefined) return part;
    return /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
  });
}
