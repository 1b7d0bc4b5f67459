/** Random Candid interfaces, as .did text and as types of the reference library, and small changes of them. */
import { IDL } from '@dfinity/candid';
import type { Seeded } from '../../support/seeded.ts';

type Shape =
  | { readonly kind: 'plain'; readonly name: PlainName }
  | { readonly kind: 'name'; readonly at: number }
  | { readonly kind: 'opt' | 'vec'; readonly inner: Shape }
  | { readonly kind: 'record' | 'variant'; readonly fields: ReadonlyMap<string, Shape> }
  | FunctionShape
  | { readonly kind: 'service'; readonly methods: ReadonlyMap<string, FunctionShape> };

interface FunctionShape {
  readonly kind: 'func';
  readonly parameters: readonly Shape[];
  readonly results: readonly Shape[];
  readonly annotation: '' | 'query' | 'composite_query';
}

/** `definitions` may refer to each other, and to themselves. */
interface RandomInterface {
  readonly definitions: readonly Shape[];
  readonly methods: ReadonlyMap<string, FunctionShape>;
}

const PLAIN = {
  null: IDL.Null,
  bool: IDL.Bool,
  nat: IDL.Nat,
  int: IDL.Int,
  nat8: IDL.Nat8,
  text: IDL.Text,
  reserved: IDL.Reserved,
  empty: IDL.Empty,
  principal: IDL.Principal,
} as const;
type PlainName = keyof typeof PLAIN;
const PLAIN_NAMES: readonly [PlainName, ...PlainName[]] = [
  'nat',
  'null',
  'bool',
  'int',
  'nat8',
  'text',
  'reserved',
  'empty',
  'principal',
];
const LABELS: readonly [string, ...string[]] = ['a', 'b', 'c', 'd'];
const DEFINITIONS = 3;

export function randomInterface(random: Seeded): RandomInterface {
  const maker = new ShapeMaker(random);
  return {
    definitions: Array.from({ length: DEFINITIONS }, () => maker.definition()),
    methods: new Map(LABELS.slice(0, 2).map((label) => [label, maker.func(2)])),
  };
}

/** Returns the interface with a few shapes replaced. */
export function changedInterface(random: Seeded, { definitions, methods }: RandomInterface): RandomInterface {
  const maker = new ShapeMaker(random);
  const changed = new Map([...methods].map(([name, shape]) => [name, maker.changedFunction(shape)]));
  if (random.oneIn(12)) changed.delete('a');
  if (random.oneIn(4)) changed.set('z', maker.func(1));
  return {
    definitions: definitions.map((shape) => {
      const other = maker.changed(shape);
      return ['plain', 'name', 'opt'].includes(other.kind) ? shape : other;
    }),
    methods: changed,
  };
}

class ShapeMaker {
  readonly #random: Seeded;

  constructor(random: Seeded) {
    this.#random = random;
  }

  shape(depth: number): Shape {
    const random = this.#random;
    if (depth === 0 || random.oneIn(3)) {
      return random.oneIn(3)
        ? { kind: 'name', at: random.below(DEFINITIONS) }
        : { kind: 'plain', name: random.pick(PLAIN_NAMES) };
    }
    return this.composite(depth);
  }

  /**
   * Draws a constructed type, so that no name stands only for itself. It is no `opt`: behind a name the reference
   * library does not see that a missing argument may be one.
   */
  definition(): Shape {
    for (;;) {
      const shape = this.composite(2);
      if (shape.kind !== 'opt') return shape;
    }
  }

