/**
 * Returns the type of `offered` to which `Accept` gives the highest weight, the one that is named first of equal ones.
 * Undefined: it names none of them.
 */
export function preferredType<T extends string>(accept: string | undefined, offered: readonly T[]): T | undefined {
  let best: { readonly type: T | undefined; readonly weight: number } = { type: undefined, weight: 0 };
  for (const range of accept?.split(',') ?? []) {
    const [name = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const type = offered.find((each) => each === name);
    if (type === undefined) continue;
    const quality = parameters.find((parameter) => parameter.startsWith('q='));
    const weight = quality === undefined ? 1 : Number(quality.slice(2)) || 0;
    if (weight > best.weight) best = { type, weight };
  }
  return best.type;
}

/** Returns true if `Accept` prefers JSON to plain text. */
export function prefersJson(accept: string | undefined): boolean {
  return preferredType(accept, ['application/json', 'text/plain']) === 'application/json';
}
