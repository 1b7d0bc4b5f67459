/** The candidate closest to `word`, if it is close enough to be a slip: at most a third of the word's letters differ. */
export function closestTo(word: string, candidates: readonly string[]): string | undefined {
  // Nobody mistypes a flag of hundreds of letters, and the comparison is quadratic.
  if (word.length > 64) return undefined;
  let best: { readonly candidate: string; readonly distance: number } | undefined;
  for (const candidate of candidates) {
    const distance = candidate.startsWith(word) && word.length > 4 ? 1 : editDistance(word, candidate);
    if (best === undefined || distance < best.distance) best = { candidate, distance };
  }
  return best !== undefined && best.distance <= Math.ceil(word.length / 3) - 1 ? best.candidate : undefined;
}

/** Letters to insert, drop or replace to get from one to the other (Levenshtein), one row at a time. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const replace = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replace, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
