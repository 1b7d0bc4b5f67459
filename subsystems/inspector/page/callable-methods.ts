import type { Actor } from './api.ts';
import type { DidMethod } from './candid/did-types.ts';

/** A method in the form in which it can be called here; without known types, only with lossless JSON. */
export interface CallableMethod {
  readonly name: string;
  readonly kind: string;
  readonly described: DidMethod | undefined;
}

/** Returns the methods of the interface in its order, then those that only the module has. */
export function callableMethods(
  { methods }: Pick<Actor, 'methods'>,
  described: readonly DidMethod[],
): readonly CallableMethod[] {
  const names = new Set(described.map(({ name }) => name));
  const exported = new Map(methods.map(({ name, kind }) => [name, kind]));
  const others = methods.filter(({ name }) => !names.has(name));
  return [
    ...described.map((method) => ({
      name: method.name,
      kind: kindOf(method, exported.get(method.name)),
      described: method,
    })),
    ...others.map(({ name, kind }) => ({ name, kind, described: undefined })),
  ];
}

/**
 * Returns the kind as the module exports it, since an interface may call an update `query`. Only the interface says
 * that a method is one-way.
 */
function kindOf({ kind }: DidMethod, exported: string | undefined): string {
  return exported === undefined || (exported === 'update' && kind === 'oneway') ? kind : exported;
}