  composite(depth: number): Shape {
    const kind = this.#random.pick(['record', 'variant', 'opt', 'vec', 'record', 'variant', 'func', 'service']);
    if (kind === 'opt' || kind === 'vec') return { kind, inner: this.shape(depth - 1) };
    if (kind === 'func') return this.func(depth - 1);
    if (kind === 'service') return { kind, methods: this.#labelled(() => this.func(0)) };
    return { kind: kind === 'record' ? 'record' : 'variant', fields: this.#labelled(() => this.shape(depth - 1)) };
  }

  func(depth: number): FunctionShape {
    const list = (): Shape[] => Array.from({ length: this.#random.below(3) }, () => this.shape(Math.max(depth, 0)));
    const annotation = this.#random.pick(['', '', 'query', 'composite_query'] as const);
    return { kind: 'func', parameters: list(), results: list(), annotation };
  }

  changed(shape: Shape): Shape {
    const random = this.#random;
    if (random.oneIn(14)) return this.shape(1);
    switch (shape.kind) {
      case 'plain':
        return random.oneIn(6) && shape.name === 'nat' ? { kind: 'plain', name: 'int' } : shape;
      case 'name':
        return shape;
      case 'opt':
      case 'vec':
        return { kind: shape.kind, inner: this.changed(shape.inner) };
      case 'func':
        return this.changedFunction(shape);
      case 'service':
        return {
          kind: 'service',
          methods: new Map([...shape.methods].map(([name, method]) => [name, this.changedFunction(method)])),
        };
      default: {
        const fields = new Map([...shape.fields].map(([label, field]) => [label, this.changed(field)]));
        if (random.oneIn(6))
          fields.set(random.pick(LABELS), random.oneIn(2) ? { kind: 'opt', inner: this.shape(0) } : this.shape(0));
        if (random.oneIn(10)) fields.delete(random.pick(LABELS));
        return { kind: shape.kind, fields };
      }
    }
  }

  changedFunction({ parameters, results, annotation }: FunctionShape): FunctionShape {
    const random = this.#random;
    const list = (shapes: readonly Shape[]): readonly Shape[] => {
      const changed = shapes.map((shape) => this.changed(shape));
      if (random.oneIn(10)) changed.push(random.oneIn(2) ? { kind: 'opt', inner: this.shape(0) } : this.shape(0));
      return random.oneIn(12) ? changed.slice(0, -1) : changed;
    };
    return {
      kind: 'func',
      parameters: list(parameters),
      results: list(results),
      annotation: random.oneIn(30) ? 'query' : annotation,
    };
  }

  #labelled<T>(make: () => T): ReadonlyMap<string, T> {
    return new Map(LABELS.filter(() => this.#random.oneIn(2)).map((label) => [label, make()]));
  }
}

export function didOf({ definitions, methods }: RandomInterface): string {
  return [
    ...definitions.map((shape, at) => `type T${at} = ${shapeText(shape)};`),
    `service : ${methodsText(methods)}`,
  ].join('\n');
}

function shapeText(shape: Shape): string {
  switch (shape.kind) {
    case 'plain':
      return shape.name;
    case 'name':
      return `T${shape.at}`;
    case 'opt':
    case 'vec':
      return `${shape.kind} ${shapeText(shape.inner)}`;
    case 'func':
      return `func ${signatureText(shape)}`;
    case 'service':
      return `service ${methodsText(shape.methods)}`;
    default:
      return `${shape.kind} { ${[...shape.fields].map(([label, field]) => `${label} : ${shapeText(field)}`).join('; ')} }`;
  }
}

function methodsText(methods: ReadonlyMap<string, FunctionShape>): string {
  return `{ ${[...methods].map(([name, method]) => `${name} : ${signatureText(method)}`).join('; ')} }`;
}

function signatureText({ parameters, results, annotation }: FunctionShape): string {
  const tuple = (shapes: readonly Shape[]): string => `(${shapes.map(shapeText).join(', ')})`;
  return `${tuple(parameters)} -> ${tuple(results)} ${annotation}`;
}

/** Returns the service as the reference library represents it. */
export function idlOf({ definitions, methods }: RandomInterface): IDL.Type {
  const names = definitions.map(() => IDL.Rec());
  const typeOf = (shape: Shape): IDL.Type => {
    switch (shape.kind) {
      case 'plain':
        return PLAIN[shape.name];
      case 'name':
        return names[shape.at] ?? IDL.Empty;
      case 'opt':
        return IDL.Opt(typeOf(shape.inner));
      case 'vec':
        return IDL.Vec(typeOf(shape.inner));
      case 'func':
        return functionOf(shape);
      case 'service':
        return serviceOf(shape.methods);
      case 'record':
        return IDL.Record(Object.fromEntries([...shape.fields].map(([label, field]) => [label, typeOf(field)])));
      default:
        return IDL.Variant(Object.fromEntries([...shape.fields].map(([label, field]) => [label, typeOf(field)])));
    }
  };
  const functionOf = ({ parameters, results, annotation }: FunctionShape): IDL.FuncClass =>
    IDL.Func(parameters.map(typeOf) as [], results.map(typeOf) as [], annotation === '' ? [] : [annotation]);
  const serviceOf = (functions: ReadonlyMap<string, FunctionShape>): IDL.Type =>
    IDL.Service(Object.fromEntries([...functions].map(([name, shape]) => [name, functionOf(shape)])));
  for (const [at, shape] of definitions.entries()) names[at]?.fill(typeOf(shape) as IDL.ConstructType);
  return serviceOf(methods);
}
