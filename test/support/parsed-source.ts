/** Functions, exports and imports of a TypeScript file, as its syntax tree has them. */
import { parseSync } from '@swc/core';

interface ParsedFunction {
  /** As it is named where it is declared; a nameless one is named by where it stands: `(line 12)`. */
  readonly name: string;
  /** Lines from its first to its last, both included. */
  readonly lines: number;
}

export interface ParsedSource {
  readonly functions: readonly ParsedFunction[];
  /** Names that are declared here and exported. */
  readonly declared: readonly string[];
  /** Names that are exported from elsewhere: `export { name } from`. */
  readonly passedOn: readonly ImportedName[];
  readonly imported: readonly ImportedName[];
  /** Relative specifiers of files whose exports are all exported here: `export * from`. */
  readonly starred: readonly string[];
}

interface ImportedName {
  /** A relative specifier. */
  readonly from: string;
  /** The name in the file that it comes from; undefined: all of the file (`import * as`, `import()`). */
  readonly name: string | undefined;
}

/** A node of the tree that @swc/core makes; its types name every kind of node, and here any kind may come. */
interface Node {
  readonly type?: string;
  readonly span?: { readonly start: number; readonly end: number };
  readonly [field: string]: unknown;
}

const FUNCTIONS = new Set([
  'ArrowFunctionExpression',
  'ClassMethod',
  'Constructor',
  'FunctionDeclaration',
  'FunctionExpression',
  'GetterProperty',
  'MethodProperty',
  'PrivateMethod',
  'SetterProperty',
]);

const parsedBefore = new Map<string, ParsedSource>();

/** Each text is parsed once a process, because that takes some milliseconds. */
export function parseSource(file: string, text: string): ParsedSource {
  const before = parsedBefore.get(text);
  if (before !== undefined) return before;
  const parsed = parse(file, text);
  parsedBefore.set(text, parsed);
  return parsed;
}

function parse(file: string, text: string): ParsedSource {
  const parsed: Node = {
    ...parseSync(text, { syntax: 'typescript', decorators: true, tsx: file.endsWith('.tsx'), target: 'esnext' }),
  };
  const bytes = Buffer.from(text);
  const found = { functions: [], declared: [], passedOn: [], imported: [], starred: [] } satisfies ParsedSource;
  new SourceReader(bytes, found).read(parsed);
  return found;
}

type Found = { -readonly [Field in keyof ParsedSource]: ParsedSource[Field][number][] };

class SourceReader {
  readonly #bytes: Buffer;
  readonly #found: Found;

  constructor(bytes: Buffer, found: Found) {
    this.#bytes = bytes;
    this.#found = found;
  }

  /** @param named The name that a function gets that has none. */
  read(value: unknown, named?: string): void {
    if (Array.isArray(value)) {
      for (const each of value as unknown[]) this.read(each);
      return;
    }
    if (typeof value !== 'object' || value === null) return;
    const node = value as Node;
    const name = nameOf(node) ?? named;
    if (FUNCTIONS.has(node.type ?? '')) this.#addFunction(node, name);
    else this.#addModuleItem(node);
    for (const [field, child] of Object.entries(node)) {
      if (field !== 'span') this.read(child, field === 'init' || field === 'value' ? name : undefined);
    }
  }

  #addFunction(node: Node, name: string | undefined): void {
    const { start = 1, end = 1 } = node.span ?? {};
    const lines = 1 + lineFeedsBetween(this.#bytes, start - 1, end - 1);
    this.#found.functions.push({ name: name ?? `(line ${1 + lineFeedsBetween(this.#bytes, 0, start - 1)})`, lines });
  }

  #addModuleItem(node: Node): void {
    const from = (node['source'] as { readonly value?: string } | undefined)?.value;
    const isRelative = from?.startsWith('.') === true;
    if (node.type === 'ExportDeclaration') this.#found.declared.push(...declaredBy(node['declaration'] as Node));
    else if (node.type === 'ExportNamedDeclaration') {
      const names = namesOf(node, 'orig');
      if (from === undefined) this.#found.declared.push(...namesOf(node, 'exported'));
      else if (isRelative) this.#found.passedOn.push(...names.map((name) => ({ from, name })));
    } else if (node.type === 'ExportAllDeclaration' && isRelative) this.#found.starred.push(from);
    else if (node.type === 'ImportDeclaration' && isRelative) this.#addImports(node, from);
    else this.#addWholeImport(node);
  }

  #addImports(node: Node, from: string): void {
    for (const specifier of node['specifiers'] as readonly Node[]) {
      if (specifier.type === 'ImportNamespaceSpecifier') this.#found.imported.push({ from, name: undefined });
      else if (specifier.type === 'ImportSpecifier')
        this.#found.imported.push({ from, name: identifier(specifier['imported']) ?? identifier(specifier['local']) });
    }
  }

  /** Adds what `import('…')` names, as an expression or as a type. */
  #addWholeImport(node: Node): void {
    let named: unknown;
    if (node.type === 'TsImportType') named = node['argument'];
    else if (node.type === 'CallExpression' && (node['callee'] as Node).type === 'Import')
      named = (node['arguments'] as readonly { readonly expression?: unknown }[])[0]?.expression;
    const from = (named as { readonly value?: unknown } | undefined)?.value;
    if (typeof from === 'string' && from.startsWith('.')) this.#found.imported.push({ from, name: undefined });
  }
}

function nameOf(node: Node): string | undefined {
  return identifier(node['identifier']) ?? identifier(node['key']) ?? identifier(node['id']);
}

function identifier(node: unknown): string | undefined {
  const value = (node as Node | null | undefined)?.['value'];
  return typeof value === 'string' ? value : undefined;
}

function declaredBy(declaration: Node): readonly string[] {
  const variables = declaration['declarations'] as readonly Node[] | undefined;
  return (variables ?? [declaration]).map(nameOf).filter((name) => name !== undefined);
}

function namesOf(node: Node, field: 'orig' | 'exported'): readonly string[] {
  return (node['specifiers'] as readonly Node[])
    .map((specifier) => identifier(specifier[field]) ?? identifier(specifier['orig']))
    .filter((name) => name !== undefined);
}

function lineFeedsBetween(bytes: Buffer, start: number, end: number): number {
  let count = 0;
  for (let at = bytes.indexOf(10, start); at >= 0 && at < end; at = bytes.indexOf(10, at + 1)) count++;
  return count;
}
