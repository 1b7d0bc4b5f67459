/** Stable variables as the server tells them (docs/variables.md), and ways to parts of their values. */
import type { Api } from './api.ts';
import { ApiError } from './api-errors.ts';

interface StableVariable {
  readonly name: string;
  readonly type: string;
  readonly mutable: boolean;
  readonly collection: string | null;
  /** Null where values are not decoded. */
  readonly size: { readonly bytes: number; readonly complete: boolean } | null;
}

/** Variables of an actor, without values. */
export interface VariableList {
  readonly copy: number;
  readonly persistence: string | null;
  readonly heapBytes: number;
  readonly stableBytes: number;
  readonly stableUsedBytes: number;
  /** In hex. */
  readonly certifiedData: string;
  readonly decoded: boolean;
  /** Null where values are decoded. */
  readonly reason: string | null;
  readonly variables: readonly StableVariable[];
  /** Number of variables that are left out. */
  readonly more: number;
}

/** A part of a value that an answer had no room for. */
export interface Cut {
  readonly path: string;
  readonly total: number | null;
  readonly next: number;
}

/** The value of a variable, or of a part of it. */
export interface VariableValue {
  readonly copy: number;
  readonly path: string;
  /** JSON exactly as it came: numbers may have more digits than JavaScript's. */
  readonly json: string;
  /** Number of elements, or bytes; null: the value is no sequence. */
  readonly total: number | null;
  readonly from: number | null;
  /** Where the next part begins; null: there is none. */
  readonly next: number | null;
  readonly cuts: readonly Cut[];
  readonly cutsMore: number;
  /** Ways to parts of the value, the first of them. */
  readonly parts: readonly string[];
}

/** Choice of a value. */
interface VariableRequest {
  readonly path: string;
  readonly from: number;
  /** Copy that other answers were about; undefined: the newest. */
  readonly copy: number | undefined;
}

/** Parts that are offered as steps: more are reached by their path. */
const PARTS_MAX = 200;

/** Ms between two questions about a state that is being copied: the pause that the server names. */
const COPY_PAUSE_MS = 1_000;
/** Questions about a state that is being copied; the server takes up to a second for each answer. */
const COPY_TRIES_MAX = 30;

const pathOf = (actor: string): `/x/actors/${string}` => `/x/actors/${encodeURIComponent(actor)}/variables`;

export async function variablesOf(api: Api, actor: string, signal: AbortSignal): Promise<VariableList> {
  return JSON.parse(await textOf(api, pathOf(actor), signal)) as VariableList;
}

export async function variableAt(
  api: Api,
  actor: string,
  { path, from, copy }: VariableRequest,
  signal: AbortSignal,
): Promise<VariableValue> {
  const query = new URLSearchParams({ path });
  if (from > 0) query.set('from', String(from));
  if (copy !== undefined) query.set('copy', String(copy));
  const text = await textOf(api, `${pathOf(actor)}?${query.toString()}`, signal);
  const answer = JSON.parse(text) as Omit<VariableValue, 'json' | 'parts'> & { readonly value: unknown };
  return { ...answer, json: memberText(text, 'value'), parts: partsOf(answer.value, path, answer.from ?? 0) };
}

/** Reads an answer, and asks again while the server copies a state; fails with its refusal if that takes too long. */
async function textOf(api: Api, path: `/x/actors/${string}`, signal: AbortSignal): Promise<string> {
  for (let tries = 1; ; tries++) {
    try {
      return await api.text(path, signal);
    } catch (error) {
      if (tries === COPY_TRIES_MAX || !isCopying(error)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, COPY_PAUSE_MS));
    signal.throwIfAborted();
  }
}

/**
 * Tells if a refusal is `variables-copying` or `variables-busy` (docs/errors.md), which end by themselves. An answer
 * has no such names, only status and text.
 */
export function isCopying(error: unknown): boolean {
  return error instanceof ApiError && error.status === 503 && error.message.endsWith('; try again in a second');
}

/** Returns the text of a member of a JSON object without blanks, as the server writes it; empty: there is none. */
export function memberText(json: string, member: string): string {
  let depth = 0;
  let start = -1;
  for (let at = 0; at < json.length; at++) {
    const sign = json[at];
    if (sign === '"') {
      const begin = at + 1;
      while (++at < json.length && json[at] !== '"') if (json[at] === '\\') at++;
      if (depth === 1 && start < 0 && json[at + 1] === ':' && json.slice(begin, at) === member) start = at + 2;
    } else if (sign === '{' || sign === '[') depth++;
    else if (sign === '}' || sign === ']') depth--;
    if (start >= 0 && at >= start && ((sign === ',' && depth === 1) || depth === 0)) return json.slice(start, at);
  }
  return '';
}

/** Returns paths to the parts of a value whose first element is the one with this number. */
function partsOf(value: unknown, path: string, from: number): readonly string[] {
  if (Array.isArray(value)) return value.slice(0, PARTS_MAX).map((_, index) => `${path}[${from + index}]`);
  if (value === null || typeof value !== 'object') return [];
  // Other names have no step in the server's paths.
  const fields = Object.keys(value).filter((name) => /^[A-Za-z_]\w*$/.test(name));
  return fields.slice(0, PARTS_MAX).map((name) => `${path}.${name}`);
}

/** Returns the paths that lead to this one, from the variable on. */
export function waysTo(path: string): readonly string[] {
  const steps = [...path.matchAll(/^[A-Za-z_]\w*|\.[A-Za-z_]\w*|\[\d+\]/g)];
  return steps.map((step) => path.slice(0, step.index + step[0].length));
}
