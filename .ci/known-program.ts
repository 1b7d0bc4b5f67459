/**
 * Writes `subsystems/compiler/known-program.ts`, which is committed: the variables of moc's program, and the place
 * where it makes a source map, which only its text shows. Run `npm run build:known-program` whenever the version of the
 * npm package `motoko` changes; a test fails until then.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  parse,
  type AnonymousFunctionDeclaration,
  type AnyNode,
  type ArrowFunctionExpression,
  type FunctionDeclaration,
  type FunctionExpression,
} from 'acorn';
import { mocProgramFile } from '../subsystems/compiler/core-package.ts';

const OUT = new URL('../subsystems/compiler/known-program.ts', import.meta.url);
/** Share of the text that belongs to the one function that is the program. */
const PROGRAM_SHARE = 0.7;

/**
 * Matches the place where an instruction is encoded. If the instruction's region (`at`, field 1) is not `no_region` (a
 * comparison of whole values), its place goes into the source map: the region's left end (file, line, column) as
 * variable-length numbers.
 */
const SOURCE_MAP =
  /if\(\w+\((\w+)\[1\],\w+\)\)\{(?=var \w+=\w+\(\w+\),\w+=\1\[1\]\[1\]\[3\],\w+=\1\[1\]\[1\]\[2\]-1\|0,\w+=\w+\(\1\[1\]\[1\]\[1\],)/gu;

const text = readFileSync(mocProgramFile(), 'utf8');
const program = programIn(parse(text, { ecmaVersion: 'latest' }));
const variables = variablesOf(program);
const rebound = childrenOf(program.body).flatMap((node) => [...assignedIn(node, new Set(variables))]);
const [sourceMapTest, ...others] = [...text.matchAll(SOURCE_MAP)].map(([found]) => found);
const isFound = sourceMapTest !== undefined && others.length === 0 && text.split(sourceMapTest).length === 2;
const sha256 = createHash('sha256').update(text).digest('hex');
writeFileSync(
  OUT,
  `/** Made by \`npm run build:known-program\`: SHA-256 of the program that this is about. */
export const KNOWN_PROGRAM = '${sha256}';

/** Variables of the program to which functions give other values. */
export const REBOUND: readonly string[] = ${JSON.stringify([...new Set(rebound)])};

/**
 * Text of the program that asks whether an instruction goes into the source map, and that occurs once; undefined if it
 * was not found.
 */
export const SOURCE_MAP_TEST: string | undefined = ${isFound ? JSON.stringify(sourceMapTest) : undefined};

/** All variables of the program. */
export const VARIABLES = '${variables.join(' ')}';
`,
);
console.log(`${variables.length} variables written to ${fileURLToPath(OUT)}`);
if (!isFound)
  console.log(
    'where the program makes a source map was not found: it will, which takes 3 to 5 % of a compilation (SOURCE_MAP here)',
  );

function programIn(node: AnyNode): AnyFunction {
  const isLarge = ({ start, end }: AnyNode): boolean => end - start > PROGRAM_SHARE * text.length;
  let found: AnyFunction | undefined;
  for (let inner: AnyNode | undefined = node; inner !== undefined; inner = childrenOf(inner).find(isLarge))
    if (isFunction(inner)) found = inner;
  assert.ok(found, 'one function has nearly all of the text');
  return found;
}

type AnyFunction = FunctionDeclaration | AnonymousFunctionDeclaration | FunctionExpression | ArrowFunctionExpression;

function isFunction(node: AnyNode): node is AnyFunction {
  return /^(?:Arrow)?Function/u.test(node.type);
}

/** Returns the variables that a function declares with these words, without those of functions inside it. */
function variablesOf({ body }: AnyFunction, words: readonly string[] = ['var', 'let', 'const']): readonly string[] {
  const names = new Set<string>();
  const collect = (node: AnyNode): void => {
    if (isFunction(node) || node.type.startsWith('Class')) return;
    if (node.type === 'VariableDeclaration' && words.includes(node.kind))
      for (const { id } of node.declarations) for (const name of namesIn(id)) names.add(name);
    childrenOf(node).forEach(collect);
  };
  collect(body);
  return [...names];
}

/** Returns the variables among these to which functions within the node assign. */
function assignedIn(node: AnyNode, visible: ReadonlySet<string>, isInFunction = false): ReadonlySet<string> {
  let seen = visible;
  if (isFunction(node)) {
    // Variables of inner blocks are not counted as hiding an outer one: a name too many is better than a missing one.
    const own = new Set([...variablesOf(node, ['var']), ...node.params.flatMap(namesIn), ...functionsOf(node)]);
    seen = new Set([...visible].filter((name) => !own.has(name)));
  }
  const inside = isInFunction || isFunction(node);
  const assigned = new Set<string>();
  if (inside && node.type === 'AssignmentExpression') for (const name of namesIn(node.left)) assigned.add(name);
  if (inside && node.type === 'UpdateExpression') for (const name of namesIn(node.argument)) assigned.add(name);
  const isLoop = node.type === 'ForInStatement' || node.type === 'ForOfStatement';
  if (inside && isLoop) for (const name of namesIn(node.left)) assigned.add(name);
  const found = new Set([...assigned].filter((name) => seen.has(name)));
  for (const child of childrenOf(node)) for (const name of assignedIn(child, seen, inside)) found.add(name);
  return found;
}

/** Returns the names of the functions that a function declares. */
function functionsOf({ body }: AnyFunction): readonly string[] {
  const names: string[] = [];
  const collect = (node: AnyNode): void => {
    if (node.type === 'FunctionDeclaration') names.push(...namesIn(node.id ?? node.body));
    if (!isFunction(node)) childrenOf(node).forEach(collect);
  };
  childrenOf(body).forEach(collect);
  return names;
}

/** Returns the variables that a pattern sets. */
function namesIn(pattern: AnyNode): readonly string[] {
  if (pattern.type === 'Identifier') return [pattern.name];
  const isPattern = /(?:Pattern|RestElement|^Property)$/u.test(pattern.type);
  return isPattern ? childrenOf(pattern).flatMap(namesIn) : [];
}

function childrenOf(node: AnyNode): readonly AnyNode[] {
  const isNode = (value: unknown): value is AnyNode => typeof value === 'object' && value !== null && 'type' in value;
  return Object.values(node).flatMap((value: unknown) =>
    Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : [],
  );
}
