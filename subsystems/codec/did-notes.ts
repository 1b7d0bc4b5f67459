import type { IDL } from '@dfinity/candid';

/*
 * The parts of a .did that only people read: comments above definitions, fields and methods, names of parameters, the
 * order in which fields are written, and definitions that are mere aliases. Messages contain none of them, so the
 * parser keeps them separately, and only on request.
 */

/** Longest comment that is kept; a longer one is cut. */
const DOC_CHARACTERS_MAX = 8000;

interface ParameterNames {
  readonly parameters: readonly (string | undefined)[];
  readonly results: readonly (string | undefined)[];
}

const NO_NAMES: ParameterNames = { parameters: [], results: [] };
const NO_DOCS: ReadonlyMap<string, string> = new Map();

export class DidNotes {
  /** The comment above the service. */
  service: string | undefined;
  readonly #definitions = new Map<string, { readonly doc: string | undefined; readonly type: IDL.Type }>();
  readonly #docs = new Map<IDL.Type, ReadonlyMap<string, string>>();
  readonly #names = new Map<IDL.Type, ParameterNames>();
  readonly #orders = new Map<IDL.Type, readonly number[]>();

  /** Returns the comment directly above a token; `gap` is the text of blanks and comments before the token. */
  docOf(gap: string, isAtStart: boolean): string | undefined {
    return gap.includes('/') ? docIn(gap, isAtStart) : undefined;
  }

  /** Returns a key that distinguishes types that are equal except for their notes. */
  keyOf(notes: readonly (string | undefined)[]): string {
    return notes.every((note) => note === undefined) ? '' : ` // ${JSON.stringify(notes)}`;
  }

  /** Returns a key of the order in which fields are written; '' if that is the order of their ids. */
  keyOfOrder(places: readonly number[]): string {
    return isInOrder(places) ? '' : ` @${places.join()}`;
  }

  /** Records the places of a type's fields in the text, in the order of their ids. */
  ordered(type: IDL.Type, places: readonly number[]): void {
    if (!isInOrder(places)) this.#orders.set(type, places);
  }

  /** Returns the places that were recorded; undefined: the fields are written in the order of their ids. */
  orderOf(type: IDL.Type): readonly number[] | undefined {
    return this.#orders.get(type);
  }

  /** Records a definition. `type` is the type after the `=`, which may be another definition. */
  defined(name: string, doc: string | undefined, type: IDL.Type): void {
    this.#definitions.set(name, { doc, type });
  }

  documented(type: IDL.Type, docs: readonly (readonly [label: string, doc: string | undefined])[]): void {
    const known = docs.flatMap(([label, doc]) => (doc === undefined ? [] : [[label, doc] as const]));
    if (known.length > 0) this.#docs.set(type, new Map(known));
  }

  named(type: IDL.Type, parameters: ParameterNames['parameters'], results: ParameterNames['results']): void {
    this.#names.set(type, { parameters, results });
  }

  definition(name: string): { readonly doc: string | undefined; readonly type: IDL.Type } | undefined {
    return this.#definitions.get(name);
  }

  /** Returns the comments on a record's fields, a variant's tags, or a service's methods. */
  docsOf(type: IDL.Type): ReadonlyMap<string, string> {
    return this.#docs.get(type) ?? NO_DOCS;
  }

  /** Returns the names of a function's parameters and results. */
  namesOf(type: IDL.Type): ParameterNames {
    return this.#names.get(type) ?? NO_NAMES;
  }
}

function isInOrder(places: readonly number[]): boolean {
  return places.every((place, at) => place === at);
}

interface Comment {
  readonly start: number;
  readonly end: number;
  readonly isBlock: boolean;
}

/**
 * Returns the last comments of a gap, back to the first empty line between them or below. A comment on the line of the
 * preceding code belongs to that code, unless the next token is on that line, too.
 */
function docIn(gap: string, isAtStart: boolean): string | undefined {
  const comments = commentsIn(gap);
  const firstBreak = gap.indexOf('\n');
  const isOnCodeLine = ({ start }: Comment): boolean => !isAtStart && firstBreak >= 0 && start < firstBreak;
  const texts: string[] = [];
  let below = gap.length;
  for (const comment of comments.toReversed()) {
    if (isOnCodeLine(comment) || hasEmptyLine(gap, comment.end, below)) break;
    texts.push(comment.isBlock ? blockText(gap, comment) : lineText(gap, comment));
    below = comment.start;
  }
  const doc = texts.toReversed().join('\n').trim();
  if (doc === '') return undefined;
  return doc.length > DOC_CHARACTERS_MAX ? `${doc.slice(0, DOC_CHARACTERS_MAX).replace(/[\ud800-\udbff]$/, '')}…` : doc;
}

/** Finds the comments of a gap. The lexer has skipped it, so it holds only comments and blanks. */
function commentsIn(gap: string): Comment[] {
  const comments: Comment[] = [];
  for (let at = gap.indexOf('/'); at >= 0;) {
    const isBlock = gap.charAt(at + 1) === '*';
    const end = isBlock ? blockEnd(gap, at) : lineEnd(gap, at);
    comments.push({ start: at, end, isBlock });
    at = gap.indexOf('/', end);
  }
  return comments;
}

function lineEnd(gap: string, start: number): number {
  const end = gap.indexOf('\n', start);
  return end < 0 ? gap.length : end;
}

function blockEnd(gap: string, start: number): number {
  const edge = /\/\*|\*\//g;
  edge.lastIndex = start;
  let open = 0;
  for (let match = edge.exec(gap); match !== null; match = edge.exec(gap)) {
    open += match[0] === '/*' ? 1 : -1;
    if (open === 0) return edge.lastIndex;
  }
  return gap.length;
}

function hasEmptyLine(gap: string, from: number, to: number): boolean {
  const first = gap.indexOf('\n', from);
  if (first < 0 || first >= to) return false;
  const second = gap.indexOf('\n', first + 1);
  return second >= 0 && second < to;
}

function lineText(gap: string, { start, end }: Comment): string {
  return gap
    .slice(start, end)
    .replace(/^\/{2,}!? ?/, '')
    .trimEnd();
}

/** Returns the text without the frame of asterisks that such comments often have. */
function blockText(gap: string, { start, end }: Comment): string {
  const inner = gap
    .slice(start + 2, end - 2)
    .replace(/^\*+/, '')
    .replace(/(?<!\*)\*+$/, '');
  return inner
    .split('\n')
    .map((line) => line.replace(/^\s*\*? ?/, '').trimEnd())
    .join('\n')
    .trim();
}
