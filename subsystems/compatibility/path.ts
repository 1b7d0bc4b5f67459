/** A place in an interface or a signature; the text is made only for places that differ. */
export interface Path {
  readonly parent: Path | undefined;
  readonly step: string;
}

const CHARACTERS_MAX = 300;
const NAME_CHARACTERS_MAX = 60;

/** Appends a name: `.name`, or `["odd name"]`. */
export function named(parent: Path | undefined, name: string): Path {
  const short = name.length > NAME_CHARACTERS_MAX ? `${name.slice(0, NAME_CHARACTERS_MAX)}…` : name;
  const isPlain = /^[A-Za-z_]\w*$/.test(short);
  if (isPlain) return { parent, step: parent === undefined ? short : `.${short}` };
  return { parent, step: `[${JSON.stringify(short)}]` };
}

/** Appends a step unchanged: `[]`, `?`, `.args[0]`. */
export function stepped(parent: Path | undefined, step: string): Path {
  return { parent, step };
}

/** Returns text like `get.results[0].name`; a long text is cut at the beginning, because its end says more. */
export function pathText(path: Path | undefined): string {
  let text = '';
  for (let at = path; at !== undefined; at = at.parent) {
    if (text.length + at.step.length > CHARACTERS_MAX) return `…${text}`;
    text = `${at.step}${text}`;
  }
  return text;
}
