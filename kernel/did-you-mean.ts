/** Nobody mistypes a name of hundreds of letters, and the comparison is quadratic. */
const WORD_LENGTH_MAX = 64;
/**
 * Comparisons of single letters for one suggestion: 1 to 3 ms. There may be any number of candidates (an actor with
 * 10,000 methods); the ones beyond this limit are not looked at.
 */
const COMPARISONS_MAX = 250_000;
/** Cost of a candidate whose length differs too much for a comparison. */
const COMPARISONS_A_CANDIDATE = 8;

/** Words of two letters are never slips of each other, because two of them are always close. */
const SLIP_LENGTH_MIN = 3;

/**
 * Returns the candidate closest to `word` if it is close enough to be a slip: less than a third of the word's letters
 * differ, or two neighbours are swapped, or only the case differs.
 */
export function closestTo(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > WORD_LENGTH_MAX) return undefined;
  const distanceMax = Math.ceil(word.length / 3) - 1;
  let best: string | undefined;
  let bestDistance = distanceMax + 1;
  let comparisonsLeft = COMPARISONS_MAX;
  for (const candidate of candidates) {
    if (isSlip(word, candidate)) return candidate;
    const isPrefix = word.length > 4 && candidate.startsWith(word);
    const isComparable = !isPrefix && Math.abs(candidate.length - word.length) < bestDistance;
    comparisonsLeft -= COMPARISONS_A_CANDIDATE + (isComparable ? word.length * candidate.length : 0);
    if (comparisonsLeft < 0) break;
    if (!isPrefix && !isComparable) continue;
    const distance = isPrefix ? 1 : editDistance(word, candidate);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Returns true if two neighbouring letters are swapped, or if only the case differs. */
function isSlip(word: string, candidate: string): boolean {
  const { length } = word;
  if (length < SLIP_LENGTH_MIN || candidate.length !== length || candidate === word) return false;
  let at = 0;
  while (word[at] === candidate[at]) at++;
  const [first = '', second = ''] = [word[at], word[at + 1]];
  const isSwapped = candidate.startsWith(second + first, at) && candidate.endsWith(word.slice(at + 2));
  return isSwapped || candidate.toLowerCase() === word.toLowerCase();
}

/**
 * Returns `: did you mean greet?`, to be appended to the error about an unknown name, or an empty text if no candidate
 * is close.
 */
export function suggestionFor(word: string, candidates: Iterable<string>): string {
  const guess = closestTo(word, candidates);
  return guess === undefined ? '' : `: did you mean ${guess}?`;
}

/**
 * Returns the number of letters to insert, drop or replace to get from one word to the other (Levenshtein). Computes
 * one row at a time, in place.
 */
function editDistance(from: string, to: string): number {
  const row = Uint16Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    let diagonal = i - 1;
    let left = i;
    row[0] = i;
    for (let j = 1; j <= to.length; j++) {
      const above = row[j] ?? 0;
      const replace = diagonal + (from.charCodeAt(i - 1) === to.charCodeAt(j - 1) ? 0 : 1);
      left = Math.min(replace, above + 1, left + 1);
      row[j] = left;
      diagonal = above;
    }
  }
  return row[to.length] ?? 0;
}
