/** Comments of a TypeScript text, without a parser: strings that look like comments are passed over. */

interface Comment {
  /** The number of its first line, from 1. */
  readonly line: number;
  /** The number of its last line. */
  readonly endLine: number;
  /** Words, without marks and without the asterisks at the beginnings of lines; lines are joined by line feeds. */
  readonly text: string;
}

/** Strings, templates without what is inserted, regular expressions, and comments: whichever comes first. */
const TOKEN = new RegExp(
  [
    /'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\[^])*`/,
    /(?<=[=(,:[!&|?{};\n]\s*|return )\/(?![/*])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\//,
    /\/\*[^]*?\*\/|\/\/[^\n]*/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'g',
);

/** Returns the comments of a text; line comments on successive lines of their own are one. */
export function commentsOf(text: string): readonly Comment[] {
  const found: { line: number; endLine: number; isBlock: boolean; isAlone: boolean; text: string }[] = [];
  let line = 1;
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [token] = match;
    if (!/^\/[/*]/.test(token)) continue;
    line += lineFeedsIn(text.slice(at, match.index));
    at = match.index;
    const isBlock = token.startsWith('/*');
    const isAlone = /(?:^|\n)[ \t]*$/.test(text.slice(0, match.index));
    const words = isBlock ? wordsOfBlock(token) : token.slice(2).trim();
    const last = found.at(-1);
    const goesOn =
      !isBlock && isAlone && last !== undefined && !last.isBlock && last.isAlone && last.endLine === line - 1;
    if (goesOn) {
      last.text += `\n${words}`;
      last.endLine = line;
    } else found.push({ line, endLine: line + lineFeedsIn(token), isBlock, isAlone, text: words });
  }
  return found;
}

function lineFeedsIn(text: string): number {
  return text.split('\n').length - 1;
}

function wordsOfBlock(token: string): string {
  return token
    .replace(/^\/\*\*?/, '')
    .replace(/\*\/$/, '')
    .split('\n')
    .map((each) => each.replace(/^\s*\*?\s?/, ''))
    .join('\n')
    .trim();
}
