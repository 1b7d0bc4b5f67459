/** Returns the members of the object and of its classes by name; a member of a nearer class wins. */
function membersOf(object: object): ReadonlyMap<string, PropertyDescriptor> {
  const members = new Map<string, PropertyDescriptor>();
  for (
    let from: object | null = object;
    from !== null && from !== Object.prototype;
    from = Object.getPrototypeOf(from) as object | null
  )
    for (const [name, member] of Object.entries(Object.getOwnPropertyDescriptors(from)))
      if (name !== 'constructor' && !members.has(name)) members.set(name, member);
  return members;
}

/**
 * Returns an object like `own`, but with these members instead: for a plugin that changes little of the object it
 * wraps. Methods are called on `own`, and values are read from it whenever they are read here.
 */
export function around<T extends object>(own: T, changes: Partial<T>): T {
  const wrapped = {};
  for (const [name, { value }] of membersOf(own)) {
    if (Object.hasOwn(changes, name)) continue;
    const forward: PropertyDescriptor =
      typeof value === 'function'
        ? { value: (value as (...values: unknown[]) => unknown).bind(own) }
        : { get: () => (own as Readonly<Record<string, unknown>>)[name] };
    Object.defineProperty(wrapped, name, { ...forward, enumerable: true });
  }
  // Getters among the changes stay getters.
  return Object.defineProperties(wrapped, Object.getOwnPropertyDescriptors(changes)) as T;
}
