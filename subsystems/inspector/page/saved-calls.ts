/** Calls that somebody has saved in this browser, over all actors; they outlive tabs and tokens. */
import { sharedCallOf, type SharedCall } from './place.ts';
import { recall, remember } from './storage.ts';

export interface SavedCall {
  readonly name: string;
  readonly actor: string;
  readonly method: string;
  readonly shared: SharedCall;
}

/** Entry of `localStorage`. */
export const SAVED_KEY = 'svc-inspector-saved-calls';
const CALLS_MAX = 100;
/** Largest length of one call: all together stay below what browsers keep for an origin. */
const CHARACTERS_MAX = 20_000;
/** Functions of this tab that show the calls: the browser's event is for other tabs. */
const listeners = new Set<() => void>();

export const NAME_CHARACTERS_MAX = 80;

/** Returns the saved calls in the order of their names; what is broken, or somebody else's, is left out. */
export function savedCalls(): readonly SavedCall[] {
  return readCalls(recall('localStorage', SAVED_KEY) ?? '[]');
}

/** Reads the stored text. */
export function readCalls(text: string): readonly SavedCall[] {
  try {
    const stored: unknown = JSON.parse(text);
    if (!Array.isArray(stored)) return [];
    return stored.flatMap((entry: unknown) => callIn(entry) ?? []).slice(0, CALLS_MAX);
  } catch {
    return [];
  }
}

function callIn(entry: unknown): SavedCall | undefined {
  if (typeof entry !== 'object' || entry === null) return undefined;
  const { name, actor, method, shared } = entry as Readonly<Record<string, unknown>>;
  if (typeof name !== 'string' || typeof actor !== 'string' || typeof method !== 'string') return undefined;
  if (typeof shared !== 'object' || shared === null || name === '' || actor === '') return undefined;
  return { name, actor, method, shared: sharedCallOf(shared as Readonly<Record<string, unknown>>) };
}

/** Returns the calls with this one in place of that of the same actor and name. Throws an Error if it is too much. */
export function withCall(calls: readonly SavedCall[], call: SavedCall): readonly SavedCall[] {
  if (call.name === '') throw new Error('type a name');
  if (call.name.length > NAME_CHARACTERS_MAX) throw new Error(`a name has at most ${NAME_CHARACTERS_MAX} characters`);
  if (JSON.stringify(call).length > CHARACTERS_MAX)
    throw new Error('the arguments are too long to be saved: copy them');
  const all = [...withoutCall(calls, call), call];
  if (all.length > CALLS_MAX) throw new Error(`${CALLS_MAX} calls are saved: delete one first`);
  return all.toSorted((left, right) => (left.name < right.name ? -1 : left.name > right.name ? 1 : 0));
}

/** Returns the calls without this one. */
export function withoutCall(calls: readonly SavedCall[], { name, actor }: SavedCall): readonly SavedCall[] {
  return calls.filter((other) => other.name !== name || other.actor !== actor);
}

/** Saves a call beside those that other tabs have saved meanwhile. Throws an Error with the reason if it cannot. */
export function saveCall(call: SavedCall): void {
  const text = JSON.stringify(withCall(savedCalls(), call));
  remember('localStorage', SAVED_KEY, text);
  if (recall('localStorage', SAVED_KEY) !== text) throw new Error('this browser keeps nothing for this page');
  for (const changed of listeners) changed();
}

export function deleteCall(call: SavedCall): void {
  remember('localStorage', SAVED_KEY, JSON.stringify(withoutCall(savedCalls(), call)));
  for (const changed of listeners) changed();
}

/** Calls `changed` when this tab has changed the saved calls; returns what ends that. */
export function onSavedCalls(changed: () => void): () => void {
  listeners.add(changed);
  return () => void listeners.delete(changed);
}
