/**
 * A typed name for something one plugin provides and others require.
 * The token carries the type only at compile time; at run time it is its name.
 */
export interface Capability<out T> {
  readonly name: string;
  /** Never set: keeps `Capability<A>` and `Capability<B>` apart for the compiler. */
  readonly phantom?: () => T;
}

/** Declares a capability; by convention a `const` of the same name as the interface. */
export function defineCapability<T>(name: string): Capability<T> {
  return Object.freeze({ name });
}
