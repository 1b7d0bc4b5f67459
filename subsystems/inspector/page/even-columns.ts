/** Columns with fewer look like a list. */
export const COLUMNS_MIN = 2;

/** Returns the number of columns, `most` at most, with which the rows are about as long as each other. */
export function evenColumns(count: number, most: number): number {
  const rows = Math.ceil(count / Math.max(COLUMNS_MIN, most));
  let columns = Math.max(COLUMNS_MIN, Math.ceil(count / Math.max(1, rows)));
  // One tile alone in the last row looks forgotten.
  while (columns > COLUMNS_MIN && count % columns === 1) columns--;
  return columns;
}
