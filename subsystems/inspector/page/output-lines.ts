/** Debug output on the screen: what came last, within bounds. */

/** Lines that are kept. */
const LINES_MAX = 2_000;
/** Characters that are kept: what a browser lays out at once. */
const CHARACTERS_MAX = 1_000_000;
/** Of one line; the rest is counted. */
const LINE_CHARACTERS_MAX = 10_000;

export interface OutputLine {
  /** Never given twice. */
  readonly key: number;
  readonly text: string;
}

/** The lines with `texts` behind them, less the oldest that there is no room for. */
export function withOutput(lines: readonly OutputLine[], texts: readonly string[]): readonly OutputLine[] {
  let key = lines.at(-1)?.key ?? 0;
  const all = [...lines, ...texts.slice(-LINES_MAX).map((text) => ({ key: ++key, text: cut(text) }))].slice(-LINES_MAX);
  let characters = 0;
  let start = all.length;
  for (let next = all[start - 1]; next !== undefined; next = all[start - 1]) {
    characters += next.text.length;
    if (characters > CHARACTERS_MAX) break;
    start--;
  }
  return all.slice(start);
}

function cut(text: string): string {
  if (text.length <= LINE_CHARACTERS_MAX) return text;
  return `${text.slice(0, LINE_CHARACTERS_MAX)}… and ${text.length - LINE_CHARACTERS_MAX} more characters`;
}
