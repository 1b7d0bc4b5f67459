/**
 * Problems of a source file, and how a terminal shows them:
 *
 *     src/Counter.mo:12.7-12.10: type error [M0050] literal of type Text does not have expected type Nat
 *       12 |   let x : Nat = "a";
 *          |                 ^^^
 *
 * Lines and columns count from 1, a range ends before its last column: what moc prints itself. Columns count
 * characters, not bytes, so that they agree with editors and with the caret.
 */
import type { Position, TextLines } from './text-lines.ts';

export interface Diagnostic {
  /** Path in the compiler's own file system: relative to the root of the closure, or `mo:core/…`. */
  readonly file: string;
  readonly start: Position;
  readonly end: Position;
  readonly severity: 'error' | 'warning';
  /** `type`, `syntax`, `import`, … */
  readonly category: string;
  /** `M0050`; empty where the fault was found without the compiler. */
  readonly code: string;
  readonly message: string;
}

/** Finds a file's lines and the name a person knows it by. */
export interface SourceView {
  /** Returns the lines of a file; the same object each time. */
  linesOf(file: string): TextLines | undefined;
  displayName(file: string): string;
}

/** More than a screenful helps nobody; the first ones are usually the cause of the rest. */
export const DIAGNOSTICS_SHOWN_MAX = 50;
/** A line of minified or generated source is cut around the fault. */
const LINE_CHARACTERS_MAX = 160;
/** Around a fault, more than is shown: a character has two at most. */
const NEAR_UNITS = 4 * LINE_CHARACTERS_MAX;
const MESSAGE_CHARACTERS_MAX = 4000;
const TAB = '    ';

/** `count`: how many there are, where `diagnostics` are the first of them. */
export function renderDiagnostics(
  diagnostics: readonly Diagnostic[],
  sources: SourceView,
  count = diagnostics.length,
): string {
  const shown = diagnostics.slice(0, DIAGNOSTICS_SHOWN_MAX).map((diagnostic) => renderDiagnostic(diagnostic, sources));
  const hidden = count - shown.length;
  if (hidden > 0) shown.push(`… and ${hidden} more`);
  return shown.join('\n');
}

export function renderDiagnostic(diagnostic: Diagnostic, sources: SourceView): string {
  const { start, end, code, severity, category } = diagnostic;
  const lines = sources.linesOf(diagnostic.file);
  const line = lines?.textOf(start.line);
  const from = pointOf(line, start.byte);
  const to = pointOf(end.line === start.line ? line : lines?.textOf(end.line), end.byte);
  const [shownFrom, shownTo] = [`${start.line + 1}.${from.column + 1}`, `${end.line + 1}.${to.column + 1}`];
  const place = `${sources.displayName(diagnostic.file)}:${shownFrom === shownTo ? shownFrom : `${shownFrom}-${shownTo}`}`;
  const kind = [category, severity].filter((word) => word !== '').join(' ');
  const message = printable(diagnostic.message.slice(0, MESSAGE_CHARACTERS_MAX), true);
  const headline = `${place}: ${kind}${code === '' ? ':' : ` [${code}]`} ${message}`;
  if (line === undefined) return headline;
  const columns = end.line === start.line ? to.column - from.column : Number.POSITIVE_INFINITY;
  return `${headline}\n${excerpt(line, start.line + 1, from.offset, columns)}`;
}

/** A place in a line. */
interface Point {
  /** Offset in UTF-16 units. */
  readonly offset: number;
  /** Column in characters. */
  readonly column: number;
}

/** Returns the place of a byte of a line; a byte beyond the line's end is at its end. */
function pointOf(line: string | undefined, byte: number): Point {
  if (line === undefined) return { offset: byte, column: byte };
  let column = 0;
  let offset = 0;
  for (let bytes = 0; bytes < byte && offset < line.length; column++) {
    const code = line.codePointAt(offset) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    offset += code < 0x10000 ? 1 : 2;
  }
  return { offset, column };
}

/**
 * Returns the line and, below it, carets under so many columns behind `offset`. Only the text near `offset` is looked
 * at: a line may have megabytes.
 */
function excerpt(line: string, lineNumber: number, offset: number, columns: number): string {
  const nearFrom = Math.max(0, offset - NEAR_UNITS - (isInCharacter(line, offset - NEAR_UNITS) ? 1 : 0));
  const nearTo = Math.min(line.length, offset + NEAR_UNITS);
  const characters = Array.from(line.slice(nearFrom, nearTo));
  const start = Array.from(line.slice(nearFrom, offset)).length;
  const isLong = nearFrom > 0 || nearTo < line.length || characters.length > LINE_CHARACTERS_MAX;
  const cutFrom = isLong ? Math.max(0, start - LINE_CHARACTERS_MAX / 2) : 0;
  const cutTo = isLong ? cutFrom + LINE_CHARACTERS_MAX : characters.length;
  const part = (from: number, to: number): string =>
    printable(characters.slice(Math.max(from, cutFrom), Math.min(to, cutTo)).join(''), false);
  const ahead = (cutFrom > 0 ? '…' : '') + part(0, start);
  const marked = part(start, start + columns);
  const behind = part(start + columns, characters.length) + (cutTo < characters.length ? '…' : '');
  const margin = `${lineNumber}`.padStart(4);
  const carets = '^'.repeat(Math.max(1, Array.from(marked).length));
  return [
    `${margin} | ${ahead}${marked}${behind}`,
    `${' '.repeat(margin.length)} | ${' '.repeat(Array.from(ahead).length)}${carets}`,
  ].join('\n');
}

/** Returns true if an offset is between the two units of one character. */
function isInCharacter(line: string, offset: number): boolean {
  return offset > 0 && (line.codePointAt(offset - 1) ?? 0) > 0xffff;
}

/** Source text goes to terminals and logs: control characters must not reach them. */
function printable(text: string, keepNewlines: boolean): string {
  return text
    .replaceAll('\t', TAB)
    .replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, (character) =>
      keepNewlines && character === '\n' ? '\n' : '\ufffd',
    );
}
