/**
 * An interface that was given for a module (`candid` of the manifest, `PUT /candid`) is kept when the module changes,
 * and may describe methods that the new module lacks. So the exports of the modules are compared besides the texts.
 */
import type { MethodKind as DescribedKind } from '../codec/index.ts';
import type { MethodKind } from '../ic/index.ts';
import type { ComparedCode, ComparedUpgrade } from './index.ts';

/** Ways in which a method may be exported, so that it can be called as its interface describes it. */
const EXPORTED_AS: Readonly<Record<DescribedKind, readonly MethodKind[]>> = {
  update: ['update', 'query'],
  oneway: ['update', 'query'],
  query: ['query'],
  composite_query: ['query', 'composite_query'],
};

/**
 * Returns the methods that both interfaces describe and the old module had, but that the new one lacks, or exports in a
 * way that callers cannot use.
 */
export function unservedMethods({ from, to }: Pick<ComparedUpgrade, 'from' | 'to'>): readonly string[] {
  return [...(to.candid?.methods.keys() ?? [])].filter((name) => isServed(from, name) && !isServed(to, name));
}

function isServed({ candid, methods }: ComparedCode, name: string): boolean {
  const described = candid?.methods.get(name);
  const exported = methods.get(name);
  return described !== undefined && exported !== undefined && EXPORTED_AS[described.kind].includes(exported);
}
