/** Exports that no other file imports. */
import { parseSource, type ParsedSource } from './parsed-source.ts';
import { resolved } from './source-tree.ts';

/**
 * Returns `file: name` for each exported name that no file imports, by way of files that pass it on too.
 *
 * @param texts Files by their paths from the root.
 * @param isPublic True for files whose exports are for others: nothing of theirs is unused, nor what they pass on.
 */
export function unusedExports(
  texts: ReadonlyMap<string, string>,
  isPublic: (file: string) => boolean,
): readonly string[] {
  const parsed = new Map([...texts].map(([file, text]) => [file, parseSource(file, text)]));
  const used = new UsedNames(parsed);
  for (const [file, { declared, passedOn, starred, imported }] of parsed) {
    for (const { from, name } of imported) used.add(resolved(file, from), name);
    if (!isPublic(file)) continue;
    for (const name of [...declared, ...passedOn.map((each) => each.name ?? '')]) used.add(file, name);
    for (const from of starred) used.add(resolved(file, from), undefined);
  }
  return [...parsed].flatMap(([file, { declared, passedOn }]) =>
    [...declared, ...passedOn.map(({ name }) => name ?? '')]
      .filter((name) => !used.has(file, name))
      .map((name) => `${file}: ${name}`),
  );
}

class UsedNames {
  readonly #parsed: ReadonlyMap<string, ParsedSource>;
  readonly #names = new Set<string>();
  /** Files all of whose exports are used. */
  readonly #whole = new Set<string>();

  constructor(parsed: ReadonlyMap<string, ParsedSource>) {
    this.#parsed = parsed;
  }

  has(file: string, name: string): boolean {
    return this.#whole.has(file) || this.#names.has(`${file}: ${name}`);
  }

  /** @param name Undefined: all that the file exports. */
  add(file: string, name: string | undefined): void {
    if (name === undefined ? this.#whole.has(file) : this.#names.has(`${file}: ${name}`)) return;
    if (name === undefined) this.#whole.add(file);
    else this.#names.add(`${file}: ${name}`);
    const { passedOn, starred } = this.#parsed.get(file) ?? { passedOn: [], starred: [] };
    for (const each of passedOn)
      if (name === undefined || each.name === name) this.add(resolved(file, each.from), each.name);
    for (const from of starred) this.add(resolved(file, from), name);
  }
}
