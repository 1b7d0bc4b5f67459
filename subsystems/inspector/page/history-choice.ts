/** Choice among the messages of a history, and the tree of messages that one has caused. */
import type { ActorMessage, HistoryEntry } from './api.ts';

/** Chosen value of each; empty: all. */
export interface HistoryChoice {
  readonly method: string;
  readonly outcome: string;
  readonly caller: string;
}

export const ALL_MESSAGES: HistoryChoice = { method: '', outcome: '', caller: '' };

type Chosen = Pick<HistoryEntry, 'method' | 'kind' | 'outcome' | 'caller'>;

/** Returns the name by which a message is chosen: installations and upgrades have no method. */
function methodOf({ method, kind }: Pick<Chosen, 'method' | 'kind'>): string {
  return method === '' ? `(${kind})` : method;
}

export function chosenOf<E extends Chosen>(entries: readonly E[], choice: HistoryChoice): readonly E[] {
  return entries.filter(
    (entry) =>
      (choice.method === '' || methodOf(entry) === choice.method) &&
      (choice.outcome === '' || entry.outcome === choice.outcome) &&
      (choice.caller === '' || entry.caller === choice.caller),
  );
}

/** Returns what can be chosen, each once, in order; what is chosen stays there though no message has it any more. */
export function optionsOf(entries: readonly Chosen[], choice: HistoryChoice): Record<keyof HistoryChoice, string[]> {
  const options = (of: (entry: Chosen) => string, chosen: string): string[] =>
    [...new Set([...entries.map(of), ...(chosen === '' ? [] : [chosen])])].toSorted();
  return {
    method: options(methodOf, choice.method),
    outcome: options(({ outcome }) => outcome, choice.outcome),
    caller: options(({ caller }) => caller, choice.caller),
  };
}

/** A message in its tree. */
export interface TreeRow {
  readonly message: ActorMessage;
  /** Number of messages above it. */
  readonly depth: number;
}

/**
 * Returns the messages in the order of a tree: each behind its cause, in the order in which they were sent. One whose
 * cause is not there begins a tree of its own.
 */
export function treeOf(messages: readonly ActorMessage[]): readonly TreeRow[] {
  const ids = new Set(messages.map(({ id }) => id));
  const below = new Map<string, ActorMessage[]>();
  const roots: ActorMessage[] = [];
  for (const message of messages) {
    const { cause, id } = message;
    if (cause === undefined || cause === null || cause === id || !ids.has(cause)) roots.push(message);
    else below.set(cause, [...(below.get(cause) ?? []), message]);
  }
  const rows: TreeRow[] = [];
  // No recursion: a chain of calls may be longer than the stack is deep.
  const open = roots.toReversed().map((message) => ({ message, depth: 0 }));
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { message, depth } = next;
    rows.push(next);
    const children = below.get(message.id) ?? [];
    below.delete(message.id);
    open.push(...children.toReversed().map((child) => ({ message: child, depth: depth + 1 })));
  }
  return rows;
}
