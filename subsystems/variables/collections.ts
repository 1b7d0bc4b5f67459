/**
 * Collections of `mo:core`, recognised by the structure of their types, and read as what they are: a `Map` as its
 * entries in order, a `Set` and a `List` as their elements.
 *
 * Worker thread.
 */
import { UnreadableHeap, type HeapReader, NULL, TAG, WORD_BYTES } from './heap-reader.ts';
import { hashOf, type StableType, type TypeNames } from './stable-types.ts';

export interface Collection {
  readonly kind: 'map' | 'set' | 'list';
  /** Type of an element; a pair for maps. */
  readonly of: StableType;
}

const ROOT = hashOf('root');
const SIZE = hashOf('size');
const DATA = hashOf('data');
const COUNT = hashOf('count');
const CHILDREN = hashOf('children');
const KVS = hashOf('kvs');
const ELEMENTS = hashOf('elements');
const BLOCKS = hashOf('blocks');
const BLOCK_INDEX = hashOf('blockIndex');
const ELEMENT_INDEX = hashOf('elementIndex');
const LEAF = BigInt(hashOf('leaf'));

type Fields = ReadonlyMap<string, StableType>;

/** Returns the collection that a type is; undefined: it is none. */
export function collectionOf(type: StableType, names: TypeNames): Collection | undefined {
  if (type.kind !== 'object') return undefined;
  const fields = fieldsOf(type, names);
  if (isNamed(fields, ['blockIndex', 'blocks', 'elementIndex'])) {
    const of = optionIn(arrayIn(arrayIn(fields.get('blocks'), names), names), names);
    return of && { kind: 'list', of };
  }
  if (!isNamed(fields, ['root', 'size'])) return undefined;
  const root = resolved(fields.get('root'), names);
  const leaf = root?.kind === 'variant' ? root.tags.find(({ name }) => name === 'leaf') : undefined;
  if (root?.kind !== 'variant' || leaf === undefined || !root.tags.some(({ name }) => name === 'internal'))
    return undefined;
  const data = fieldsOf(fieldsOf(resolved(leaf.type, names), names).get('data'), names);
  const kind = isNamed(data, ['count', 'kvs']) ? 'map' : isNamed(data, ['count', 'elements']) ? 'set' : undefined;
  const of = optionIn(arrayIn(data.get(kind === 'map' ? 'kvs' : 'elements'), names), names);
  return kind && of && { kind, of };
}

function resolved(type: StableType | undefined, names: TypeNames): StableType | undefined {
  return type && names.resolved(type);
}

function fieldsOf(type: StableType | undefined, names: TypeNames): Fields {
  const object = resolved(type, names);
  return new Map(object?.kind === 'object' ? object.fields.map(({ name, type: of }) => [name, of]) : []);
}

function isNamed(fields: Fields, names: readonly string[]): boolean {
  return fields.size === names.length && names.every((name) => fields.has(name));
}

function arrayIn(type: StableType | undefined, names: TypeNames): StableType | undefined {
  const array = resolved(type, names);
  return array?.kind === 'array' ? array.of : undefined;
}

function optionIn(type: StableType | undefined, names: TypeNames): StableType | undefined {
  const option = resolved(type, names);
  return option?.kind === 'option' ? option.of : undefined;
}

/** Returns the number of elements that a collection says it has. */
export function sizeOf(heap: HeapReader, value: bigint, { kind }: Collection): number {
  if (kind !== 'list') return Number(mutable(heap, value, SIZE));
  let size = 0;
  for (const { to } of blocksOf(heap, value)) size += to;
  return size;
}

/** Yields the elements from the given one on. `spend` is told of the work and may throw. */
export function* elementsOf(
  heap: HeapReader,
  value: bigint,
  { kind }: Collection,
  from: number,
  spend: () => void,
): Generator<bigint, void, void> {
  let left = from;
  for (const { array, to } of kind === 'list' ? blocksOf(heap, value, spend) : leavesOf(heap, value, kind, spend)) {
    for (let k = Math.min(left, to); k < to; k++) {
      spend();
      yield some(heap, heap.element(array, k));
    }
    left = Math.max(0, left - to);
  }
}

