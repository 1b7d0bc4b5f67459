/**
 * What is wrong with a source file, and how a terminal shows it:
 *
 *     src/Counter.mo:12.7-12.10: type error [M0050] literal of type Text does not have expected type Nat
 *       12 |   let x : Nat = "a";
 *          |                 ^^^
 *
 * Lines and columns count from 1, a range ends before its last column: what moc prints itself. Columns count
 * characters, not bytes, so that they agree with editors and with the caret.
 */
export interface Position {
  /** From 0. */
  readonly line: number;
  /** From 0, in UTF-8 bytes, as moc counts. */
  readonly byte: number;
}

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

/** Finds a file's text and the name a person knows it by. */
export interface SourceView {
  textOf(file: string): string | undefined;
  displayName(file: string): string;
}

/** More than a screenful helps nobody; the first ones are usually the cause of the rest. */
const DIAGNOSTICS_SHOWN_MAX = 50;
/** A line of minified or generated source is cut around the fault. */
const LINE_CHARACTERS_MAX = 160;
const MESSAGE_CHARACTERS_MAX = 4000;
const TAB = '    ';

export function renderDiagnostics(diagnostics: readonly Diagnostic[], sources: SourceView): string {
  const shown = diagnostics.slice(0, DIAGNOSTICS_SHOWN_MAX).map((diagnostic) => renderDiagnostic(diagnostic, sources));
  const hidden = diagnostics.length - shown.length;
  if (hidden > 0) shown.push(`… and ${hidden} more`);
  return shown.join('\n');
}

export function renderDiagnostic(diagnostic: Diagnostic, sources: SourceView): string {
  const { start, end, code, severity, category } = diagnostic;
  const lines = linesOf(sources.textOf(diagnostic.file), start.line, end.line);
  const startColumn = columnOf(lines.first, start.byte);
  const endColumn = columnOf(end.line === start.line ? lines.first : lines.last, end.byte);
  const from = `${start.line + 1}.${startColumn + 1}`;
  const to = `${end.line + 1}.${endColumn + 1}`;
  const place = `${sources.displayName(diagnostic.file)}:${from === to ? from : `${from}-${to}`}`;
  const kind = [category, severity].filter((word) => word !== '').join(' ');
  const message = printable(diagnostic.message.slice(0, MESSAGE_CHARACTERS_MAX), true);
  const headline = `${place}: ${kind}${code === '' ? ':' : ` [${code}]`} ${message}`;
  if (lines.first === undefined) return headline;
  const caretEnd = end.line === start.line ? endColumn : Number.POSITIVE_INFINITY;
  return `${headline}\n${excerpt(lines.first, start.line + 1, startColumn, caretEnd)}`;
}

/** A range in UTF-16 offsets of a text as lines and bytes. */
export function rangeAt(
  text: string,
  start: number,
  end: number,
): { readonly start: Position; readonly end: Position } {
  const position = (offset: number): Position => {
    const lineStart = text.lastIndexOf('\n', offset - 1) + 1;
    const line = text.slice(0, lineStart).split('\n').length - 1;
    return { line, byte: Buffer.byteLength(text.slice(lineStart, offset)) };
  };
  return { start: position(start), end: position(end) };
}

function linesOf(
  text: string | undefined,
  first: number,
  last: number,
): { first: string | undefined; last: string | undefined } {
  if (text === undefined) return { first: undefined, last: undefined };
  const lines = text.split('\n', Math.max(first, last) + 1);
  const line = (index: number): string | undefined => lines[index]?.replace(/\r$/u, '');
  return { first: line(first), last: line(last) };
}

/** Characters before a byte offset of a line. */
function columnOf(line: string | undefined, byte: number): number {
  if (line === undefined) return byte;
  let bytes = 0;
  let column = 0;
  for (const character of line) {
    if (bytes >= byte) break;
    bytes += Buffer.byteLength(character);
    column += 1;
  }
  return column;
}

/** The line and, below, carets under the columns from `start` up to `end`. */
function excerpt(line: string, lineNumber: number, start: number, end: number): string {
  const characters = Array.from(line);
  const isLong = characters.length > LINE_CHARACTERS_MAX;
  const cutFrom = isLong ? Math.max(0, start - LINE_CHARACTERS_MAX / 2) : 0;
  const cutTo = isLong ? cutFrom + LINE_CHARACTERS_MAX : characters.length;
  const part = (from: number, to: number): string =>
    printable(characters.slice(Math.max(from, cutFrom), Math.min(to, cutTo)).join(''), false);
  const ahead = (cutFrom > 0 ? '…' : '') + part(0, start);
  const marked = part(start, end);
  const behind = part(end, characters.length) + (cutTo < characters.length ? '…' : '');
  const margin = `${lineNumber}`.padStart(4);
  const carets = '^'.repeat(Math.max(1, Array.from(marked).length));
  return [
    `${margin} | ${ahead}${marked}${behind}`,
    `${' '.repeat(margin.length)} | ${' '.repeat(Array.from(ahead).length)}${carets}`,
  ].join('\n');
}

/** Source text goes to terminals and logs: control characters must not reach them. */
function printable(text: string, keepNewlines: boolean): string {
  return text
    .replaceAll('\t', TAB)
    .replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, (character) =>
      keepNewlines && character === '\n' ? '\n' : '\ufffd',
    );
}
