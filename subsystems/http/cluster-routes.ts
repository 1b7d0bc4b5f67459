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
  {
    method: 'POST',
    path: '/x/cluster/drain',
    isAudited: true,
    access: 'token',
    scope: 'backup',
    query: { seconds: undefined },
    job: 'drain',
    request: '`seconds`: how long it goes on serving, 0 to 3600, 10 without it',
    answer: '`draining`: `/health/ready` is 503 from now on; then the server hands its shard over and ends',
  },
  {
    method: 'POST',
    path: '/x/cluster/move/:actor',
    isAudited: true,
    access: 'token',
    scope: 'move',
    job: 'move',
    request: '`{"shard": K}`',
    answer: '`moved`: the shard has the actor (`docs/several-machines.md`)',
  },
] as const satisfies readonly RouteSpec[];
