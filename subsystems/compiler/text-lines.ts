/** A place in a file as compilers tell it. */
export interface Position {
  /** Line, from 0. */
  readonly line: number;
  /** Byte in the line, from 0, in UTF-8, as moc counts. */
  readonly byte: number;
}

/**
 * The lines of a text. They are found once, when the first one is asked for: a generated source has a hundred
 * thousand lines, and as many faults.
 */
export class TextLines {
  readonly #text: string;
  #found: Uint32Array | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  /** Returns the position of a UTF-16 offset. */
  positionAt(offset: number): Position {
    const line = this.lineAt(offset);
    return { line, byte: Buffer.byteLength(this.#text.slice(this.#starts[line], offset)) };
  }

  /** The number of the line, from 0, that a UTF-16 offset is in. */
  lineAt(offset: number): number {
    const starts = this.#starts;
    let line = 0;
    for (let end = starts.length; end - line > 1;) {
      const middle = (line + end) >>> 1;
      if ((starts[middle] ?? 0) <= offset) line = middle;
      else end = middle;
    }
    return line;
  }

  /** Returns the text of a line without its line end, or undefined if there is no such line. */
  textOf(line: number): string | undefined {
    const start = this.#starts[line];
    if (start === undefined) return undefined;
    const next = this.#starts[line + 1];
    return this.#text.slice(start, next === undefined ? undefined : next - 1).replace(/\r$/u, '');
  }

  get #starts(): Uint32Array {
    return (this.#found ??= startsOf(this.#text));
  }
}

/** The lines of files; those of one file are the same object each time. */
export function linesByFile(textOf: (file: string) => string | undefined): (file: string) => TextLines | undefined {
  const known = new Map<string, TextLines>();
  return (file) => {
    const text = known.has(file) ? undefined : textOf(file);
    if (text !== undefined) known.set(file, new TextLines(text));
    return known.get(file);
  };
}

function startsOf(text: string): Uint32Array {
  let count = 1;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count++;
  const starts = new Uint32Array(count);
  for (let line = 1; line < count; line++) starts[line] = text.indexOf('\n', starts[line - 1]) + 1;
  return starts;
}
