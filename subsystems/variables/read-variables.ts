/**
 * Answers about one copy of an actor's state: its variables, and the value of one. Answers are JSON, of at most
 * ANSWER_BYTES_MAX, made in ANSWER_MS_MAX.
 *
 * Worker thread.
 */
import { ServerError } from '../../kernel/index.ts';
import { readSignature, type Signature, signatureText, UnreadableSignature } from '../compatibility/signature/index.ts';
import { Budget } from './budget.ts';
import { collectionOf, optionValue } from './collections.ts';
import { type HeapObject, HeapReader, TAG, UnreadableHeap } from './heap-reader.ts';
import { sizeOfValue } from './object-sizes.ts';
import { type StableVariable, TypeNames, variablesOf } from './stable-types.ts';
import { follow, noVariable, readPath } from './value-path.ts';
import { ValueWriter } from './value-writer.ts';

/** Characters from which on nothing more is begun; what is begun then, and the list of cuts, fit into the rest. */
const VALUE_CHARACTERS_MAX = 640 * 1024;
export const ANSWER_BYTES_MAX = 1024 * 1024;
const ANSWER_MS_MAX = 500;
const TYPE_CHARACTERS_MAX = 2_000;
const LISTED_MAX = 2_000;

/** A copy to read, and what is asked about it. */
export interface VariablesRequest {
  /** Text of the module's section `motoko:stable-types`; undefined: it has none. */
  readonly signature: string | undefined;
  /** Why no values are read; undefined: they are. */
  readonly reason: string | undefined;
  readonly heap: Uint8Array;
  /** Members of the answer that others know. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** Undefined: the list of variables. */
  readonly asked: { readonly path: string; readonly from: number; readonly count: number } | undefined;
}

/** Returns the answer, UTF-8 JSON. Throws ServerError. */
export function answerTo(request: VariablesRequest): Uint8Array {
  const { asked } = request;
  const text = asked === undefined ? listText(request) : valueText(request, asked);
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > ANSWER_BYTES_MAX)
    throw new ServerError(
      'invalid',
      'variables-too-large',
      'this value has more bytes of JSON than an answer: ask for a part of it',
    );
  return bytes;
}

function listText({ signature, reason, heap, facts }: VariablesRequest): string {
  const found = signature === undefined ? undefined : signatureIn(signature);
  const variables = found === undefined || typeof found === 'string' ? [] : variablesOf(found);
  const names = found === undefined || typeof found === 'string' ? undefined : new TypeNames(found);
  let problem = reason ?? (typeof found === 'string' ? found : undefined);
  let sizes: readonly unknown[] = [];
  if (problem === undefined) {
    try {
      sizes = sizesOf(new HeapReader(heap), variables);
    } catch (error) {
      if (!(error instanceof UnreadableHeap)) throw error;
      problem = error.message;
    }
  }
  const listed = variables.slice(0, LISTED_MAX).map(({ name, isMutable, type, written }, k) => ({
    name,
    type: signatureText(written, TYPE_CHARACTERS_MAX),
    mutable: isMutable,
    collection: (names && collectionOf(names.resolved(type), names)?.kind) ?? null,
    size: sizes[k] ?? null,
  }));
  const more = variables.length - listed.length;
  return JSON.stringify({ ...facts, decoded: problem === undefined, reason: problem ?? null, variables: listed, more });
}

function sizesOf(heap: HeapReader, variables: readonly StableVariable[]): readonly unknown[] {
  const record = heap.stableRecord();
  const endMs = performance.now() + ANSWER_MS_MAX;
  return variables.slice(0, LISTED_MAX).map(({ hash }) => {
    const value = valueIn(heap, record, hash);
    if (value === undefined) return null;
    const { bytes, isComplete } = sizeOfValue(heap, value, () => performance.now() < endMs);
    return { bytes, complete: isComplete };
  });
}

/** Returns a signature, or the reason why it cannot be read. */
function signatureIn(text: string): Signature | string {
  try {
    return readSignature(text);
  } catch (error) {
    if (!(error instanceof UnreadableSignature)) throw error;
    return `the module's section motoko:stable-types cannot be read: ${error.message}`;
  }
}

function valueText(
  { signature, reason, heap: bytes, facts }: VariablesRequest,
  { path, from, count }: NonNullable<VariablesRequest['asked']>,
): string {
  const found = signature === undefined ? undefined : signatureIn(signature);
  if (reason !== undefined || found === undefined || typeof found === 'string')
    throw undecoded(reason ?? (typeof found === 'string' ? found : 'the module does not say its variables'));
  const { name, steps } = readPath(path);
  const variables = variablesOf(found);
  const variable = variables.find((each) => each.name === name);
  if (variable === undefined)
    throw noVariable(
      name,
      variables.map((each) => each.name),
    );
  const names = new TypeNames(found);
  const budget = new Budget(VALUE_CHARACTERS_MAX, ANSWER_MS_MAX);
  try {
    const heap = new HeapReader(bytes);
    const value = valueIn(heap, heap.stableRecord(), variable.hash);
    if (value === undefined) throw new UnreadableHeap(`the stable record has no field ${name}`);
    const place = follow(heap, names, { value, type: variable.type }, path, steps, budget);
    const writer = new ValueWriter(heap, names, budget, path, { from, count });
    writer.write(place.value, place.type);
    const { shown, cuts, cutsMore } = writer;
    const rest = { total: shown?.total ?? null, from: shown?.from ?? null, next: shown?.next ?? null, cuts, cutsMore };
    const head = JSON.stringify({ ...facts, path, type: signatureText(variable.written, TYPE_CHARACTERS_MAX) });
    return `${head.slice(0, -1)},"value":${writer.text},${JSON.stringify(rest).slice(1)}`;
  } catch (error) {
    if (error instanceof UnreadableHeap) throw undecoded(error.message);
    throw error;
  }
}

/**
 * Returns a variable's value in the record that the upgrade hook has left, in which each is an option; undefined: it is
 * not there.
 */
function valueIn(heap: HeapReader, record: HeapObject, hash: number): bigint | undefined {
  const value = heap.field(record, hash);
  if (value === undefined) return undefined;
  const object = heap.isPointer(value) ? heap.object(value) : undefined;
  return optionValue(heap, object?.tag === TAG.BOX ? heap.part(object, 0) : value);
}

function undecoded(why: string): ServerError {
  return new ServerError('invalid', 'variables-undecoded', `the value cannot be decoded: ${why}`);
}
