/**
 * Parses a stable signature, the text that Motoko's compiler leaves in `motoko:stable-types`, as far as a list of
 * differences needs: its words and brackets as a tree, the definitions by name, and the variables. Only the compiler
 * decides if one signature may follow another. The text comes from a module and may be anything: parsing takes linear
 * time, and nothing nests deeper than `NESTING_MAX`.
 *
 *     // Version: 1.0.0                  // Version: 3.0.0
 *     type L = ?(Nat, L);                actor ({ in var n : Nat }, { stable var k : Int });
 *     actor { stable var list : L };
 */
/** Largest depth of brackets; texts written by people stay below 20. */
const NESTING_MAX = 200;

type Bracket = '{' | '(' | '[';
/** A word, a sign, or the content of a pair of brackets. */
export type SignatureNode = string | SignatureGroup;
export interface SignatureGroup {
  readonly open: Bracket;
  readonly items: readonly SignatureNode[];
}

/** A type as written. */
export type SignatureType = readonly SignatureNode[];

export interface Signature {
  /** Types that names stand for. */
  readonly definitions: ReadonlyMap<string, SignatureType>;
  /** Names of the parameters that some of these types have. */
  readonly parameters: ReadonlyMap<string, readonly string[]>;
  /** The variables after all migrations: `{ stable var n : Nat }`. */
  readonly variables: SignatureGroup;
}

const CLOSING: Readonly<Record<Bracket, string>> = { '{': '}', '(': ')', '[': ']' };
/**
 * Matches blanks and comments; words, tags and quoted names (even one without an end, which is searched for only once);
 * signs.
 */
const TOKEN = /\s+|\/\/[^\n]*|[#]?[A-Za-z_]\w*|"(?:[^"\\\n]|\\.)*"?|\d+|->|<:|./gsu;

/** Error for a text that is no signature, or one that cannot be parsed; only the comparison sees it. */
export class UnreadableSignature extends Error {}

/** Parses a signature. Throws UnreadableSignature. */
export function readSignature(text: string): Signature {
  const nodes = treeOf(text);
  const definitions = new Map<string, SignatureType>();
  const parameters = new Map<string, readonly string[]>();
  let variables: SignatureGroup | undefined;
  for (let at = 0; at < nodes.length; at++) {
    const node = nodes[at];
    const name = nodes[at + 1];
    if (node === 'type' && typeof name === 'string') {
      const end = endOfPart(nodes, at, ';');
      const equals = nodes.indexOf('=', at);
      if (equals < 0 || equals > end) throw unreadable(`the type ${name} has no definition`);
      definitions.set(name, nodes.slice(equals + 1, end));
      const named = parametersIn(nodes.slice(at + 2, equals));
      if (named.length > 0) parameters.set(name, named);
      at = end;
    } else if (node === 'actor' && typeof name === 'object') {
      variables = name.open === '{' ? name : lastGroup(name);
    }
  }
  if (variables === undefined) throw unreadable('it names no actor');
  return { definitions, parameters, variables };
}

/** Returns the names in `<K, V <: Any>`. */
function parametersIn(nodes: readonly SignatureNode[]): readonly string[] {
  return nodes.filter(
    (node, k): node is string =>
      typeof node === 'string' && (nodes[k - 1] === '<' || nodes[k - 1] === ',') && node !== '>',
  );
}

/** Returns the parts between separators: fields between `;`, elements between `,`. */
export function partsOf({ items }: SignatureGroup, separator: ';' | ','): readonly SignatureType[] {
  const parts: SignatureType[] = [];
  for (let start = 0; start < items.length;) {
    const end = endOfPart(items, start, separator);
    parts.push(items.slice(start, end));
    start = end + 1;
  }
  return parts;
}

/** Longest type in a report for people; longer ones are cut. */
const CHARACTERS_MAX = 160;
const TIGHT_AFTER = /[({[?.#<]$/;
const TIGHT_BEFORE = /^(?:[)}\],;.>]|<$)/;

export function signatureText(type: SignatureType, charactersMax = CHARACTERS_MAX): string {
  const text = textOf(type, charactersMax);
  return text.length > charactersMax ? `${text.slice(0, charactersMax)}…` : text;
}

function textOf(type: SignatureType, charactersMax: number): string {
  let text = '';
  for (const node of type) {
    if (text.length > charactersMax) break;
    const next =
      typeof node === 'string' ? node : `${node.open}${textOf(node.items, charactersMax)}${CLOSING[node.open]}`;
    text += text === '' || TIGHT_AFTER.test(text) || TIGHT_BEFORE.test(next) ? next : ` ${next}`;
  }
  return text;
}

function treeOf(text: string): readonly SignatureNode[] {
  const root: SignatureNode[] = [];
  const open: { readonly close: string; readonly outer: SignatureNode[] }[] = [];
  let items = root;
  for (const [token] of text.matchAll(TOKEN)) {
    if (/^\s|^\/\//.test(token)) continue;
    if (token === '{' || token === '(' || token === '[') {
      if (open.length === NESTING_MAX) throw unreadable(`brackets are nested deeper than ${NESTING_MAX} levels`);
      const inner: SignatureNode[] = [];
      items.push({ open: token, items: inner });
      open.push({ close: CLOSING[token], outer: items });
      items = inner;
    } else if (token === open.at(-1)?.close) {
      items = open.pop()?.outer ?? root;
    } else if (token === '}' || token === ')' || token === ']') {
      throw unreadable(`there is a ${token} too many`);
    } else {
      items.push(token);
    }
  }
  if (open.length > 0) throw unreadable(`a ${open.at(-1)?.close ?? ''} is missing at the end`);
  return root;
}

function endOfPart(nodes: readonly SignatureNode[], start: number, separator: string): number {
  const end = nodes.indexOf(separator, start);
  return end < 0 ? nodes.length : end;
}

/** Returns the second group of a pair `({ what a migration takes }, { what there is afterwards })`. */
function lastGroup({ items }: SignatureGroup): SignatureGroup | undefined {
  return items.findLast((item): item is SignatureGroup => typeof item === 'object' && item.open === '{');
}

function unreadable(problem: string): UnreadableSignature {
  return new UnreadableSignature(problem);
}
