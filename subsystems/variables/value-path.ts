/**
 * Ways to parts of variables: `users[3].name`. A path follows the JSON of the value: `.name` for a field of an object
 * and the payload of a variant with that tag, `[3]` for an element of an array, a tuple, a map (a pair) or a list, and
 * for the value of an option that JSON shows in brackets; other options have no step of their own.
 *
 * Worker thread.
 */
import { at, ServerError, suggestionFor } from '../../kernel/index.ts';
import type { Budget } from './budget.ts';
import { collectionOf, elementsOf, optionValue, sizeOf } from './collections.ts';
import { type HeapReader, NULL, TAG } from './heap-reader.ts';
import type { StableType, TypeNames } from './stable-types.ts';
import { isOptional } from './value-writer.ts';

const STEPS_MAX = 1_000;
const STEP = /^(?:\.([A-Za-z_]\w*)|\[(\d{1,15})\])/;

type Step = string | number;

/** Returns the variable and the steps that a path names. Throws ServerError `variables-path`. */
export function readPath(path: string): { readonly name: string; readonly steps: readonly Step[] } {
  const name = /^[A-Za-z_]\w*/.exec(path)?.[0];
  if (name === undefined) throw badPath(path, 'a path begins with the name of a variable, as in users[3].name');
  const steps: Step[] = [];
  let rest = path.slice(name.length);
  while (rest !== '') {
    const match = STEP.exec(rest);
    if (match === null || steps.length === STEPS_MAX)
      throw badPath(path, `expected .field or [number] at ${JSON.stringify(rest.slice(0, 40))}`);
    steps.push(match[1] ?? Number(match[2]));
    rest = rest.slice(match[0].length);
  }
  return { name, steps };
}

interface Place {
  readonly value: bigint;
  readonly type: StableType;
}

/** Follows steps from a value. Throws ServerError `variables-path`, and UnreadableHeap. */
export function follow(
  heap: HeapReader,
  names: TypeNames,
  start: Place,
  path: string,
  steps: readonly Step[],
  budget: Budget,
): Place {
  let place = start;
  for (const step of steps) {
    budget.pass();
    place = stepInto(heap, names, place, path, step, budget);
  }
  return place;
}

function stepInto(heap: HeapReader, names: TypeNames, place: Place, path: string, step: Step, budget: Budget): Place {
  const type = names.resolved(place.type);
  const { value } = place;
  if (type.kind === 'option') {
    if (value === NULL) throw badPath(path, `there is nothing at ${shown(step)}: the option is null`);
    const inner = { value: optionValue(heap, value), type: type.of };
    if (!isOptional(names.resolved(type.of))) return stepInto(heap, names, inner, path, step, budget);
    if (step !== 0) throw badPath(path, `an option within an option has the step [0], not ${shown(step)}`);
    return inner;
  }
  const collection = collectionOf(type, names);
  if (collection !== undefined) {
    const k = indexIn(path, step, sizeOf(heap, value, collection));
    for (const element of elementsOf(heap, value, collection, k, budget.pass))
      return { value: element, type: collection.of };
    throw badPath(path, `${shown(step)} is not there`);
  }
  switch (type.kind) {
    case 'array': {
      const array = heap.object(value, TAG.ARRAY, TAG.MUTABLE_ARRAY);
      return { value: heap.element(array, indexIn(path, step, heap.lengthOf(array))), type: type.of };
    }
    case 'tuple': {
      const k = indexIn(path, step, type.of.length);
      return { value: heap.element(heap.object(value, TAG.TUPLE), k), type: at(type.of, k, 'part of a tuple') };
    }
    case 'object': {
      const field = type.fields.find(({ name }) => name === step);
      if (field === undefined) throw noName(path, step, 'field', type.fields);
      const object = heap.object(value, TAG.OBJECT);
      const slot = heap.field(object, field.hash);
      if (slot === undefined) throw badPath(path, `the object has no field ${field.name}`);
      return { value: field.isMutable ? heap.part(heap.object(slot, TAG.BOX), 0) : slot, type: field.type };
    }
    case 'variant': {
      const tag = type.tags.find(({ name }) => name === step);
      if (tag === undefined) throw noName(path, step, 'tag', type.tags);
      const variant = heap.object(value, TAG.VARIANT);
      if (heap.part(variant, 0) !== BigInt(tag.hash))
        throw badPath(path, `the variant has another tag than ${tag.name} now`);
      return { value: heap.part(variant, 1), type: tag.type };
    }
    default:
      throw badPath(path, `the value before ${shown(step)} has no parts`);
  }
}

function shown(step: Step): string {
  return typeof step === 'number' ? `[${step}]` : `.${step.slice(0, 40)}`;
}

function indexIn(path: string, step: Step, length: number): number {
  if (typeof step !== 'number') throw badPath(path, `expected a number in brackets instead of ${shown(step)}`);
  if (step >= length) throw badPath(path, `${shown(step)} is not there: there are ${length} elements`);
  return step;
}

function noName(path: string, step: Step, what: string, known: readonly { readonly name: string }[]): ServerError {
  const names = known.map(({ name }) => name);
  return badPath(
    path,
    `there is no ${what} ${shown(step)}${typeof step === 'string' ? suggestionFor(step, names) : ''}`,
  );
}

const SHOWN_PATH_MAX = 80;

function badPath(path: string, why: string): ServerError {
  const text = path.length > SHOWN_PATH_MAX ? `${path.slice(0, SHOWN_PATH_MAX)}…` : path;
  return new ServerError('invalid', 'variables-path', `path ${JSON.stringify(text)}: ${why}`);
}

/** Returns the error for a variable that an actor does not have. */
export function noVariable(name: string, known: readonly string[]): ServerError {
  return badPath(name, `the actor has no stable variable of that name${suggestionFor(name, known)}`);
}
