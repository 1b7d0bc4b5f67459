/** Rows of the route table for a service on several servers (`docs/several-machines.md`). */
import type { RouteSpec } from './route-spec.ts';

export const CLUSTER_ROUTES = [
  {
    method: 'GET',
    path: '/x/cluster',
    access: 'token',
    scope: 'inspect',
    job: 'cluster',
    request: '',
    answer: 'the servers of this service and their shards, JSON (`docs/several-machines.md`)',
  },
] as const satisfies readonly RouteSpec[];
