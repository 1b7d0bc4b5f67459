/** Debug output on the screen: what came is kept up to a limit, and the newest part of it is drawn. */
import { plainText } from './ansi.ts';

/** Characters that are kept, line feeds included; the server keeps a quarter of them (docs/http.md). */
const KEPT_CHARACTERS_MAX = 4 * 1024 * 1024;
/** Prints that are kept; the server keeps 16,384 at most, because each counts for 64 bytes at least. */
const KEPT_PRINTS_MAX = 65_536;
/** Lines that are drawn. */
const DRAWN_LINES_MAX = 2_000;
/** Characters of all drawn lines: as many as a browser can lay out at once. */
const DRAWN_CHARACTERS_MAX = 1_000_000;
/** Characters of one line; the rest are only counted. */
const LINE_CHARACTERS_MAX = 10_000;

/** Output that an actor printed with one call, as the server tells it. */
export interface PrintedLine {
  /** Process of the server, and number. */
  readonly id: string;
  readonly seq: number;
  /** ISO time. */
  readonly time: string;
  /** Id of the message that printed it; null: it has none. */
  readonly message: string | null;
  readonly text: string;
}

/** Number of prints that are missing in front of one, or the restart by which some may be. */
export type Gap = number | 'restart';

/** Output that an actor printed with one call, of one line or more. */
interface Print extends PrintedLine {
  /** Unique key. */
  readonly key: number;
  readonly lines: number;
  /** 0: nothing is missing. */
  readonly gap: Gap;
}

export interface Output {
  /** Prints, oldest first. */
  readonly prints: readonly Print[];
  readonly lines: number;
  /** Number of lines that are no longer kept. */
  readonly lost: number;
  /** Id of the last print that came; empty: none. */
  readonly last: string;
}

interface OutputLine {
  readonly key: string;
  readonly text: string;
  /** ISO time, in front of the first line of a print; empty: another line. */
  readonly time: string;
  readonly message: string | null;
  readonly gap: Gap;
}

export interface DrawnOutput {
  /** Newest lines that have what is searched, oldest first. */
  readonly lines: readonly OutputLine[];
  /** Number of kept lines that have it. */
  readonly found: number;
}

export const NO_OUTPUT: Output = { prints: [], lines: 0, lost: 0, last: '' };

/** Returns output that goes on behind the line with this id. */
export function outputAfter(last: string): Output {
  return { ...NO_OUTPUT, last };
}

/** Returns the output with prints appended, without the oldest that exceed the limits. */
export function withOutput({ prints, lines, lost, last }: Output, printed: readonly PrintedLine[]): Output {
  let key = prints.at(-1)?.key ?? 0;
  let before = last;
  const all = [...prints];
  for (const print of printed) {
    all.push({ ...print, key: ++key, lines: linesOf(print.text), gap: gapBetween(before, print) });
    before = print.id;
  }
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
  const kept = all.slice(start);
  return { prints: kept, lines: lines + sum(all.slice(prints.length)) - gone, lost: lost + gone, last: before };
}

/** Tells what is missing between the print with the id `before` (empty: the first that there was) and `print`. */
function gapBetween(before: string, { id, seq }: PrintedLine): Gap {
  if (before === '') return seq - 1;
  const [process, number] = before.split('-');
  return id.split('-')[0] === process ? Math.max(0, seq - Number(number) - 1) : 'restart';
}

/** Returns the newest lines that have this text in them, in letters of either case. */
export function drawnLines({ prints }: Output, search = ''): DrawnOutput {
  const drawn: OutputLine[] = [];
  const wanted = search.toLowerCase();
  const has = (text: string): boolean => wanted === '' || plainText(text).toLowerCase().includes(wanted);
  let left = DRAWN_CHARACTERS_MAX;
  let found = 0;
  let isFull = false;
  for (const print of prints.toReversed()) {
    if (isFull && wanted === '') break;
    if (!has(print.text)) continue;
    let end = print.text.length;
    for (let line = print.lines - 1; line >= 0; line--) {
      const start = end === 0 ? 0 : print.text.lastIndexOf('\n', end - 1) + 1;
      if (wanted === '' || has(print.text.slice(start, end))) {
        found++;
        const shown = isFull ? undefined : shownLine(print, line, cut(print.text, start, end));
        left -= shown?.text.length ?? 0;
        isFull ||= drawn.length === DRAWN_LINES_MAX || (left < 0 && drawn.length > 0);
        if (shown !== undefined && !isFull) drawn.push(shown);
        if (isFull && wanted === '') break;
      }
      end = start - 1;
    }
  }
  return { lines: drawn.toReversed(), found };
}

function shownLine({ key, time, message, gap }: Print, line: number, text: string): OutputLine {
  const isFirst = line === 0;
  return { key: `${key}.${line}`, text, message, time: isFirst ? time : '', gap: isFirst ? gap : 0 };
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
