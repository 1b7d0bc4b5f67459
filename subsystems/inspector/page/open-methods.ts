/** Rules of methods that answer requests without the token (docs/http.md, "Open methods"). */
import type { Actor } from './api.ts';

/** A method that may be opened. */
export interface OpenableMethod {
  readonly name: string;
  readonly kind: string;
}

/**
 * Returns the methods that may be open, as the server decides it: those of the code and of its interface, none that is
 * internal. `described` is undefined if no interface is known.
 */
export function openableMethods(
  { methods, isPartial }: Pick<Actor, 'methods' | 'isPartial'>,
  described: readonly OpenableMethod[] | undefined,
): readonly OpenableMethod[] {
  // A token that does not see the code may see the interface.
  const all = isPartial === true ? (described ?? []) : methods;
  const names = described === undefined ? undefined : new Set(described.map(({ name }) => name));
  return all.filter(({ name }) => !isInternal(name) && (names === undefined || names.has(name)));
}

function isInternal(name: string): boolean {
  return name.startsWith('__motoko') || name.startsWith('@') || name.startsWith('canister_') || name.includes(' ');
}

/** Choice of methods: those that are open, as the server has told, and what somebody has ticked since. */
export interface OpenChoice {
  readonly told: readonly string[];
  /** Names whose tick was changed. */
  readonly changed: ReadonlySet<string>;
}

/** Names of a choice by what saving it does to them. */
interface OpenChange {
  /** All that are open afterwards, in the order of the methods. */
  readonly open: readonly string[];
  readonly opens: readonly OpenableMethod[];
  readonly closes: readonly string[];
  /** Ticked names that the code does not have any more. */
  readonly gone: readonly string[];
}

export function changeOf({ told, changed }: OpenChoice, methods: readonly OpenableMethod[]): OpenChange {
  const isOpen = new Set(told);
  const isWanted = (name: string): boolean => isOpen.has(name) !== changed.has(name);
  const names = new Set(methods.map(({ name }) => name));
  const open = methods.filter(({ name }) => isWanted(name));
  return {
    open: open.map(({ name }) => name),
    opens: open.filter(({ name }) => !isOpen.has(name)),
    closes: told.filter((name) => names.has(name) && !isWanted(name)),
    gone: [...changed].filter((name) => !names.has(name)),
  };
}

/** Returns what a change does, in plain words. `list` writes names for people. */
export function changeTells({ opens, closes }: OpenChange, list: (names: readonly string[]) => string): string {
  const writing = opens.filter(({ kind }) => kind === 'update' || kind === 'oneway').map(({ name }) => name);
  const parts: string[] = [];
  if (opens.length > 0) {
    parts.push(
      `Whoever reaches this server may call ${list(opens.map(({ name }) => name))} without a token, as the anonymous ` +
        'caller, as often as the server can take it.',
    );
  }
  if (writing.length > 0) parts.push(`${list(writing)} can change the state.`);
  if (closes.length > 0) {
    parts.push(`${list(closes)} needs a token again: other calls get 401, and live queries without one end.`);
  }
  return [...parts, 'It counts at once. The list of the manifest, if it has one, is set again at each start.'].join(
    ' ',
  );
}
