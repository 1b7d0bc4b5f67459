/** Debug output on the screen: taken output is kept up to a limit, and the newest part of it is drawn. */

/** Characters that are kept, line feeds included; one take returns at most a quarter of them (docs/http.md). */
const KEPT_CHARACTERS_MAX = 4 * 1024 * 1024;
/** Prints that are kept; one take returns at most 16,384, because each counts for 64 bytes at least. */
const KEPT_PRINTS_MAX = 65_536;
/** Lines that are drawn. */
const DRAWN_LINES_MAX = 2_000;
/** Characters of all drawn lines: as many as a browser can lay out at once. */
const DRAWN_CHARACTERS_MAX = 1_000_000;
/** Characters of one line; the rest are only counted. */
const LINE_CHARACTERS_MAX = 10_000;

/** Output that an actor printed with one call, of one line or more. */
interface Print {
  /** Unique key. */
  readonly key: number;
  readonly text: string;
  readonly lines: number;
}

export interface Output {
  /** Prints, oldest first. */
  readonly prints: readonly Print[];
  readonly lines: number;
  /** Number of lines that are no longer kept. */
  readonly lost: number;
}

interface OutputLine {
  readonly key: string;
  readonly text: string;
}

export const NO_OUTPUT: Output = { prints: [], lines: 0, lost: 0 };

/** Returns the output with `texts` appended, without the oldest prints that exceed the limits. */
export function withOutput({ prints, lines, lost }: Output, texts: readonly string[]): Output {
  let key = prints.at(-1)?.key ?? 0;
  const all = [...prints, ...texts.map((text) => ({ key: ++key, text, lines: linesOf(text) }))];
  let characters = 0;
  let start = all.length;
  const first = Math.max(0, all.length - KEPT_PRINTS_MAX);
  for (let next = all[start - 1]; next !== undefined && start > first; next = all[start - 1]) {
    characters += next.text.length + 1;
    // The newest print stays, whatever its length.
    if (characters > KEPT_CHARACTERS_MAX && start < all.length) break;
    start--;
  }
  const gone = sum(all.slice(0, start));
  return { prints: all.slice(start), lines: lines + sum(all.slice(prints.length)) - gone, lost: lost + gone };
}

/** Returns the newest lines, oldest first. */
export function drawnLines({ prints }: Output): readonly OutputLine[] {
  const drawn: OutputLine[] = [];
  let left = DRAWN_CHARACTERS_MAX;
  for (const { key, text, lines } of prints.toReversed()) {
    let end = text.length;
    for (let line = lines - 1; line >= 0; line--) {
      const start = end === 0 ? 0 : text.lastIndexOf('\n', end - 1) + 1;
      const part = cut(text, start, end);
      left -= part.length;
      if (drawn.length === DRAWN_LINES_MAX || (left < 0 && drawn.length > 0)) return drawn.toReversed();
      drawn.push({ key: `${key}.${line}`, text: part });
      end = start - 1;
    }
  }
  return drawn.toReversed();
}

/** Returns all kept output, as it was printed. */
export function outputText({ prints }: Output): string {
  return prints.map(({ text }) => text).join('\n');
}

function cut(text: string, start: number, end: number): string {
  if (end - start <= LINE_CHARACTERS_MAX) return text.slice(start, end);
  const rest = end - start - LINE_CHARACTERS_MAX;
  return `${text.slice(start, start + LINE_CHARACTERS_MAX)}… and ${rest} more characters`;
}

function linesOf(text: string): number {
  let lines = 1;
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) lines++;
  return lines;
}

function sum(prints: readonly Print[]): number {
  return prints.reduce((total, { lines }) => total + lines, 0);
}
