/**
 * Types of stable variables, read from a module's stable signature (`motoko:stable-types`). The text comes from a
 * module and may be anything: parsing takes linear time, and names that stand for types are looked up only when a value
 * is read.
 *
 * Worker thread.
 */
import { at } from '../../kernel/index.ts';
import {
  partsOf,
  type Signature,
  type SignatureGroup,
  type SignatureNode,
  type SignatureType,
} from '../compatibility/signature/index.ts';

/** The name of a field or a tag in Candid, with the hash that stands for it in memory. */
interface Label {
  readonly name: string;
  readonly hash: number;
}

export interface FieldType extends Label {
  readonly isMutable: boolean;
  readonly type: StableType;
}

interface TagType extends Label {
  readonly type: StableType;
}

export type StableType =
  | { readonly kind: 'primitive'; readonly name: string }
  | { readonly kind: 'option' | 'weak'; readonly of: StableType }
  | { readonly kind: 'array'; readonly of: StableType; readonly isMutable: boolean }
  | { readonly kind: 'tuple'; readonly of: readonly StableType[] }
  | { readonly kind: 'object'; readonly fields: readonly FieldType[] }
  | { readonly kind: 'actor' | 'function' }
  | { readonly kind: 'variant'; readonly tags: readonly TagType[] }
  | { readonly kind: 'named'; readonly name: string; readonly of: readonly StableType[] }
  /** A type that this version cannot read, with its text. */
  | { readonly kind: 'unknown'; readonly text: string };

export interface StableVariable extends Label {
  readonly isMutable: boolean;
  readonly type: StableType;
  /** The type as written. */
  readonly written: SignatureType;
}

/** Returns the hash of a label in memory: that of Candid, less its highest bit. */
export function hashOf(name: string): number {
  return hashOfBytes(name) & 0x7fff_ffff;
}

/** Returns the Candid id of a label. `_7_` stands for the number itself. */
function candidIdOf(name: string): number {
  const numbered = NUMBERED.exec(name)?.[1];
  return numbered !== undefined && Number(numbered) < 2 ** 32 ? Number(numbered) : hashOfBytes(name);
}

/** Returns a label as Motoko names it in Candid, where its keywords are plain names: `label_` is `label`. */
function candidNameOf(name: string): string {
  return name.endsWith('_') && !NUMBERED.test(name) ? name.slice(0, -1) : name;
}

const NUMBERED = /^_(\d+|0x[\dA-Fa-f]+)_$/;

function hashOfBytes(name: string): number {
  let hash = 0;
  for (const byte of Buffer.from(name)) hash = (Math.imul(hash, 223) + byte) >>> 0;
  return hash;
}

/** Returns the variables of a signature. */
export function variablesOf({ variables }: Signature): readonly StableVariable[] {
  return partsOf(variables, ';').flatMap((part) => {
    const colon = part.indexOf(':');
    const name = part[colon - 1];
    if (colon < 1 || typeof name !== 'string') return [];
    const written = part.slice(colon + 1);
    const isMutable = part.slice(0, colon - 1).includes('var');
    return [{ name, hash: hashOf(name), isMutable, type: typeOf(written), written }];
  });
}

/** Reads one type; what follows it is left out. */
function typeOf(nodes: SignatureType): StableType {
  return new TypeReader(nodes).type();
}

class TypeReader {
  readonly #nodes: readonly SignatureNode[];
  #at = 0;

  constructor(nodes: readonly SignatureNode[]) {
    this.#nodes = nodes;
  }