/** Elements up to `to` of an array. */
interface Run {
  readonly array: ReturnType<HeapReader['object']>;
  readonly to: number;
}

function* blocksOf(heap: HeapReader, value: bigint, spend?: () => void): Generator<Run, void, void> {
  const blocks = heap.object(mutableValue(heap, value, BLOCKS), TAG.MUTABLE_ARRAY);
  const last = Number(mutable(heap, value, BLOCK_INDEX));
  const elements = Number(mutable(heap, value, ELEMENT_INDEX));
  const count = Math.min(heap.lengthOf(blocks), last + 1);
  for (let k = 0; k < count; k++) {
    spend?.();
    const array = heap.object(heap.element(blocks, k), TAG.MUTABLE_ARRAY);
    const length = heap.lengthOf(array);
    yield { array, to: k === last ? Math.min(elements, length) : length };
  }
}

/** Depth at which a tree of 32 children each is deeper than any memory. */
const TREE_DEPTH_MAX = 64;

/** Yields runs of a B-tree's elements in order: an inner node's elements are between its children. */
function* leavesOf(
  heap: HeapReader,
  value: bigint,
  kind: 'map' | 'set',
  spend: () => void,
  node = mutableValue(heap, value, ROOT),
  depth = 0,
): Generator<Run, void, void> {
  spend();
  if (depth > TREE_DEPTH_MAX)
    throw new UnreadableHeap(`the tree at ${heap.object(value).at} is deeper than ${TREE_DEPTH_MAX}`);
  const variant = heap.object(node, TAG.VARIANT);
  const payload = heap.part(variant, 1);
  const data = field(heap, payload, DATA);
  const array = heap.object(field(heap, data, kind === 'map' ? KVS : ELEMENTS), TAG.MUTABLE_ARRAY);
  const count = Math.min(Number(mutable(heap, data, COUNT)), heap.lengthOf(array));
  if (heap.part(variant, 0) === LEAF) {
    yield { array, to: count };
    return;
  }
  const children = heap.object(field(heap, payload, CHILDREN), TAG.MUTABLE_ARRAY);
  for (let k = 0; k <= count; k++) {
    yield* leavesOf(heap, value, kind, spend, some(heap, heap.element(children, k)), depth + 1);
    if (k < count) yield { array: single(array, k), to: 1 };
  }
}

/** Returns an array whose first element is the k-th one of another; its length is not to be asked. */
function single(array: Run['array'], k: number): Run['array'] {
  return { ...array, at: array.at + WORD_BYTES * k };
}

function field(heap: HeapReader, value: bigint, hash: number): bigint {
  const object = heap.object(value, TAG.OBJECT);
  const found = heap.field(object, hash);
  if (found === undefined) throw new UnreadableHeap(`the object at ${object.at} lacks a field of its type`);
  return found;
}

function mutableValue(heap: HeapReader, value: bigint, hash: number): bigint {
  return heap.part(heap.object(field(heap, value, hash), TAG.BOX), 0);
}

function mutable(heap: HeapReader, value: bigint, hash: number): bigint {
  return heap.integer(mutableValue(heap, value, hash));
}

/** Returns the value in an option that is not null. */
function some(heap: HeapReader, value: bigint): bigint {
  if (value === NULL) throw new UnreadableHeap('an element of a collection is missing');
  return optionValue(heap, value);
}

/** Returns the value in an option. */
export function optionValue(heap: HeapReader, value: bigint): bigint {
  if (!heap.isPointer(value)) return value;
  const object = heap.object(value);
  return object.tag === TAG.SOME ? heap.part(object, 0) : value;
}
