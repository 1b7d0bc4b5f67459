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

/**
 * Returns true if a client takes gzip and does not prefer bytes as they are (RFC 9110, 12.5.3): a coding's own weight
 * counts before that of `*`, and what is not named, without `*`, is not taken.
 */
export function takesGzip(acceptEncoding: string | undefined): boolean {
  const weights = new Map<string, number>();
  for (const range of acceptEncoding?.split(',') ?? []) {
    const [name = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const quality = parameters.find((parameter) => parameter.startsWith('q='));
    weights.set(name, quality === undefined ? 1 : Number(quality.slice(2)) || 0);
  }
  const gzip = weights.get('gzip') ?? weights.get('x-gzip') ?? weights.get('*') ?? 0;
  return gzip > 0 && gzip >= (weights.get('identity') ?? 0);
}
