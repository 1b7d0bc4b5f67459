/**
 * Colours that a text sets with the sequences of terminals (SGR of ECMA-48). The sequences are not shown; all others
 * stay, to be written out.
 */

/** Matches one sequence; a longer one is no colour. */
const SEQUENCE = /\u001b\[([0-9;:]{0,40})m/g;
/** Coloured pieces of one line; what is behind them has no colour. */
const PIECES_MAX = 100;

/** A piece of a line in one style. */
interface StyledPiece {
  readonly text: string;
  /** Names of classes; empty: as the line is. */
  readonly style: string;
}

/** Returns the text without the sequences. */
export function plainText(text: string): string {
  return text.includes('\u001b') ? text.replaceAll(SEQUENCE, '') : text;
}

/** Divides a line where its style changes. */
export function styledPieces(line: string): readonly StyledPiece[] {
  if (!line.includes('\u001b')) return [{ text: line, style: '' }];
  const pieces: StyledPiece[] = [];
  const style = new Style();
  let from = 0;
  for (const found of line.matchAll(SEQUENCE)) {
    if (pieces.length === PIECES_MAX) break;
    if (found.index > from) pieces.push({ text: line.slice(from, found.index), style: style.classes });
    style.set(found[1] ?? '');
    from = found.index + found[0].length;
  }
  const isCut = pieces.length === PIECES_MAX;
  const rest = plainText(line.slice(from));
  if (rest !== '') pieces.push({ text: rest, style: isCut ? '' : style.classes });
  return pieces;
}

const BOLD = 1;
const DIM = 2;
const ITALIC = 3;
const UNDERLINED = 4;
const MARKS = new Map([
  [BOLD, 'bold'],
  [DIM, 'dim'],
  [ITALIC, 'italic'],
  [UNDERLINED, 'underlined'],
]);
/** Numbers that begin the choice of a colour by more numbers: letters, ground. */
const EXTENDED = new Set([38, 48]);

/** The style that sequences have set. */
class Style {
  readonly #marks = new Set<number>();
  /** One of the sixteen colours; undefined: that of the text. */
  #colour: number | undefined;

  get classes(): string {
    const names = Array.from(this.#marks, (mark) => `ansi-${MARKS.get(mark) ?? ''}`);
    if (this.#colour !== undefined) names.push(`ansi-${this.#colour}`);
    return names.join(' ');
  }

  set(parameters: string): void {
    const numbers = parameters.split(/[;:]/).map(Number);
    for (let at = 0; at < numbers.length; at++) {
      const number = numbers[at] ?? 0;
      if (EXTENDED.has(number)) {
        const isIndex = numbers[at + 1] === 5;
        // One of 256; those behind the sixteen, and those given in parts, keep the text's colour.
        if (number === 38) this.#colour = isIndex && (numbers[at + 2] ?? 16) < 16 ? numbers[at + 2] : undefined;
        at += isIndex ? 2 : 4;
      } else this.#setOne(number);
    }
  }

  #setOne(number: number): void {
    if (number === 0) {
      this.#marks.clear();
      this.#colour = undefined;
    } else if (MARKS.has(number)) this.#marks.add(number);
    else if (number === 22) {
      this.#marks.delete(BOLD);
      this.#marks.delete(DIM);
    } else if (number === 23 || number === 24) this.#marks.delete(number - 20);
    else if (number === 39) this.#colour = undefined;
    else if (number >= 30 && number <= 37) this.#colour = number - 30;
    else if (number >= 90 && number <= 97) this.#colour = number - 82;
  }
}
