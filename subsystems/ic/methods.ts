/** How a method is exported. */
export type MethodKind = 'update' | 'query' | 'composite_query';
/** How a message reaches a method: a query method called as `update` runs replicated, its changes are dropped all the same. */
export type CallKind = 'update' | 'query';
/** How a method is run: as one of them, or, a query, as the transform of an outcall. */
export type RunKind = CallKind | 'transform';
