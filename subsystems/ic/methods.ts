/** Kinds of exported methods. */
export type MethodKind = 'update' | 'query' | 'composite_query';
/** Kinds of calls. A query method called as `update` runs replicated, but its changes are still dropped. */
export type CallKind = 'update' | 'query';
/** Kinds of runs: one of these calls, or, for a query method, the transform of an outcall. */
export type RunKind = CallKind | 'transform';