  type(): StableType {
    const start = this.#at;
    const type = this.#simple();
    if (this.#nodes[this.#at] !== '->') return type;
    // The types of a function are of no use to who reads a reference to it.
    this.#at++;
    this.type();
    return start === this.#at ? unknown(this.#nodes) : { kind: 'function' };
  }

  /** Reads types between commas, each perhaps with a name: `Nat, text : Text`. */
  list(): readonly StableType[] {
    const types: StableType[] = [];
    while (this.#at < this.#nodes.length) {
      if (this.#nodes[this.#at + 1] === ':') this.#at += 2;
      types.push(this.type());
      if (this.#nodes[this.#at++] !== ',') break;
    }
    return types;
  }

  #simple(): StableType {
    let options = 0;
    while (this.#nodes[this.#at] === '?') {
      options++;
      this.#at++;
    }
    let type = this.#core();
    for (; options > 0; options--) type = { kind: 'option', of: type };
    return type;
  }

  #core(): StableType {
    const node = this.#nodes[this.#at++];
    if (node === undefined) return unknown(this.#nodes);
    if (typeof node === 'object') return groupType(node);
    const next = this.#nodes[this.#at];
    switch (node) {
      case 'actor':
        if (typeof next === 'object') this.#at++;
        return { kind: 'actor' };
      case 'object':
      case 'module':
      case 'memory':
        return this.#core();
      case 'weak':
        return { kind: 'weak', of: this.#simple() };
      case 'shared':
        return this.#sharedFunction();
      case 'async':
        if (next === '*') this.#at++;
        return this.#simple();
    }
    if (!/^[A-Za-z_]/.test(node)) return unknown(this.#nodes);
    if (PRIMITIVES.has(node)) return { kind: 'primitive', name: node };
    return { kind: 'named', name: node, of: next === '<' ? this.#arguments() : [] };
  }

  #sharedFunction(): StableType {
    while (this.#nodes[this.#at] === 'query' || this.#nodes[this.#at] === 'composite') this.#at++;
    this.type();
    return { kind: 'function' };
  }

  #arguments(): readonly StableType[] {
    const types: StableType[] = [];
    do {
      this.#at++;
      types.push(this.type());
    } while (this.#nodes[this.#at] === ',');
    if (this.#nodes[this.#at] === '>') this.#at++;
    return types;
  }
}

const PRIMITIVES = new Set(
  ['Null', 'Bool', 'Nat', 'Nat8', 'Nat16', 'Nat32', 'Nat64', 'Int', 'Int8', 'Int16', 'Int32', 'Int64'].concat([
    'Float',
    'Char',
    'Text',
    'Blob',
    'Principal',
    'Region',
    'Any',
    'None',
    'Error',
  ]),
);

function unknown(nodes: readonly SignatureNode[]): StableType {
  const text = nodes.map((node) => (typeof node === 'string' ? node : `${node.open}…`)).join(' ');
  return { kind: 'unknown', text: text.slice(0, 80) };
}

function groupType(group: SignatureGroup): StableType {
  const { open, items } = group;
  if (open === '[') {
    const isMutable = items[0] === 'var';
    return { kind: 'array', isMutable, of: typeOf(isMutable ? items.slice(1) : items) };
  }
  if (open === '(') {
    const parts = new TypeReader(items).list();
    return parts.length === 1 ? at(parts, 0, 'part') : { kind: 'tuple', of: parts };
  }
  const first = items[0];
  if (typeof first === 'string' && first.startsWith('#')) return { kind: 'variant', tags: tagsOf(group) };
  return { kind: 'object', fields: fieldsOf(group) };
}

function tagsOf(group: SignatureGroup): readonly TagType[] {
  return partsOf(group, ';').flatMap(([tag, colon, ...type]) => {
    if (typeof tag !== 'string' || tag.length < 2) return [];
    const name = tag.slice(1);
    return [{ name: candidNameOf(name), hash: hashOf(name), type: colon === ':' ? typeOf(type) : UNIT }];
  });
}

const UNIT: StableType = { kind: 'tuple', of: [] };

function fieldsOf(group: SignatureGroup): readonly FieldType[] {
  const fields = partsOf(group, ';').flatMap((part) => {
    const colon = part.indexOf(':');
    const name = part[colon - 1];
    // Types among the fields of a module have no value.
    if (colon < 1 || typeof name !== 'string' || part[0] === 'type') return [];
    return [
      {
        name: candidNameOf(name),
        hash: hashOf(name),
        isMutable: colon > 1 && part[0] === 'var',
        type: typeOf(part.slice(colon + 1)),
      },
    ];
  });
  return fields.toSorted((a, b) => candidIdOf(a.name) - candidIdOf(b.name));
}

/** Names that stand for types, and what they stand for. */
export class TypeNames {
  readonly #definitions: ReadonlyMap<string, { readonly parameters: readonly string[]; readonly nodes: SignatureType }>;
  readonly #read = new Map<string, StableType>();

  constructor({ definitions, parameters }: Signature) {
    this.#definitions = new Map(
      [...definitions].map(([name, nodes]) => [name, { nodes, parameters: parameters.get(name) ?? [] }]),
    );
  }

  /** Returns the type behind names. */
  resolved(type: StableType): Exclude<StableType, { readonly kind: 'named' }> {
    let current = type;
    for (let steps = 0; current.kind === 'named'; steps++) {
      const { name, of } = current;
      const definition = this.#definitions.get(name);
      if (definition === undefined || steps === RENAMINGS_MAX) return { kind: 'unknown', text: name };
      const found = this.#read.get(name) ?? typeOf(definition.nodes);
      this.#read.set(name, found);
      const { parameters } = definition;
      current =
        parameters.length === 0 ? found : substituted(found, new Map(parameters.map((each, k) => [each, of[k]])));
    }
    return current;
  }
}

const RENAMINGS_MAX = 100;

/** Returns a type with arguments in place of its parameters. */
function substituted(type: StableType, given: ReadonlyMap<string, StableType | undefined>): StableType {
  switch (type.kind) {
    case 'named': {
      const argument = given.get(type.name);
      if (argument !== undefined) return argument;
      return type.of.length === 0 ? type : { ...type, of: type.of.map((each) => substituted(each, given)) };
    }
    case 'option':
    case 'weak':
    case 'array':
      return { ...type, of: substituted(type.of, given) };
    case 'tuple':
      return { ...type, of: type.of.map((each) => substituted(each, given)) };
    case 'object':
      return { ...type, fields: type.fields.map((each) => ({ ...each, type: substituted(each.type, given) })) };
    case 'variant':
      return { ...type, tags: type.tags.map((each) => ({ ...each, type: substituted(each.type, given) })) };
    default:
      return type;
  }
}
