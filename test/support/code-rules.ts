/** Rules that files of source keep to; each returns the places that break it. */
import { commentsOf } from './source-comments.ts';
import { parseSource } from './parsed-source.ts';

const FILE_LINES_MAX = 500;
const FUNCTION_LINES_MAX = 70;
const COMMENT_COLUMNS_MAX = 120;

/** Words that leave a reader to guess what a comment speaks of when it begins with them. */
const OPENERS = /^(?:What|Whether|How|Of|By|Whose|Those|Whoever|It|Its)\b/;

/** Returns the number of lines of a file that has too many, or undefined. */
export function linesOver(text: string): number | undefined {
  const lines = text.split('\n').length - 1;
  return lines > FILE_LINES_MAX ? lines : undefined;
}

/** Returns names of functions that have too many lines. */
export function longFunctions(file: string, text: string): readonly string[] {
  return parseSource(file, text)
    .functions.filter(({ lines }) => lines > FUNCTION_LINES_MAX)
    .map(({ name }) => name);
}

/** Returns `line: first words` of the comments that begin with one of the words. */
export function vagueComments(text: string): readonly string[] {
  return commentsOf(text)
    .filter((comment) => OPENERS.test(comment.text))
    .map((comment) => `${comment.line}: ${comment.text.slice(0, 60).split('\n')[0]}`);
}

/** Returns numbers of lines with a comment that are too long; the formatter sees to lines of code. */
export function longComments(text: string): readonly number[] {
  const lines = text.split('\n');
  return commentsOf(text)
    .flatMap(({ line, endLine }) => Array.from({ length: endLine - line + 1 }, (_, index) => line + index))
    .filter((line) => isTooLong(lines[line - 1] ?? ''));
}

function isTooLong(line: string): boolean {
  // An address cannot be wrapped.
  return line.length > COMMENT_COLUMNS_MAX && !/https?:\/\/\S{60}/.test(line);
}

/** Returns identifiers in backticks in comments that are no words of the code. */
export function unknownNames(text: string, code: ReadonlySet<string>): readonly string[] {
  return commentsOf(text)
    .flatMap((comment) => [...comment.text.matchAll(/`#?([A-Za-z_$][\w$]*)(?:\(\))?`/g)].map(([, name = '']) => name))
    .filter((name) => !code.has(name));
}

/** Returns the words of a text outside of its comments. */
export function codeWords(text: string): readonly string[] {
  const lines = text.split('\n').map((line) => line.replace(/^\s*(?:\/\/|\/?\*).*$/, ''));
  return lines.join('\n').match(/[A-Za-z_$][\w$]*/g) ?? [];
}
